"""Sessions: open, reuse, close; what ends with the runtime and what outlives it."""
import concurrent.futures
import time

from stack import wait_until


def test_open_reuse_close(client, backend):
    answer = client.post("/v1/sessions", {"session_id": "life", "ttl": 60, "labels": {"for": "test"}})
    assert answer.status == 201
    made = answer.json()
    assert (made["state"], made["ttl"], made["labels"]) == ("ready", 60, {"for": "test"})
    assert (made["backend"], made["stateful"], made["files_kept"]) == (backend, True, False)
    again = client.post("/v1/sessions", {"session_id": "life"})
    assert again.status == 200 and again.json()["generation"] == made["generation"]
    assert "life" in [s["session_id"] for s in client.get("/v1/sessions").json()["sessions"]]
    assert client.delete("/v1/sessions/life").status == 204
    assert client.delete("/v1/sessions/life").code == "session_not_found"
    assert client.post("/v1/sessions/life/exec", {"code": "1"}).code == "session_not_found"


def test_parallel_opens_make_one_runtime(client):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: client.open("shared")["generation"], range(12)))
    assert len(set(opened)) == 1
    pids = {client.run("shared", "import os; print(os.getpid())")["stdout"] for _ in range(2)}
    assert len(pids) == 1
    client.delete("/v1/sessions/shared")


def test_owners_never_meet(stack, client, fresh):
    other = stack.client(stack.key("somebody-else"))
    client.run(fresh, "secret = 1; open('secret', 'w').write('s')")
    assert other.get(f"/v1/sessions/{fresh}").status == 404
    other.open(fresh)
    assert other.run(fresh, "secret")["error_name"] == "NameError"
    assert other.get(f"/v1/sessions/{fresh}/files/secret").code == "file_not_found"
    assert other.delete(f"/v1/sessions/{fresh}").status in (202, 204)
    assert client.run(fresh, "print(secret)")["stdout"] == "1\n"


def test_restart_loses_the_state_and_keeps_the_files(client, session):
    client.run(session, "x = 1; open('kept.txt', 'w').write('still here')")
    before = client.get(f"/v1/sessions/{session}").json()["generation"]
    after = client.post(f"/v1/sessions/{session}/restart")
    assert after.status == 200 and after.json()["generation"] > before
    assert client.run(session, "x")["error_name"] == "NameError"
    assert client.run(session, "print(open('kept.txt').read())")["stdout"] == "still here\n"


def test_idle_sessions_expire_and_their_files_are_found_again(client):
    client.open("idle", ttl=1)
    client.run("idle", "x = 1; open('by-code', 'w').write('c'); import time; time.sleep(1.5)")
    client.put("/v1/sessions/idle/files/put", b"p")
    assert client.run("idle", "print(x)")["stdout"] == "1\n", "work counts from its end"
    time.sleep(1.2)
    wait_until(lambda: client.get("/v1/sessions/idle").status == 404, 10, "expiry")
    assert client.post("/v1/sessions/idle/exec", {"code": "x"}).code == "session_not_found"
    again = client.open("idle")
    assert again["files_kept"] is True
    assert client.run("idle", "x")["error_name"] == "NameError"
    assert client.get("/v1/sessions/idle/files/put").body == b"p"
    assert client.run("idle", "print(open('by-code').read())")["stdout"] == "c\n"
    assert client.delete("/v1/sessions/idle").status == 204
    assert client.open("idle")["files_kept"] is False
    assert client.get("/v1/sessions/idle/files/put").code == "file_not_found"
    client.delete("/v1/sessions/idle")


def test_the_loss_of_state_is_told_once(client, session):
    client.run(session, "x = 41; open('f', 'w').write('kept')")
    began = time.monotonic()
    # what a kernel has not handed to its sockets when it dies is nobody's: it gets a moment
    died = client.run(session, "print('last', flush=True); import os, time; time.sleep(0.5); os._exit(1)", timeout=50)
    assert time.monotonic() - began < 20
    assert (died["reason"], died["exit_code"], died["runtime_invalidated"]) == ("kernel_died", -1, True)
    assert died["stdout"] == "last\n"
    after = client.run(session, "print(open('f').read()); x")
    assert (after["stdout"], after["error_name"], after["session"]["state_lost"]) == ("kept\n", "NameError", True)
    assert client.run(session, "print(1)")["session"]["state_lost"] is False


def test_delete_of_a_busy_session_waits_for_its_end(client):
    client.open("busy")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(client.run, "busy", "import time; time.sleep(2); print('whole')")
        wait_until(lambda: client.get("/v1/sessions/busy").json()["state"] == "busy", 10, "busy")
        assert client.delete("/v1/sessions/busy").status == 202
        assert client.get("/v1/sessions/busy").json()["state"] == "closing"
        assert client.post("/v1/sessions/busy/exec", {"code": "1"}).code == "session_closing"
        assert run.result()["stdout"] == "whole\n"
    wait_until(lambda: client.get("/v1/sessions/busy").status == 404, 10, "the deferred close")


def test_one_call(client):
    body = {"code": "x = int(open('in/n').read()); print(x + 1)", "inputs": [{"path": "in/n", "content_base64": "NDE="}]}
    answer = client.post("/v1/exec", body)
    assert answer.status == 200 and answer.json()["stdout"] == "42\n", answer
    assert answer.json()["inputs_loaded"][0]["path"] == "in/n"
    assert client.get("/v1/sessions/" + answer.json()["session"]["session_id"]).status == 404
    kept = client.post("/v1/exec", {**body, "session_id": "one-call", "persist": True}).json()
    assert kept["session"]["state"] == "ready"
    assert client.run("one-call", "print(x)")["stdout"] == "41\n"
    client.delete("/v1/sessions/one-call")
