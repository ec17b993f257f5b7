"""Processes that die, stop, reload or are unreachable: nothing acknowledged is lost, nothing stays busy."""
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

import kills
from stack import wait_until

SETTINGS = {"SANDBOX_REAP_INTERVAL": "0.5", "SANDBOX_WORKERS_EXEC": 4, "SANDBOX_MAX_EXEC_TIMEOUT": 60,
            "SANDBOX_START_TIMEOUT": 20, "SANDBOX_HTTP_TIMEOUT": 3}


def busy_worker(stack, client, session, code="import time; time.sleep(30)", timeout=40):
    """Starts a cell and returns (future, pid of its worker): the status line of huskctl names it."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    run = pool.submit(client.post, f"/v1/sessions/{session}/exec", {"code": code, "timeout": timeout}, check=False)
    wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["state"] == "busy", 15, "busy")
    status = json.loads(stack.ctl("status", "--json"))
    working = [w["pid"] for w in status["workers"] if w["lane"] == "exec" and w["state"] == "working"]
    assert len(working) == 1, status
    return run, working[0]


def test_a_killed_worker_frees_its_session(stack, client, session):
    client.run(session, "x = 7")
    run, pid = busy_worker(stack, client, session, "import time\ntime.sleep(30)\nopen('ran', 'w')")
    os.kill(pid, signal.SIGKILL)
    answer = run.result()
    assert answer.status in (502, 504) and answer.code in ("worker_lost", "gateway_timeout")
    began = time.monotonic()
    wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["state"] != "busy", 15, "the session's freedom")
    result = client.run(session, "x", timeout=20)
    assert time.monotonic() - began < 25
    assert result["results"] or result["session"]["state_lost"]
    rows = client.get(f"/v1/sessions/{session}/executions").json()["executions"]
    assert rows[1]["reason"] == "aborted"
    lost = client.get("/v1/executions?request_id=" + answer.headers["x-request-id"]).json()["executions"]
    assert [e["execution_id"] for e in lost] == [rows[1]["execution_id"]]
    assert client.get(f"/v1/sessions/{session}/files/ran").status == 404
    wait_until(lambda: len(stack.workers("exec")) == 4, 10, "a new worker")


def test_a_killed_worker_leaves_the_session_of_its_call_for_a_minute_only(stack, client):
    def known():
        return {s["session_id"]: s for s in client.get("/v1/sessions").json()["sessions"]}

    before = set(known())
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(client.post, "/v1/exec", {"code": "import time; time.sleep(30)", "timeout": 40}, check=False)
        name = wait_until(lambda: [n for n, s in known().items() if n not in before and s["state"] == "busy"], 20, "busy")[0]
        (pid,) = stack.sql("SELECT busy_pid FROM sessions WHERE name = ?", name)[0]
        os.kill(pid, signal.SIGKILL)
        assert run.result().status in (502, 504)
    wait_until(lambda: client.get(f"/v1/sessions/{name}").json()["state"] != "busy", 15, "the session's freedom")
    assert client.get(f"/v1/sessions/{name}").json()["ttl"] == 60
    assert client.delete(f"/v1/sessions/{name}").status == 204


def test_a_stopped_worker_keeps_nobody_waiting_and_changes_nothing_afterwards(stack, client, session):
    """It keeps its locks, so that the session stays busy until the master kills it, five seconds past its promise."""
    client.run(session, "x = 8")
    run, pid = busy_worker(stack, client, session, "open('log', 'a').write('ran\\n'); import time; time.sleep(20)", timeout=1)
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        assert client.get("/v1/sessions").status == 200
        assert client.post(f"/v1/sessions/{session}/restart").code == "session_busy"
        wait_until(lambda: pid not in stack.workers("exec"), 45, "the stopped worker's end")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    assert time.monotonic() - began > 5
    assert run.result().code in ("worker_lost", "gateway_timeout")
    result = client.run(session, "print(open('log').read(), end='')")
    assert result["stdout"] == "ran\n"
    rows = client.get(f"/v1/sessions/{session}/executions").json()["executions"]
    assert [r["reason"] for r in rows] == ["completed", "aborted", "completed"]


def test_a_service_that_is_restarted_in_mid_run_frees_its_session(stack, client):
    client.open("mid", ttl=600)
    client.run("mid", "x = 9")
    run, _ = busy_worker(stack, client, "mid", "import time\ntime.sleep(30)\nopen('ran', 'w')")
    workers = stack.workers()
    stack.stop_process("master", signal.SIGKILL)
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert run.result().status in (502, 504)
    stack.start_master()
    # (nginx may still have had a connection to the service that was)
    wait_until(lambda: client.get("/v1/sessions/mid").json().get("state") == "ready", 15, "the session's freedom")
    assert client.run("mid", "print(x)")["stdout"] == "9\n"
    rows = client.get("/v1/sessions/mid/executions").json()["executions"]
    assert rows[1]["reason"] == "aborted" and client.get("/v1/sessions/mid/files/ran").status == 404
    # and it ends by its TTL like any other
    assert client.patch("/v1/sessions/mid", {"ttl": 1}).status == 200
    wait_until(lambda: stack.sql("SELECT 1 FROM sessions WHERE name = 'mid'") == [], 15, "its end")


def test_callers_that_hang_up_pin_no_workers(stack, client):
    names = [f"h{i}" for i in range(5)]  # more than there are workers
    for name in names:
        client.open(name)

    def hang_up(name):
        with contextlib.suppress(TimeoutError):
            client.post(f"/v1/sessions/{name}/exec", {"code": "import time; time.sleep(30)", "timeout": 40}, timeout=1.5)

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        list(pool.map(hang_up, names))
    began = time.monotonic()
    assert client.get("/healthz").status == 200
    prompt = client.post(f"/v1/sessions/{names[0]}/exec", {"code": "print('hi')"})
    assert prompt.status == 200 or prompt.code == "session_busy", prompt
    wait_until(lambda: stack.sql("SELECT 1 FROM sessions WHERE state = 'busy'") == [], 15, "all sessions' freedom")
    assert time.monotonic() - began < 15
    for name in names:
        assert client.run(name, "print('hi')")["stdout"] == "hi\n"
        client.delete("/v1/sessions/" + name)


def test_the_log_of_the_database_stays_small_while_code_runs(stack, client, session):
    """Whoever kept a read transaction open for the time of a run would keep the sweep from emptying it."""
    def size():
        return os.path.getsize(stack.path("s", "husk.db-wal"))

    def write(end):
        largest = 0
        while time.monotonic() < end:
            client.patch(f"/v1/sessions/{session}", {"labels": {"n": str(time.monotonic_ns())}})
            client.get("/v1/sessions")
            largest = max(largest, size())
        return largest

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        run = pool.submit(client.run, session, "import time; time.sleep(6)")
        wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["state"] == "busy", 15, "busy")
        writers = [pool.submit(write, time.monotonic() + 3) for _ in range(4)]
        assert max(w.result() for w in writers) < 8 << 20
        wait_until(lambda: size() < 100_000, 3, "an emptied log")
        assert not run.done()
        run.result()


def test_a_stopped_idle_worker_holds_no_request_hostage_and_is_replaced(stack, client, session):
    """One of the workers keeps the session's channel, so that the request is handed to it."""
    client.run(session, "x = 3")
    for pid in stack.workers("exec"):
        os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            assert client.run(session, "print(x)", timeout=5)["stdout"] == "3\n"
            assert time.monotonic() - began < 4
            if "does not move" in stack.log("master"):
                wait_until(lambda: pid not in stack.workers("exec"), 12, "the stopped worker's end")
                break
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    else:
        raise AssertionError("nobody kept the channel")
    assert client.run(session, "print(x)")["stdout"] == "3\n"


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed: deployment/install-packages test")
@pytest.mark.parametrize("how,seconds", [("delay_enter=20000000", 6), ("signal=SIGSTOP", 25)])
def test_a_worker_that_stands_still_in_an_accept(stack, client, how, seconds):
    """A connection wakes one idle worker alone: before it is accepted another looks for it, then the master sees to it."""
    for pid in stack.workers("api"):
        with kills.held_up_at(pid, "accept4", how) as is_stopped:
            began = time.monotonic()
            answer = client.get("/v1/sessions", timeout=60)
            if is_stopped():
                assert time.monotonic() - began < seconds
                assert answer.status == 200 or (answer.code == "worker_lost" and "SIGSTOP" in how), answer
                break
    else:
        raise AssertionError("none of them was woken")
    assert client.get("/v1/sessions").status == 200


def test_reload_loses_no_request(stack, client, session):
    before = stack.workers()
    errors = []
    stop = time.monotonic() + 4

    def ask():
        while time.monotonic() < stop:
            answer = client.get(f"/v1/sessions/{session}")
            if answer.status != 200:
                errors.append(answer)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        slow = pool.submit(client.run, session, "import time; time.sleep(3); print('whole')")
        time.sleep(0.5)
        stack.processes["master"].send_signal(signal.SIGHUP)
        for a in asking:
            a.result()
        assert slow.result()["stdout"] == "whole\n"
    assert errors == []
    wait_until(lambda: not set(before) & set(stack.workers()), 20, "the old workers' end")
    assert len(stack.workers()) == len(before)


def test_reload_with_a_bad_setting_keeps_the_old_one(stack, client):
    before = stack.workers()
    good = dict(stack.settings)
    stack.settings["SANDBOX_MAX_TTL"] = "soon"
    stack.write_conf()
    stack.processes["master"].send_signal(signal.SIGHUP)
    wait_until(lambda: "SANDBOX_MAX_TTL" in stack.log("master"), 10, "the complaint")
    assert stack.workers() == before and client.get("/healthz").status == 200
    stack.settings = good
    stack.write_conf()


def test_gateway_down_and_up_again(stack, client):
    client.open("g")
    client.run("g", "x = 1; open('f', 'w').write('kept')")
    stack.stop_process("gateway", signal.SIGKILL)
    answer = client.post("/v1/sessions", {"session_id": "new"})
    assert answer.status in (502, 503) and "retry-after" in answer.headers
    assert client.get("/v1/sessions/new").status == 404
    ready = client.get("/readyz")
    assert ready.status == 503 and "gateway" in ready.text
    assert client.get("/healthz").status == 200
    assert client.get("/v1/sessions").status == 200
    assert client.get("/v1/sessions/g/files/f").body == b"kept"
    answer = client.post("/v1/sessions/g/exec", {"code": "1"})
    assert answer.status in (200, 502, 503), answer
    # who knows at once that the kernel went with its gateway says so at once, and once only
    told = answer.status == 200 and answer.json()["session"]["state_lost"]
    assert not told or stack.sandboxed
    stack.start_gateway()
    result = client.run("g", "print(open('f').read()); x", timeout=60)
    assert result["stdout"] == "kept\n" and result["error_name"] == "NameError"
    assert result["session"]["state_lost"] is not told
    assert client.run("g", "1")["session"]["state_lost"] is False
    client.open("new")
    for name in ("g", "new"):
        assert client.delete(f"/v1/sessions/{name}").status == 204


def test_sessions_nobody_uses_turn_cold_when_their_gateway_was_restarted(stack, client):
    names = ["c0", "c1", "c2"]
    for name in names:
        client.open(name)
    client.run("c0", "x = 1; open('f', 'w').write('kept')")
    client.put("/v1/sessions/c1/files/g", b"kept too")
    before = {h for h, in stack.sql("SELECT handle FROM runtimes")}
    stack.stop_process("gateway", signal.SIGKILL)
    time.sleep(1.5)  # sweeps that reach no gateway conclude nothing
    assert {h for h, in stack.sql("SELECT handle FROM runtimes")} == before
    stack.start_gateway()
    wait_until(lambda: stack.sql("SELECT DISTINCT state FROM sessions WHERE name LIKE 'c_'") == [("cold",)], 30, "cold")
    assert stack.sql("SELECT count(*) FROM runtimes") == [(0,)]
    first = client.run("c0", "print(open('f').read()); x", timeout=60)
    assert first["stdout"] == "kept\n" and first["error_name"] == "NameError"
    assert first["session"]["state_lost"] is True and first["session"]["generation"] == 2
    assert client.run("c0", "1")["session"]["state_lost"] is False
    assert client.get("/v1/sessions/c1/files/g").body == b"kept too"
    reused = client.post("/v1/sessions", {"session_id": "c1"})
    assert reused.status == 200 and reused.json()["state_lost"] is True
    looks = [client.get("/v1/sessions/c2").json() for _ in range(2)]
    assert [(s["state"], s["state_lost"]) for s in looks] == [("cold", True), ("cold", False)]
    assert {h for h, in stack.sql("SELECT handle FROM runtimes")} == set(stack.kernels())
    for name in names:
        assert client.delete(f"/v1/sessions/{name}").status == 204


def answer_wrongly(port, answer):
    """A gateway that sends these bytes to whoever asks, or with None nothing at all; returns how to end it."""
    listener = socket.create_server(("127.0.0.1", port))
    kept, asked = [], []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                peer = listener.accept()[0]
                kept.append(peer)
                asked.append(time.monotonic())
                if answer is not None:
                    with contextlib.suppress(OSError):
                        peer.recv(65536)
                        peer.sendall(answer)
                        peer.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=serve)
    thread.start()
    began = time.monotonic()

    def end():
        seconds = time.monotonic() - began
        assert len(asked) <= 30 + 6 * seconds, (len(asked), seconds)  # no storm: a sweep asks thrice, each call some times
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        for one in (listener, *kept):
            one.close()

    return end


WRONG_GATEWAYS = {
    "html": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 19\r\n\r\n<html>login</html>\n",
    "not found": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "forbidden": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
    "error": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\noops",
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "null": b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nnull",
    "an id that is a path": b'HTTP/1.1 201 Created\r\nContent-Length: 16\r\n\r\n{"id":"../../x"}',
    "no http": b"\0\1\2 SSH-2.0\r\n\r\n",
    "silence": None,
}


def test_a_gateway_that_answers_wrongly_leaves_nothing_behind(stack, client):
    client.open("w")
    client.run("w", "x = 1")
    stack.stop_process("gateway", signal.SIGKILL)
    try:
        for name, answer in WRONG_GATEWAYS.items():
            end = answer_wrongly(stack.gateway_port, answer)
            try:
                refused = client.post("/v1/sessions", {"session_id": "new"})
                assert refused.status in (502, 503) and "retry-after" in refused.headers, (name, refused, refused.headers)
                assert client.get("/v1/sessions/new").status == 404, name
                ready = client.get("/readyz")
                assert ready.status in (502, 503) and "retry-after" in ready.headers, (name, ready)
                lost = client.post("/v1/sessions/w/exec", {"code": "x", "timeout": 5})
                assert lost.status in (502, 503) or lost.json()["reason"] == "gateway_lost", (name, lost)
                assert [s["session_id"] for s in client.get("/v1/sessions").json()["sessions"]] == ["w"], name
            finally:
                end()
    finally:
        stack.start_gateway()
    wait_until(lambda: client.post("/v1/sessions/w/exec", {"code": "print(2)"}).json().get("stdout") == "2\n", 30,
               "recovery")
    assert client.delete("/v1/sessions/w").status == 204
    assert stack.sql("SELECT name FROM sessions WHERE name IN ('w', 'new')") == []


def test_gateway_dies_in_mid_cell(stack, client, session):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(client.run, session, "import time; print('begun', flush=True); time.sleep(40)", timeout=50)
        wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["state"] == "busy", 15, "busy")
        time.sleep(1)
        stack.stop_process("gateway", signal.SIGKILL)
        began = time.monotonic()
        result = run.result()
    assert time.monotonic() - began < 30
    assert result["reason"] in ("gateway_lost", "kernel_died") and result["runtime_invalidated"] is True
    stack.start_gateway()
    assert client.run(session, "print('again')", timeout=60)["stdout"] == "again\n"


def test_kernels_die_with_their_gateway(stack, client):
    client.open("k")
    pid = stack.host_pid(int(client.run("k", "import os; print(os.getpid())")["stdout"]))
    stack.stop_process("gateway", signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 15, "the kernel's end")
    stack.start_gateway()
    client.delete("/v1/sessions/k")


def test_delete_with_the_gateway_down_is_done_later(stack, client):
    client.open("q")
    stack.stop_process("gateway", signal.SIGKILL)
    assert client.delete("/v1/sessions/q").status == 204
    assert client.get("/v1/sessions/q").status == 404
    stack.start_gateway()
    wait_until(lambda: stack.sql("SELECT count(*) FROM runtimes WHERE state = 'quarantined'") == [(0,)], 40,
               "the quarantined kernel's end")


def test_orphans_are_found_and_ended(stack, client):
    status, body = stack.gateway_request("POST", "/api/kernels", json.dumps({"name": "docsgpt-python"}), timeout=30)
    assert status == 201
    orphan = json.loads(body)["id"]
    wait_until(lambda: orphan not in stack.kernels(), 60, "the orphan's end", step=0.5)


def test_a_killed_master_takes_its_workers_along_and_another_takes_over(stack, client):
    client.open("survives")
    client.run("survives", "x = 5")
    before = stack.workers()
    stack.stop_process("master", signal.SIGKILL)
    wait_until(lambda: not set(before) & set(stack.workers()), 15, "the workers' end")
    answer = client.get("/healthz")
    stack.start_master()
    assert (answer.status, answer.code) == (503, "no_worker") and "retry-after" in answer.headers
    assert client.run("survives", "print(x)")["stdout"] == "5\n"
    client.delete("/v1/sessions/survives")


def test_drain_finishes_what_runs(stack, client, session):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(client.run, session, "import time; time.sleep(3); print('whole')")
        wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["state"] == "busy", 15, "busy")
        assert stack.stop_process("master", signal.SIGTERM) == 0
        assert run.result()["stdout"] == "whole\n"
    assert stack.workers() == []
    stack.start_master()


def test_a_second_master_is_refused(stack):
    done = subprocess.run([stack.path("bin", "husk-master"), "--config", stack.path("husk.conf")],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode != 0 and "another husk-master" in done.stderr


def test_many_clients_at_once_meet_no_locked_database(stack, client):
    def life(i):
        name = f"m{i % 4}"
        answers = [client.post("/v1/sessions", {"session_id": name}), client.get(f"/v1/sessions/{name}"),
                   client.get("/v1/sessions"), client.put(f"/v1/sessions/{name}/files/f{i}", b"x"),
                   client.get(f"/v1/sessions/{name}/executions")]
        return [a for a in answers if a.status >= 500]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        bad = [a for answers in pool.map(life, range(120)) for a in answers]
    assert bad == []
    assert stack.sql("PRAGMA integrity_check") == [("ok",)]
    for i in range(4):
        client.delete(f"/v1/sessions/m{i}")


def test_workers_killed_under_load_lose_no_run_that_was_acknowledged_and_run_none_twice(stack, client):
    end = time.monotonic() + 8
    acknowledged = {name: [] for name in ("k0", "k1", "k2")}

    def load(name):
        client.open(name)
        number = 0
        while time.monotonic() < end:
            number += 1
            code = f"open('log', 'a').write('{number}\\n'); print({number})"
            answer = client.post(f"/v1/sessions/{name}/exec", {"code": code, "timeout": 20}, check=False)
            if answer.status == 200 and answer.json()["reason"] == "completed":
                assert answer.json()["stdout"] == f"{number}\n"
                acknowledged[name].append(number)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        loads = [pool.submit(load, name) for name in acknowledged]
        killed = 0
        while time.monotonic() < end - 1:
            time.sleep(1.2)
            workers = stack.workers("exec")
            if workers:
                os.kill(workers[killed % len(workers)], signal.SIGKILL)
                killed += 1
        for l in loads:
            l.result()
    wait_until(lambda: len(stack.workers("exec")) == 4, 20, "new workers")
    assert killed >= 3
    for name, numbers in acknowledged.items():
        assert client.run(name, "print('still here')", timeout=30)["stdout"] == "still here\n"
        ran = [int(line) for line in client.get(f"/v1/sessions/{name}/files/log").text.split()]
        assert len(ran) == len(set(ran)) and set(numbers) <= set(ran) and len(numbers) > 3
        client.delete(f"/v1/sessions/{name}")
