"""Both backends in one deployment: a session says which; where one is down, the other goes on."""
import contextlib
import json
import re
import signal

import pytest

from fakedaytona import MixedStack
from stack import wait_until

SETTINGS = {"SANDBOX_REAP_INTERVAL": "0.5", "SANDBOX_HTTP_TIMEOUT": 2, "SANDBOX_START_TIMEOUT": 8, "DAYTONA_MAX_SANDBOXES": 2,
            "SANDBOX_POOL_SIZE": 1}
STACK = MixedStack


@pytest.fixture(autouse=True)
def daytona(stack, client):
    yield stack.daytona
    stack.daytona.reset()
    for session in client.get("/v1/sessions").json()["sessions"]:
        client.delete(f"/v1/sessions/{session['session_id']}")
    for sandbox in stack.daytona.sandboxes():  # kept for sessions to come
        stack.daytona.control(auto={"id": sandbox["id"], "do": "delete"})


def test_a_session_says_which(stack, client, daytona):
    assert client.open("j")["backend"] == "jupyter" and client.open("d", backend="daytona")["backend"] == "daytona"
    client.open("stays")
    for name in "jd":
        assert client.run(name, "open('f', 'w').write('x'); print(1)")["stdout"] == "1\n"
        assert [f["path"] for f in client.get(f"/v1/sessions/{name}/files").json()["files"]] == ["f"]
        assert "ready" in stack.ctl("session", "show", "--owner", "tester", name)
    assert {s["session_id"]: s["backend"] for s in client.get("/v1/sessions").json()["sessions"]} == {"j": "jupyter", "d": "daytona", "stays": "jupyter"}
    assert len(daytona.sandboxes("started")) == 1
    for asked, status in (("daytona", 409), ("jupyter", 200), (None, 200)):
        again = client.post("/v1/sessions", {"session_id": "stays", **({"backend": asked} if asked else {})})
        assert again.status == status and (status == 200 or again.code == "conflict" and "backend jupyter" in again.json()["detail"]), again
    client.delete("/v1/sessions/stays")
    assert stack.ctl("session", "close", "--owner", "tester", "d") is not None
    assert client.delete("/v1/sessions/j").status == 204
    wait_until(lambda: daytona.seen()["alive"] == 0 and stack.sql("SELECT count(*) FROM runtimes") == [(0,)], 20, "both ends")
    refused = client.post("/v1/sessions", {"session_id": "n", "backend": "none"})
    assert (refused.status, refused.code) == (400, "unknown_backend")


def by_backend(client, name):
    start = f'husk_backend_{name}{{backend="'
    return {line[len(start):].split('"')[0]: int(line.split()[-1]) for line in client.get("/metrics").text.splitlines() if line.startswith(start)}


def test_the_operator_sees_which(stack, client):
    client.open("j")
    client.open("d", backend="daytona")
    client.open("e", backend="daytona", ttl=1)
    wait_until(lambda: client.get("/v1/sessions/e").status == 404 and by_backend(client, "workspaces_kept")["daytona"] == 1, 20, "expiry")
    lines = {line.split()[0]: line.split() for line in stack.ctl("session", "list").splitlines()}
    assert lines["SESSION"][3] == "BACKEND" and (lines["j"][3], lines["d"][3]) == ("jupyter", "daytona")
    assert "workspace:  in the sandbox" in stack.ctl("session", "show", "--owner", "tester", "d")
    status = {b.pop("name"): b for b in json.loads(stack.ctl("status", "--json"))["backends"]}
    assert status["daytona"] == {"set_up": True, "sessions": 1, "runtimes": 1, "max_runtimes": 2, "kept": 1, "max_kept": 50}
    assert (status["jupyter"]["sessions"], status["jupyter"]["runtimes"], status["jupyter"]["set_up"]) == (1, 1, True)
    assert "daytona: 1 sessions, 1 runtimes (at most 2), 1 kept after their session (at most 50)\n" in stack.ctl("status")
    assert by_backend(client, "sessions") == by_backend(client, "runtimes") == {"jupyter": 1, "daytona": 1}
    assert by_backend(client, "runtimes_max")["daytona"] == 2
    assert stack.sql("SELECT name, backend FROM v_sessions ORDER BY name") == [("d", "daytona"), ("j", "jupyter")]


def test_a_backend_has_a_cap_of_its_own(client, daytona):
    for name in ("d1", "d2", "d3"):  # the third takes the place of the one that was used least
        client.open(name, backend="daytona")
        client.open("j" + name)
    assert {s["session_id"] for s in client.get("/v1/sessions").json()["sessions"]} == {"d2", "d3", "jd1", "jd2", "jd3"}
    assert len(daytona.sandboxes("started")) == 2


def test_what_one_name_kept_stays_with_its_backend(client):
    client.open("k", ttl=1)
    client.run("k", "open('f', 'w').write('of the kernel')")
    wait_until(lambda: client.get("/v1/sessions/k").status == 404, 20, "expiry")
    assert client.open("k", backend="daytona")["files_kept"] is False
    assert client.get("/v1/sessions/k/files").json()["files"] == []


def test_without_daytona(stack, client, daytona):
    client.open("d", backend="daytona")
    client.open("e", ttl=1)
    daytona.set(hang={"*": -1})
    refused = client.get("/readyz")
    assert refused.status == 503 and "backend daytona" in refused.json()["detail"]
    client.open("j")
    assert client.run("j", "print(2)")["stdout"] == "2\n"
    assert client.delete("/v1/sessions/d").status == 204
    wait_until(lambda: stack.sql("SELECT count(*) FROM sessions WHERE name = 'e'") == [(0,)], 30, "the reaper's pass over the others")
    assert "FAIL  daytona" in stack.ctl("doctor", check=False).stdout
    assert json.loads(stack.ctl("status", "--json"))["workers"]
    daytona.reset()
    wait_until(lambda: daytona.seen()["alive"] == 0, 40, "the sandbox's end")
    assert client.get("/readyz").status == 200


def test_without_the_gateway(stack, client):
    stack.stop_process("gateway", signal.SIGKILL)
    try:
        refused = client.get("/readyz")
        assert refused.status == 503 and "backend jupyter" in refused.json()["detail"]
        client.open("d", backend="daytona")
        assert client.run("d", "print(3)")["stdout"] == "3\n"
        assert client.put("/v1/sessions/d/files/f", b"f").status == 201
        assert client.delete("/v1/sessions/d").status == 204
    finally:
        stack.start_gateway()
    wait_until(lambda: client.get("/readyz").status == 200, 30, "readyz")


@contextlib.contextmanager
def not_set_up(stack, setting):
    """The service without a setting meanwhile, as if an operator had taken it out of its file."""
    path = stack.path("husk.conf")
    with open(path) as f:
        whole = f.read()
    for text in ("".join(line for line in whole.splitlines(True) if not line.startswith(setting + "=")), whole):
        stack.stop_process("master")
        with open(path, "w") as f:
            f.write(text)
        stack.start_master()
        if text != whole:
            try:
                yield
            except BaseException:
                with open(path, "w") as f:
                    f.write(whole)
                raise


def test_sessions_of_a_backend_that_is_not_set_up_any_more(stack, client, daytona):
    """They say so, whatever is asked of them, and can be deleted; what they left ends once the backend is back."""
    for name in ("stays", "goes"):
        client.open(name, backend="daytona", ttl=600)
    client.run("stays", "x = 1; open('f', 'w').write('kept')")
    with not_set_up(stack, "DAYTONA_API_KEY"):
        url = "/v1/sessions/stays"
        calls = [("GET", url + "/files", None), ("GET", url + "/files/f", None), ("PUT", url + "/files/g", None), ("DELETE", url + "/files/f", None),
                 ("POST", url + "/exec", {"code": "1"}), ("POST", url + "/restart", {}), ("POST", "/v1/exec", {"code": "1", "session_id": "stays"}),
                 ("POST", "/v1/exec", {"code": "1", "session_id": "stays", "capture": True})]
        for method, path, body in calls:
            answer = client.request(method, path, body=b"g" if method == "PUT" else None, json_body=body)
            assert (answer.status, answer.code) == (503, "unavailable") and "backend daytona" in answer.json()["detail"], (method, path, answer)
        assert client.get(url).json()["backend"] == "daytona" and client.get("/readyz").status == 200
        assert re.search(r"daytona: 2 sessions, 2 runtimes, \d+ kept after their session; it is not set up here any more\n", stack.ctl("status"))
        assert by_backend(client, "runtimes_max")["daytona"] == 0
        refused = client.post("/v1/sessions", {"session_id": "n", "backend": "daytona"})
        assert (refused.status, refused.code) == (400, "unknown_backend")
        assert client.delete("/v1/sessions/goes").status == 204
        assert stack.sql("SELECT count(*) FROM runtimes WHERE name = 'goes'") == [(0,)]  # or it would count for ever
        stack.sweep()
        client.open("j")
        assert client.run("j", "print(2)")["stdout"] == "2\n"
        assert daytona.seen()["alive"] == 2
    assert client.run("stays", "print(open('f').read(), x)")["stdout"] == "kept 1\n"
    wait_until(lambda: daytona.seen()["alive"] == 1, 60, "the end of what was deleted meanwhile")
