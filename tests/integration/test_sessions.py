"""Sessions over HTTP: opening, reuse, owners, limits of names and TTLs, closing, restart."""
import concurrent.futures
import time

import pytest

from stack import wait_until

SETTINGS = {"SANDBOX_MAX_SESSIONS": 4, "SANDBOX_REAP_INTERVAL": "0.5", "SANDBOX_MAX_TTL": 600}


def close_all(client):
    for session in client.get("/v1/sessions").json()["sessions"]:
        client.delete(f"/v1/sessions/{session['session_id']}")


@pytest.fixture(autouse=True)
def clean(client):
    close_all(client)
    yield
    close_all(client)


def test_open_reuse_and_close(client):
    answer = client.post("/v1/sessions", {"session_id": "a", "ttl": 60, "labels": {"for": "test"}})
    assert answer.status == 201
    made = answer.json()
    assert made["state"] == "ready" and made["ttl"] == 60 and made["labels"] == {"for": "test"}
    again = client.post("/v1/sessions", {"session_id": "a"})
    assert again.status == 200 and again.json()["generation"] == made["generation"]
    assert client.get("/v1/sessions/a").json()["session_id"] == "a"
    assert client.delete("/v1/sessions/a").status == 204
    assert client.delete("/v1/sessions/a").code == "session_not_found"
    assert client.get("/v1/sessions/a").status == 404


def test_bindings_give_derived_names(client):
    assert client.post("/v1/sessions", {"conversation_id": "abc"}).json()["session_id"] == "c-abc"
    long = client.post("/v1/sessions", {"workflow_run_id": "run of 1/2/2026 ü"}).json()
    assert long["session_id"].startswith("wh-") and long["workflow_run_id"] == "run of 1/2/2026 ü"
    assert client.post("/v1/sessions", {"session_id": "c-abc"}).status == 400
    assert client.post("/v1/sessions", {"session_id": "x", "conversation_id": "y"}).status in (400, 422)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", "a\0b", "x" * 129, "../x"])
def test_bad_names_are_refused(client, name):
    assert client.post("/v1/sessions", {"session_id": name}).status == 400
    assert client.get("/v1/sessions").json()["sessions"] == []


def test_owners_never_meet(stack, client):
    other = stack.client(stack.key("somebody-else"))
    client.open("same")
    client.run("same", "secret = 1")
    assert other.get("/v1/sessions/same").status == 404
    other.open("same")
    assert other.run("same", "secret")["error_name"] == "NameError"
    assert len(other.get("/v1/sessions").json()["sessions"]) == 1
    close_all(other)
    assert client.get("/v1/sessions/same").status == 200


def test_parallel_opens_make_one_kernel(stack, client):
    def one(_):
        opened = client.open("shared")
        return opened["generation"], client.run("shared", "import os; print(os.getpid())", timeout=60)["stdout"]

    before = len(stack.kernels())
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        # more would be refused their turn: two may wait
        opened = list(pool.map(lambda _: client.open("shared")["generation"], range(16)))
    assert len(set(opened)) == 1
    assert one(0)[1] == one(1)[1]
    assert len(stack.kernels()) == before + 1


def test_cap_evicts_the_callers_own_idle_session_only(stack, client):
    other = stack.client(stack.key("neighbour"))
    other.open("theirs")
    for name in ("a", "b", "c"):
        client.open(name)
    client.run("a", "1")  # b is now the least recently used
    client.open("d")
    assert client.get("/v1/sessions/b").status == 404
    assert other.get("/v1/sessions/theirs").status == 200
    kernels = stack.kernels()
    close_all(other)
    assert len(kernels) == 4


def test_cap_holds_under_parallel_opens(stack, client):
    others = [stack.client(stack.key(f"owner{i}")) for i in range(8)]
    most = 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(o.post, "/v1/sessions", {"session_id": "x"}) for o in others]
        while not all(w.done() for w in waiting):
            most = max(most, len(stack.kernels()))
            time.sleep(0.05)
    for o in others:
        close_all(o)
    assert sorted(w.result().status for w in waiting) == [201] * 4 + [503] * 4
    assert most <= 4
    refused = next(w.result() for w in waiting if w.result().status == 503)
    assert refused.code == "session_limit" and int(refused.headers["retry-after"]) > 0


def test_idle_sessions_expire_and_work_counts_from_its_end(stack, client):
    client.open("short", ttl=2)
    client.run("short", "x = 1; import time; time.sleep(4)")
    assert client.run("short", "x")["status"] == "ok"
    time.sleep(2.3)
    assert client.get("/v1/sessions/short").status == 404
    wait_until(lambda: not stack.kernels(), 10, "the expired kernel's end")
    assert stack.sql("SELECT reason FROM session_history WHERE name = 'short'")[-1] == ("expired",)


@pytest.mark.parametrize("ttl,effective", [(0, 600), (-1, 600), (None, 600), (0.0001, 1), (1e308, 600), (30.5, 30.5)])
def test_ttl_is_clamped_and_echoed(client, ttl, effective):
    assert client.open("t", ttl=ttl)["ttl"] == effective


@pytest.mark.parametrize("raw", ["NaN", '"30"', "true", "[]", "1e999", '30,"ttl":31'])
def test_ttl_that_is_no_finite_number_is_refused(client, raw):
    answer = client.request("POST", "/v1/sessions", body=b'{"session_id":"t","ttl":%s}' % raw.encode(),
                            headers={"Content-Type": "application/json"})
    assert answer.status == 400
    assert client.get("/v1/sessions/t").status == 404


def test_reuse_extends_and_never_shrinks_but_patch_may(client):
    client.open("t", ttl=100)
    assert client.open("t", ttl=50)["ttl"] == 100
    assert client.open("t", ttl=200)["ttl"] == 200
    assert client.open("t")["ttl"] == 200
    assert client.patch("/v1/sessions/t", {"ttl": 20}).json()["ttl"] == 20


def test_delete_of_a_busy_session_waits_for_its_end(stack, client):
    client.open("busy")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(client.run, "busy", "import time; time.sleep(3); print('whole')")
        wait_until(lambda: client.get("/v1/sessions/busy").json()["state"] == "busy", 10, "busy")
        assert client.delete("/v1/sessions/busy").status == 202
        assert client.get("/v1/sessions/busy").json()["state"] == "closing"
        assert client.post("/v1/sessions", {"session_id": "busy"}).code == "session_closing"
        assert client.post("/v1/sessions/busy/exec", {"code": "1"}).code == "session_closing"
        assert client.delete("/v1/sessions/busy").status == 202
        assert run.result()["stdout"] == "whole\n"
    wait_until(lambda: client.get("/v1/sessions/busy").status == 404, 10, "the deferred close")
    wait_until(lambda: not stack.kernels(), 10, "the kernel's end")


def test_restart_makes_a_new_kernel_and_keeps_files(client):
    client.open("r")
    client.run("r", "x = 1; open('kept.txt', 'w').write('still here')")
    before = client.get("/v1/sessions/r").json()["generation"]
    after = client.post("/v1/sessions/r/restart")
    assert after.status == 200 and after.json()["generation"] > before
    assert client.run("r", "x")["error_name"] == "NameError"
    assert client.run("r", "print(open('kept.txt').read())")["stdout"] == "still here\n"


def test_files_of_an_evicted_or_expired_session_are_found_again(client):
    client.open("keeps", ttl=1)
    client.put("/v1/sessions/keeps/files/f.txt", b"data")
    time.sleep(1.6)
    wait_until(lambda: client.get("/v1/sessions/keeps").status == 404, 5, "expiry")
    again = client.open("keeps")
    assert again["files_kept"] is True
    assert client.get("/v1/sessions/keeps/files/f.txt").body == b"data"
    client.delete("/v1/sessions/keeps")
    assert client.open("keeps")["files_kept"] is False
    assert client.get("/v1/sessions/keeps/files/f.txt").status == 404


def test_list_is_paged_and_filtered(client):
    for i in range(3):
        client.open(f"p{i}", labels={"n": str(i)})
    first = client.get("/v1/sessions?limit=2").json()
    assert [s["session_id"] for s in first["sessions"]] == ["p2", "p1"]
    rest = client.get("/v1/sessions?limit=2&cursor=" + first["next_cursor"]).json()
    assert [s["session_id"] for s in rest["sessions"]] == ["p0"] and rest.get("next_cursor") is None
    assert [s["session_id"] for s in client.get("/v1/sessions?label=n:1").json()["sessions"]] == ["p1"]
    assert client.get("/v1/sessions?state=cold").json()["sessions"] == []
    assert client.get("/v1/sessions?state=odd").status == 400
    assert client.get("/v1/sessions?limit=x").status == 400
    assert client.get("/v1/sessions?nonsense=1").status == 400
