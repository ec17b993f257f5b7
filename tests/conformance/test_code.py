"""Running code: state, output in every form, every way a run can end."""
import base64
import concurrent.futures
import json
import os
import signal
import time

import pytest

from conftest import CAP
from stack import wait_until

GRACE = 12  # seconds the design allows past a deadline, and a little for the machine


def test_state_output_and_result(client, fresh):
    client.run(fresh, "x = 41")
    result = client.run(fresh, "print('out'); import sys; print('err', file=sys.stderr); x + 1")
    assert (result["status"], result["reason"], result["exit_code"]) == ("ok", "completed", 0)
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")
    assert result["results"] == [{"data": {"text/plain": "42"}, "metadata": {}}]
    assert result["bytes"]["stdout"] == 4 and result["execution_count"] == 2
    assert (result["truncated"], result["runtime_invalidated"], result["session"]["state_lost"]) == (False, False, False)
    row = client.get("/v1/executions/" + result["execution_id"]).json()
    assert row["reason"] == "completed" and row["session_id"] == fresh
    assert client.run(fresh, "x;")["status"] == "ok"
    assert client.run(fresh, "None")["results"] == []
    assert client.run(fresh, "def f():\n    return 'ü'\n\nclass A: pass\nf()")["results"][0]["data"]["text/plain"] == "'ü'"


def test_errors_with_their_traceback(client, session):
    result = client.run(session, "print('before')\ndef inner():\n    1/0\ninner()")
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "exception", 1)
    assert (result["error_name"], result["error_value"], result["stdout"]) == ("ZeroDivisionError", "division by zero", "before\n")
    text = "".join(result["traceback"])
    assert "ZeroDivisionError" in text and "inner" in text
    assert client.run(session, "def broken(:\n")["error_name"] == "SyntaxError"
    assert client.run(session, "import sys; sys.exit(3)")["error_name"] == "SystemExit"
    result = client.run(session, "raise KeyboardInterrupt")
    assert (result["reason"], result["error_name"]) == ("exception", "KeyboardInterrupt")
    result = client.run(session, "raise ValueError('x' * 3_000_000)")
    assert result["error_name"] == "ValueError" and len(result["error_value"]) < 1 << 20
    assert client.run(session, "def f(): f()\nf()")["error_name"] == "RecursionError"
    result = client.run(session, "class E(Exception):\n  def __str__(self): 1/0\nraise E()")
    assert result["status"] == "error" and result["error_name"], "no name where the error itself fails"
    assert client.run(session, "print(inner.__name__)")["stdout"] == "inner\n"


def test_code_runs_as_it_is_in_the_workspace(client, session):
    result = client.run(session, "from __future__ import annotations\ndef f(x: Nowhere): pass\nprint(f.__annotations__)")
    assert result["stdout"] == "{'x': 'Nowhere'}\n", result
    client.put(f"/v1/sessions/{session}/files/mine.py", b"value = 'imported'")
    assert client.run(session, "import mine, os; print(mine.value, os.listdir('.') != [], __name__)")["stdout"] == "imported True __main__\n"
    left = client.run(session, "print([n for n in dir() if 'husk' in n.lower() or 'daytona' in n.lower()])")
    assert left["stdout"] == "[]\n"
    assert client.run(session, "")["status"] == "ok"
    assert client.run(session, "# nothing")["status"] == "ok"


@pytest.mark.parametrize("code,stdout", [
    ("print('left\\x00right')", "left\0right\n"), ("print('grüße \U0001f600')", "grüße \U0001f600\n"),
    ("print('S' + 'x' * 400_000 + 'E')", "S" + "x" * 400_000 + "E\n"), ("print('no end', end='')", "no end"),
    ("import sys; sys.stdout.write('w'); sys.stdout.flush(); print()", "w\n"),
], ids=["nul", "unicode", "400 kB", "no end of line", "flush"])
def test_text_arrives_as_it_is(client, session, code, stdout):
    assert client.run(session, code)["stdout"] == stdout


def test_pictures(client, session):
    code = ("import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as plt\n"
            "plt.plot([1, 2]); plt.title('t')\nplt.show()")
    client.run(session, "%matplotlib inline" if client.get(f"/v1/sessions/{session}").json()["backend"] == "jupyter" else "1")
    result = client.run(session, code.replace("matplotlib.use('Agg'); ", ""), timeout=60)
    assert result["status"] == "ok", result
    (plot,) = result["plots"]
    assert plot["format"] == "png" and plot["of"] == "display_data"
    assert base64.b64decode(plot["content_base64"])[:8] == b"\x89PNG\r\n\x1a\n"
    assert "image/png" not in result["display_data"][plot["index"]]["data"]


def test_display(client, session):
    result = client.run(session, "display({'text/html': '<b>x</b>'}, raw=True)")
    assert result["display_data"][0]["data"]["text/html"] == "<b>x</b>"
    result = client.run(session, "h = display('one', display_id=True)\nfor i in range(9): h.update(f'step {i}')")
    assert [d["data"]["text/plain"] for d in result["display_data"]] == ["'step 8'"]
    result = client.run(session, "class H:\n  def _repr_html_(self): return '<i>h</i>'\nH()")
    assert result["results"][0]["data"]["text/html"] == "<i>h</i>" and "H" in result["results"][0]["data"]["text/plain"]
    result = client.run(session, "display({'text/html': 'x' * 3_000_000}, raw=True); print('after')")
    assert result["truncated"] is True and result["stdout"] == "after\n" and result["bytes"]["rich"] >= 3_000_000
    shown = client.run(session, "display({'application/json': {'a': float('nan')}}, raw=True)")["display_data"][0]["data"]
    assert shown["application/json"]["a"] in (None, "nan")


def test_await(client, session):
    result = client.run(session, "import asyncio\nawait asyncio.sleep(0.01)\nprint('slept')\nawait asyncio.sleep(0, 5)")
    assert result["stdout"] == "slept\n" and result["results"][0]["data"]["text/plain"] == "5"


def test_lines_of_ipython(client, session, differs):
    result = client.run(session, "!echo from the shell")
    if differs("magics"):
        assert result["error_name"] == "SyntaxError"
    else:
        assert result["stdout"].strip() == "from the shell"
    assert client.run(session, "print(1)")["stdout"] == "1\n"


def test_the_cap_keeps_head_and_tail(client, session):
    result = client.run(session, "print('S' + 'ü' * 1_500_000 + 'E')")
    assert result["truncated"] is True and result["bytes"]["stdout"] == 2 * 1_500_000 + 3
    assert result["stdout"].startswith("Sü") and result["stdout"].endswith("üE\n")
    assert len(result["stdout"].encode()) < CAP + 4096
    assert client.run(session, "print('next')")["stdout"] == "next\n"


def test_a_flood_is_stopped(client, session):
    began = time.monotonic()
    result = client.run(session, "import time\nwhile True: print('x' * 100_000); time.sleep(0.002)", timeout=50)
    assert result["reason"] == "output_limit" and result["truncated"] is True
    assert time.monotonic() - began < 40
    assert client.run(session, "print(1)")["stdout"] == "1\n"


def test_a_deadline_interrupts(client, session):
    client.run(session, "kept = 1")
    began = time.monotonic()
    result = client.run(session, "print('part', flush=True)\nimport time; time.sleep(99)", timeout=1)
    assert time.monotonic() - began < 1 + GRACE
    assert (result["status"], result["reason"], result["exit_code"]) == ("error", "timeout", -1)
    assert result["stdout"] == "part\n" and result["runtime_invalidated"] is False
    assert client.run(session, "print(kept)")["stdout"] == "1\n"


def test_what_ignores_the_interrupt_is_ended(client, session):
    client.run(session, "kept = 1; open('f', 'w').write('x')")
    began = time.monotonic()
    result = client.run(session, "import time\nwhile True:\n  try:\n    time.sleep(1)\n  except BaseException: pass", timeout=1)
    assert time.monotonic() - began < 1 + GRACE
    assert result["reason"] == "timeout" and result["runtime_invalidated"] is True
    after = client.run(session, "print(open('f').read()); kept")
    assert (after["stdout"], after["error_name"], after["session"]["state_lost"]) == ("x\n", "NameError", True)


def test_the_tail_of_a_run_stays_out_of_the_next(client, session):
    code = "import time\ntry:\n  time.sleep(99)\nfinally:\n  time.sleep(1); print('tail')"
    assert client.run(session, code, timeout=1)["reason"] == "timeout"
    assert client.run(session, "print('two')")["stdout"] == "two\n"
    assert client.run(session, "print('three')")["stdout"] == "three\n"


def test_interrupt_from_another_call(client, session):
    client.run(session, "kept = 1")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(client.run, session, "import time; print('begun', flush=True); time.sleep(50)", timeout=55)
        wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["state"] == "busy", 10, "busy")
        time.sleep(0.5)
        began = time.monotonic()
        assert client.post(f"/v1/sessions/{session}/interrupt").status == 204
        result = run.result()
    assert time.monotonic() - began < 6
    assert result["reason"] == "interrupted" and result["stdout"] == "begun\n" and result["runtime_invalidated"] is False
    assert client.post(f"/v1/sessions/{session}/interrupt").status == 204  # nothing runs: harmless
    assert client.run(session, "print(kept)")["stdout"] == "1\n"


def test_a_caller_that_goes_away_ends_the_run(client, session):
    connection = client.connection(timeout=1)
    body = json.dumps({"code": "import time; time.sleep(30); open('ran', 'w')", "timeout": 40})
    connection.request("POST", f"/v1/sessions/{session}/exec", body,
                       {"Authorization": "Bearer " + client.key, "Content-Type": "application/json"})
    time.sleep(1)
    connection.close()
    began = time.monotonic()
    assert client.run(session, "print('hi')")["stdout"] == "hi\n" and time.monotonic() - began < 8
    rows = client.get(f"/v1/sessions/{session}/executions").json()["executions"]
    assert rows[1]["reason"] == "client_gone"
    assert client.get(f"/v1/sessions/{session}/files/ran").status == 404


def test_one_at_a_time(client, fresh):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        first = pool.submit(client.run, fresh, "import time\nfor i in range(20): print('A', i); time.sleep(.1)")
        wait_until(lambda: client.get(f"/v1/sessions/{fresh}").json()["state"] == "busy", 10, "busy")
        second = pool.submit(client.run, fresh, "print('B')")
        time.sleep(0.3)
        third = pool.submit(client.run, fresh, "print('C')")
        time.sleep(0.3)
        assert client.post(f"/v1/sessions/{fresh}/exec", {"code": "1"}).code == "session_busy"
        assert first.result()["stdout"] == "".join(f"A {i}\n" for i in range(20))
        assert (second.result()["stdout"], third.result()["stdout"]) == ("B\n", "C\n")


@pytest.mark.parametrize("code", ["input('n? ')", "import getpass; getpass.getpass()"], ids=["input", "getpass"])
def test_input_fails_at_once(client, session, code):
    began = time.monotonic()
    result = client.run(session, code)
    assert result["status"] == "error" and time.monotonic() - began < 10
    assert result["error_name"] == "StdinNotImplementedError"
    assert client.run(session, "print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("code", ["import sys; print(repr(sys.stdin.read()))", "import os; os.read(0, 100)",
                                  "import subprocess; subprocess.run(['cat'])"],
                         ids=["stdin", "descriptor", "child"])
def test_what_else_waits_for_input_ends(client, session, code):
    began = time.monotonic()
    client.run(session, code, timeout=2)
    assert time.monotonic() - began < 2 + GRACE
    for number in range(2):
        assert client.run(session, f"print({number})")["stdout"] == f"{number}\n"


def test_children_and_threads_do_not_hold_the_run(client, session):
    began = time.monotonic()
    code = "import subprocess; p = subprocess.Popen('sleep 600', shell=True, stdout=subprocess.PIPE)"
    assert client.run(session, code)["status"] == "ok"
    assert client.run(session, "import threading, time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()")["status"] == "ok"
    assert client.run(session, "print(subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout)")["stdout"] == "hi\n\n"
    assert time.monotonic() - began < 15


def test_late_output_stays_out_of_later_runs(client, session):
    code = ("import threading, time\ndef w():\n  for i in range(4): time.sleep(.3); print('late', i)\n"
            "threading.Thread(target=w).start(); print('one')")
    assert client.run(session, code)["stdout"].startswith("one\n")
    client.run(session, "time.sleep(1.7)")
    assert client.run(session, "print('three')")["stdout"] == "three\n"


def test_big_code_and_odd_timeouts(client, session):
    assert client.run(session, "print(1)#" + "a" * 3_000_000, timeout=60)["stdout"] == "1\n"
    for timeout, status in ((0, 200), (None, 200), (1e308, 200), ("30", 400), (True, 400)):
        assert client.post(f"/v1/sessions/{session}/exec", {"code": "1", "timeout": timeout}).status == status
    answer = client.post(f"/v1/sessions/{session}/exec", {"code": "print('a')\0\nprint('b')"})
    assert answer.status == 400 or answer.json()["status"] == "error", answer


def test_no_secret_reaches_the_code(stack, client, session):
    code = ("import os, glob\nfor p in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n"
            "  try: print(open(p, 'rb').read())\n  except OSError: pass\nprint(os.environ)")
    out = client.run(session, code)["stdout"]
    assert stack.token not in out and client.key not in out


def test_deaths_in_a_row(client, session):
    for death in ("import os; os.kill(os.getpid(), 9)", "import ctypes; ctypes.string_at(0)"):
        assert client.run(session, death, timeout=50)["reason"] == "kernel_died"
    assert client.run(session, "print('alive')", timeout=50)["stdout"] == "alive\n"


@pytest.mark.parametrize("stubborn", [False, True], ids=["plain", "stubborn"])
def test_a_worker_that_dies_ends_its_run(stack, client, fresh, stubborn):
    """Whoever meets the session next interrupts what still runs there; its state is kept, but for code that ignores that."""
    client.run(fresh, "x = 41; n = 0")
    code = "import time\nwhile True: n += 1; time.sleep(0.01)"
    if stubborn:
        code = "import time\nwhile True:\n try:\n  while True: n += 1; time.sleep(0.01)\n except BaseException: pass"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.post, f"/v1/sessions/{fresh}/exec", {"code": code, "timeout": 50})
        wait_until(lambda: client.get(f"/v1/sessions/{fresh}").json().get("busy"), 10, "the run")
        time.sleep(0.5)
        (worker,) = [w["pid"] for w in json.loads(stack.ctl("status", "--json"))["workers"] if w["lane"] == "exec" and w["state"] == "working"]
        os.kill(worker, signal.SIGKILL)
        assert running.result().code == "worker_lost"
    if stubborn:
        again = [client.run(fresh, "print(1)", timeout=3) for _ in range(2)]
        assert again[1]["stdout"] == "1\n", again
        return
    first, again = (client.run(fresh, code, timeout=20) for code in ("x += 1; print(x, n > 1); m = n", "print(m == n)"))
    assert (first["stdout"], again["stdout"]) == ("42 True\n", "True\n")
    reasons = [e["reason"] for e in client.get(f"/v1/sessions/{fresh}/executions").json()["executions"]]
    assert reasons == ["completed", "completed", "aborted", "completed"]
