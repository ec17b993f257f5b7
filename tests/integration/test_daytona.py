"""The promises of the Daytona backend, held by counting sandboxes (they are paid for) in a stand-in that can be told to
misbehave. What both backends do alike is in tests/conformance.
"""
import concurrent.futures
import contextlib
import json
import os
import signal
import time

import pytest

from fakedaytona import DaytonaStack
from fixtures import running
from stack import wait_until

STACK = DaytonaStack
SETTINGS = {"SANDBOX_REAP_INTERVAL": "0.5", "SANDBOX_HTTP_TIMEOUT": 2, "SANDBOX_START_TIMEOUT": 6, "SANDBOX_MAX_EXEC_TIMEOUT": 20,
            "SANDBOX_EXEC_TIMEOUT": 10,
            "DAYTONA_MAX_SANDBOXES": 4, "DAYTONA_MAX_KEPT": 2, "SANDBOX_MAX_SESSIONS": 8, "SANDBOX_WORKERS_API": 6}
BOUND = 25  # seconds: no call takes longer, whatever Daytona does


@pytest.fixture(autouse=True)
def daytona(stack, client):
    """The stand-in, with every switch off and without a sandbox before and after."""
    fake = stack.daytona
    fake.reset()
    yield fake
    fake.reset()
    for session in client.get("/v1/sessions").json()["sessions"]:
        client.delete(f"/v1/sessions/{session['session_id']}")
    wait_until(lambda: fake.seen()["alive"] == 0, 40, "the end of every sandbox")


def working(stack, lane):
    """pids of the workers of a lane that serve a request."""
    return [w["pid"] for w in json.loads(stack.ctl("status", "--json"))["workers"] if w["lane"] == lane and w["state"] == "working"]


@contextlib.contextmanager
def meanwhile(call, *args, **kw):
    """Runs a call in a thread; its future's result is there afterwards."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        yield pool.submit(call, *args, **kw)


def interval(began):
    return time.monotonic() - began


# one sandbox a session

def test_parallel_opens_create_one(stack, client, daytona):
    daytona.set(create_ms=600)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        opened = list(pool.map(lambda _: client.post("/v1/sessions", {"session_id": "p"}), range(10)))
    assert {a.status for a in opened} <= {200, 201} and len({a.json()["generation"] for a in opened}) == 1, opened
    assert daytona.count("create") == 1
    (sandbox,) = daytona.sandboxes()
    (row,) = stack.sql("SELECT workspace_id FROM sessions WHERE name = 'p'")
    assert sandbox["labels"]["docsgpt_session_id"] == format(row[0], "016x") and sandbox["labels"]["husk_deployment"]
    assert sandbox["labels"]["code-toolbox-language"] == "python"
    assert sandbox["autoDeleteInterval"] > 0 and sandbox["autoStopInterval"] > 0


def test_the_same_name_of_two_owners_is_two_sandboxes(stack, client, daytona):
    other = stack.client(stack.key("another"))
    client.open("same")
    other.open("same")
    assert daytona.count("create") == 2
    assert len({s["labels"]["docsgpt_session_id"] for s in daytona.sandboxes()}) == 2
    other.delete("/v1/sessions/same")


@pytest.mark.parametrize("step", ["before", "made", "answered", "workspace"])
def test_a_worker_killed_during_an_open_leaves_nothing_behind(stack, client, daytona, step):
    kind, switch = {"before": ("list", {"hang": {"list": -1}}), "made": ("create", {"lose": {"create": -1}}),
                    "answered": ("create", {"create_ms": 60_000}), "workspace": ("toolbox", {"hang": {"toolbox": -1}})}[step]
    daytona.set(**switch)
    with meanwhile(client.post, "/v1/sessions", {"session_id": "k"}, check=False) as opening:
        if kind == "toolbox":
            wait_until(lambda: any("/toolbox/" in c["path"] for c in daytona.seen()["calls"]), 10, "the first call of the toolbox")
        elif kind == "list":
            wait_until(lambda: daytona.count("list") or daytona.count("create"), 10, "the first call")
        else:
            wait_until(lambda: daytona.count("create"), 10, "the create call")
        time.sleep(0.2)
        for pid in working(stack, "api"):
            os.kill(pid, signal.SIGKILL)
        assert opening.result().status >= 500
    daytona.reset()
    assert stack.sql("SELECT count(*) FROM sessions WHERE state = 'ready' AND name = 'k'") == [(0,)]
    if step == "made":  # nobody comes back for it: the reaper finds it by its label
        wait_until(lambda: daytona.seen()["alive"] == 0, 60, "the orphan's end", step=0.3)
        return
    wait_until(lambda: client.post("/v1/sessions", {"session_id": "k"}).status in (200, 201), 40, "another open", step=0.3)
    assert client.run("k", "print(1)")["stdout"] == "1\n"
    wait_until(lambda: daytona.seen()["alive"] == 1, 60, "one sandbox", step=0.3)


@pytest.mark.parametrize("switch", [{"hang": {"delete": -1}}, {"lose": {"delete": -1}}], ids=["before", "after"])
def test_a_worker_killed_during_a_close_leaves_nothing_behind(stack, client, daytona, switch):
    client.open("c")
    daytona.set(**switch)
    with meanwhile(client.delete, "/v1/sessions/c", check=False) as closing:
        wait_until(lambda: daytona.count("delete"), 10, "the delete call")
        for pid in working(stack, "api"):
            os.kill(pid, signal.SIGKILL)
        closing.result()
    daytona.reset()
    wait_until(lambda: daytona.seen()["alive"] == 0, 40, "the sandbox's end")
    wait_until(lambda: client.get("/v1/sessions/c").status == 404, 20, "the session's end")
    assert stack.sql("SELECT count(*) FROM runtimes") == [(0,)]


def test_a_failed_open_leaves_nothing_behind(stack, client, daytona):
    for switch in ({"create_state": "error"}, {"fail": {"create": [500, 1]}}, {"fail": {"create": [403, 1]}},
                   {"fail": {"toolbox": [500, -1]}}, {"garbage": {"create": 1}}):
        daytona.reset()
        daytona.set(**switch)
        refused = client.post("/v1/sessions", {"session_id": "f"})
        assert refused.status in (502, 503), (switch, refused)
        daytona.reset()
        assert client.get("/v1/sessions/f").status == 404
        wait_until(lambda: daytona.seen()["alive"] == 0, 40, f"nothing left after {switch}", step=0.2)


def test_delete_while_daytona_is_down_is_done_later(stack, client, daytona):
    client.open("d")
    daytona.set(fail={"api": [503, -1]})
    assert client.delete("/v1/sessions/d").status == 204
    assert client.get("/v1/sessions/d").status == 404
    daytona.reset()
    wait_until(lambda: daytona.seen()["alive"] == 0, 40, "the sandbox's end")
    wait_until(lambda: stack.sql("SELECT count(*) FROM runtimes") == [(0,)], 20, "the row's end")


# a sandbox that sleeps, and one that is gone

def test_a_stopped_sandbox_is_woken_once(client, daytona):
    client.open("w")
    client.run("w", "x = 1; open('f', 'w').write('kept')")
    daytona.control(auto={"id": "*", "do": "stop"})
    result = client.run("w", "print(open('f').read()); x")
    assert (result["stdout"], result["error_name"], result["session"]["state_lost"]) == ("kept\n", "NameError", True)
    assert client.run("w", "print(2)")["session"]["state_lost"] is False
    daytona.control(auto={"id": "*", "do": "stop"})
    assert client.get("/v1/sessions/w/files/f").body == b"kept"
    seen = daytona.seen()
    assert seen["counts"]["start"] == 2 and seen["created"] and daytona.count("create") == 1
    assert client.run("w", "print(3)")["session"]["state_lost"] is True


def test_a_sandbox_that_stops_while_it_is_opened_keeps_its_files(stack, client, daytona):
    client.open("v", ttl=1)
    client.run("v", "open('f', 'w').write('kept')")
    wait_until(lambda: [s["state"] for s in daytona.sandboxes()] == ["stopped"], 20, "the stop")
    daytona.set(slow={"folder": 700})
    with meanwhile(client.post, "/v1/sessions", {"session_id": "v"}) as opening:
        wait_until(lambda: daytona.count("folder") > 1, 10, "the first call to the toolbox")
        daytona.set(slow={})
        daytona.control(auto={"id": "*", "do": "stop"})
        assert opening.result().status == 201 and opening.result().json()["files_kept"] is True, opening.result()
    assert client.run("v", "print(open('f').read())")["stdout"] == "kept\n"
    assert daytona.count("create") == 1 and daytona.count("delete") == 0


def test_a_gone_sandbox_gives_way_to_a_new_one(client, daytona):
    for number, how in enumerate(({"auto": {"id": "*", "do": "delete"}}, {"force": {"id": "*", "state": "error"}},
                                  {"force": {"id": "*", "state": "archived"}}, {"force": {"id": "*", "state": "destroyed"}})):
        client.open("g")
        client.run("g", "x = 1")
        daytona.control(**how)
        result = client.run("g", "x", timeout=15)
        assert (result["error_name"], result["session"]["state_lost"]) == ("NameError", True), how
        assert client.run("g", "print(1)")["session"]["state_lost"] is False
        started = daytona.sandboxes("started")
        assert len(started) == 1 and daytona.count("create") == number + 2, how
        wait_until(lambda: daytona.seen()["alive"] == 1, 40, "the old one's end")


def test_what_passes_invalidates_nothing(client, daytona):
    client.open("t")
    client.run("t", "x = 41")
    generation = client.get("/v1/sessions/t").json()["generation"]
    for switch in ({"fail": {"*": [503, -1]}}, {"drop": {"*": -1}}, {"garbage": {"*": -1}}, {"fail": {"*": [429, -1]}}):
        daytona.set(**switch)
        answer = client.post("/v1/sessions/t/exec", {"code": "x += 1"}, timeout=BOUND)
        assert answer.status in (502, 503) or answer.json()["reason"] == "gateway_lost", (switch, answer)
        got = client.get("/v1/sessions/t/files/none", timeout=BOUND)
        assert got.status in (502, 503), (switch, got)
        daytona.reset()
        result = client.run("t", "print(x)")
        assert result["stdout"] == "41\n" and result["session"]["state_lost"] is False, (switch, result)
    assert client.get("/v1/sessions/t").json()["generation"] == generation and daytona.seen()["alive"] == 1


def test_idle_expiry_stops_and_keeps(stack, client, daytona):
    client.open("i", ttl=1)
    client.run("i", "x = 1; open('f', 'w').write('kept')")
    wait_until(lambda: [s["state"] for s in daytona.sandboxes()] == ["stopped"], 20, "the stop")
    assert client.get("/v1/sessions/i").status == 404
    again = client.open("i")
    assert again["files_kept"] is True
    assert client.run("i", "print(open('f').read()); x")["stdout"] == "kept\n"
    assert daytona.count("create") == 1 and daytona.count("start") == 1
    assert client.delete("/v1/sessions/i").status == 204
    wait_until(lambda: daytona.seen()["alive"] == 0, 20, "the sandbox's end")
    assert client.open("i")["files_kept"] is False


def test_so_many_are_kept_and_no_more(stack, client, daytona):
    for name in ("k1", "k2", "k3"):
        client.open(name, ttl=1)
        client.run(name, f"open('f', 'w').write('{name}')")
        wait_until(lambda: client.get("/v1/sessions/" + name).status == 404, 20, "expiry")
    wait_until(lambda: daytona.seen()["alive"] == 2, 20, "the end of the one kept longest")
    assert client.open("k1")["files_kept"] is False
    for name in ("k2", "k3"):
        assert client.open(name)["files_kept"] is True
        assert client.get(f"/v1/sessions/{name}/files/f").body == name.encode()
    assert "(DAYTONA_MAX_KEPT): the 1 kept longest are deleted" in stack.log("master")
    assert json.loads(stack.ctl("status", "--json"))["workspaces"]["dropped"] >= 1


# what a run keeps

def once(client, code, **members):
    return client.post("/v1/exec", {"code": code, "timeout": 8, **members}, timeout=BOUND + 40)


def test_capture_of_a_sandbox_that_sleeps_or_is_gone(client, daytona):
    """Looked at before the run, so it is woken then, or another made."""
    client.open("a")
    client.put("/v1/sessions/a/files/f", b"old")
    for how, before in (({"do": "stop"}, "old"), ({"do": "delete"}, "")):
        daytona.control(auto={"id": "*", **how})
        result = once(client, "import os; print(open('f').read() if os.path.exists('f') else ''); open('g', 'w').write('new')",
                      session_id="a", capture=True).json()
        assert (result["stdout"], [a["path"] for a in result["artifacts"]]) == (before + "\n", ["g"]), how
        assert result["session"]["state_lost"] is True, how


def test_what_cannot_be_looked_at_does_not_run(stack, client, daytona):
    client.open("n")
    for switch in ({"fail": {"list_files": [500, -1]}}, {"hang": {"list_files": -1}}, {"garbage": {"list_files": -1}}):
        daytona.set(**switch)
        answer = once(client, "open('ran', 'w')", session_id="n", capture=True)
        assert answer.status in (502, 503, 504), (switch, answer)
        daytona.reset()
    assert client.get("/v1/sessions/n/files").json()["files"] == []
    assert stack.sql("SELECT count(*) FROM executions WHERE session_name = 'n'") == [(0,)]


def test_what_cannot_be_fetched_is_said(client, daytona):
    code = "import time\nfor n in 'abc': open(n, 'w').write(n * 5000)\nprint('ran', flush=True)\ntime.sleep(1)"
    daytona.set(cut={"download": 1})
    result = once(client, code, capture=True).json()
    assert [a["path"] for a in result["artifacts"]] == ["b", "c"] and result["status"] == "ok"
    assert result["artifacts_left_out"] == {"count": 1, "files": [{"path": "a", "reason": "unreadable"}]}
    client.open("later")
    for switch in ({"fail": {"list_files": [500, -1]}}, {"hang": {"list_files": -1}}, {"fail": {"toolbox": [500, -1]}}):
        daytona.reset()
        with meanwhile(once, client, code, session_id="later", capture=True) as running:
            wait_until(lambda: client.get("/v1/sessions/later").json().get("busy"), 10, "the run")
            time.sleep(0.3)
            daytona.set(**switch)
            answer = running.result()
        assert answer.status == 200 and answer.json()["stdout"] == "ran\n", (switch, answer)
        assert answer.json()["artifacts"] == [] and answer.json()["artifacts_left_out"]["count"] == 1, (switch, answer)


def test_a_download_begun_again_is_whole(client, daytona):
    """The sandbox stops in the middle of one: it is woken, and the file comes from its start."""
    client.open("w")
    body = os.urandom(300_000)
    client.put("/v1/sessions/w/files/f", body)
    daytona.set(slow={"download": 700}, cut={"download": 1})
    with meanwhile(client.get, "/v1/sessions/w/files/f") as getting:
        wait_until(lambda: daytona.count("download"), 10, "the download")
        daytona.set(slow={})
        daytona.control(force={"id": "*", "state": "stopped"})
        assert getting.result().body == body
    assert daytona.count("download") == 2 and daytona.count("start") == 1


# bounds

@pytest.mark.parametrize("kind", ["api", "toolbox"])
def test_every_call_is_bounded(client, daytona, kind):
    """Daytona accepts and never answers, in a sandbox just made, and in one that has worked."""
    client.open("b")
    client.run("b", "x = 1")
    client.put("/v1/sessions/b/files/f", b"f")
    daytona.set(hang={kind: -1})
    calls = [("POST", "/v1/sessions", {"session_id": "new"}), ("POST", "/v1/sessions/b/exec", {"code": "x", "timeout": 3}),
             ("PUT", "/v1/sessions/b/files/g", None), ("GET", "/v1/sessions/b/files/f", None), ("GET", "/v1/sessions/b/files", None),
             ("DELETE", "/v1/sessions/b/files/f", None), ("POST", "/v1/sessions/b/interrupt", None)]

    def one(call):
        method, path, body = call
        began = time.monotonic()
        answer = client.request(method, path, body=b"g" if method == "PUT" else None, json_body=body, timeout=BOUND + 20)
        return call, answer, interval(began)

    for call, answer, took in map(one, calls):
        assert took < BOUND, (call, took)
        assert answer.status < 300 or answer.status in (404, 409, 502, 503, 504), (call, answer)
    daytona.reset()
    assert wait_until(lambda: client.post("/v1/sessions/b/exec", {"code": "print(2)"}).json().get("stdout") == "2\n", 30, "recovery")


def test_the_cap_on_cost(stack, client, daytona):
    others = [stack.client(stack.key(f"owner{i}")) for i in range(7)]
    most, answers = 0, []
    with concurrent.futures.ThreadPoolExecutor(7) as pool:
        waiting = [pool.submit(o.post, "/v1/sessions", {"session_id": "x"}) for o in others]
        while not all(w.done() for w in waiting):
            most = max(most, daytona.seen()["alive"])
    answers = [w.result() for w in waiting]
    try:
        assert sorted(a.status for a in answers) == [201] * 4 + [503] * 3, answers
        assert most <= 4 and daytona.count("create") == 4
        assert all("retry-after" in a.headers for a in answers if a.status == 503)
    finally:
        for other in others:
            other.delete("/v1/sessions/x", check=False)


def test_slow_starts_are_waited_for(client, daytona):
    daytona.set(create_ms=1500, start_ms=1500, slow={"toolbox": 100})
    client.open("s")
    assert client.run("s", "print(1)")["stdout"] == "1\n"
    daytona.control(auto={"id": "*", "do": "stop"})
    assert client.run("s", "print(2)")["stdout"] == "2\n"


# versions of Daytona

@pytest.mark.parametrize("uploads", [["bulk-upload"], ["upload-v2"], ["upload"]])
def test_every_upload_call_will_do(client, daytona, uploads):
    daytona.set(uploads=uploads, proxy_url=False, ranges=False, depth=False)
    client.open("u")
    body = os.urandom(300_000)
    assert client.put("/v1/sessions/u/files/d/e/a%20b%25.bin", body).status == 201
    assert client.get("/v1/sessions/u/files/d/e/a%20b%25.bin").body == body
    assert client.get("/v1/sessions/u/files/d/e/a%20b%25.bin", headers={"Range": "bytes=5-9"}).body == body[5:10]
    listed = [f["path"] for f in client.get("/v1/sessions/u/files?recursive=true").json()["files"]]
    assert listed == ["d", "d/e", "d/e/a b%.bin"]


def test_without_an_interpreter_code_runs_stateless(client, daytona):
    daytona.set(interpreter=False)
    assert client.open("n")["stateful"] is False
    result = client.run("n", "from __future__ import annotations\nx = 1; open('f', 'w').write('kept'); print('out')")
    assert (result["reason"], result["stdout"], result["exit_code"]) == ("completed", "out\n", 0)
    result = client.run("n", "print(open('f').read()); x")
    assert (result["reason"], result["exit_code"]) == ("exception", 1) and result["stdout"].startswith("kept\n")
    assert client.run("n", "import time; time.sleep(60)", timeout=2)["reason"] == "timeout"
    assert client.run("n", "print(1)")["stdout"] == "1\n"


# what it needs of this machine

class Alone(DaytonaStack):
    """Settings as they come, but for Daytona's: nobody has started husk-keeper, which no session here has a use for."""

    def __init__(self, **settings):
        super().__init__(**settings, SANDBOX_ISOLATION="auto", SANDBOX_ISOLATION_MIN="container", SANDBOX_EGRESS="none")
        self.settings["SANDBOX_KEEPER_DIR"] = self.path("no-keeper")

    def start_keeper(self):
        pass


def test_daytona_alone_needs_no_keeper():
    with running(Alone(SANDBOX_REAP_INTERVAL="0.5")) as stack:
        client = stack.client(stack.key())
        ready = client.get("/readyz")
        assert ready.status == 200 and (ready.json()["isolation"], ready.json()["egress"]) == ("vm", "provider"), ready
        session = client.open("a", ttl=1)
        assert session["isolation"] == "vm" and client.run("a", "print(1)")["stdout"] == "1\n"
        wait_until(lambda: stack.sql("SELECT kept_bytes FROM workspaces WHERE state = 'kept'") == [(0,)], 20, "the reaper's look at what is kept")
        assert "husk_isolation_ready 1\n" in client.get("/metrics").text
        doctor = stack.ctl("doctor", check=False).stdout
        assert "husk-keeper is not needed" in doctor and "FAIL" not in doctor, doctor
        assert "keeper" not in stack.log("master")


# the key

def test_redirects_are_not_followed(client, daytona):
    client.open("r")
    client.put("/v1/sessions/r/files/f", b"f")
    daytona.set(redirect={"*": -1})
    for method, path, body in (("POST", "/v1/sessions", {"session_id": "new"}), ("POST", "/v1/sessions/r/exec", {"code": "1"}),
                               ("GET", "/v1/sessions/r/files/f", None), ("GET", "/v1/sessions/r/files", None)):
        answer = client.request(method, path, json_body=body)
        assert answer.status >= 500 or answer.json().get("reason") == "gateway_lost", (path, answer)
    assert client.put("/v1/sessions/r/files/g", b"g").status >= 500
    assert daytona.seen()["elsewhere"] == []


def test_a_strange_certificate_is_refused(stack, client, daytona):
    client.open("t")
    client.run("t", "x = 1")
    sockets = daytona.count("interpreter")
    daytona.control(certificate="other")
    try:
        # connections of before may live on; a socket is always a new one
        answer = client.post("/v1/sessions/t/exec", {"code": "x"}, timeout=BOUND)
        assert answer.status in (502, 503) or answer.json()["reason"] == "gateway_lost", answer
        assert daytona.count("interpreter") == sockets
        before = stack.workers()
        for pid in before:
            os.kill(pid, signal.SIGTERM)  # the new ones have no connections
        wait_until(lambda: not set(before) & set(stack.workers()), 20, "the old workers' end")
        wait_until(lambda: len(stack.workers()) == len(before), 20, "new workers")
        daytona.control(forget=True)
        refused = wait_until(lambda: next((a for a in [client.post("/v1/sessions", {"session_id": "new"})]
                                           if a.code != "no_worker"), None), 20, "an answer")
        assert refused.status in (502, 503), refused
        assert client.get("/readyz").status in (502, 503)
        kinds = {c["kind"] for c in daytona.seen()["calls"]}
        assert not kinds & {"create", "interpreter"}, kinds
    finally:
        daytona.control(certificate="first")
    assert client.run("t", "print(x)")["stdout"] == "1\n"


def test_the_key_is_in_no_log_and_no_answer(stack, client, daytona):
    client.open("k")
    client.run("k", "print(1)")
    client.put("/v1/sessions/k/files/f", b"f")
    daytona.set(fail={"*": [401, -1]})
    bodies = [client.post("/v1/sessions/k/exec", {"code": "1"}).body, client.post("/v1/sessions", {"session_id": "x"}).body,
              client.get("/readyz").body]
    daytona.reset()
    stack.sweep()
    bodies.append(stack.ctl("config").encode())
    bodies.append(stack.ctl("status").encode())
    key = daytona.key.encode()
    assert all(key not in body for body in bodies)
    for pid in stack.workers():
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            assert key not in f.read()
    found, looked = [], 0
    for folder, _, names in os.walk(stack.dir):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path) and name != "husk.conf":
                looked += 1
                with open(path, "rb") as f:
                    if key in f.read():
                        found.append(path)
    assert found == [] and looked > 10
