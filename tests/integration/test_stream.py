"""Event streams: order, resumption, slow and vanished readers, runs that go on alone, idempotency."""
import concurrent.futures
import contextlib
import os
import socket
import subprocess
import time
import uuid

import pytest

from stack import wait_until

SETTINGS = {"SANDBOX_SPOOL_BYTES": 4 << 20, "SANDBOX_MAX_EXEC_TIMEOUT": 60}


def stream(client, session, code, **kw):
    return client.stream("POST", f"/v1/sessions/{session}/exec", {"code": code, "timeout": 30}, **kw)


def test_events_arrive_in_order_as_they_happen(client, session):
    code = "import time\nfor i in range(4): print(i, flush=True); time.sleep(0.7)\ndisplay('d'); 42"
    arrived, events = {}, []
    for event, ident, data in stream(client, session, code):
        if event:
            events.append((event, ident, data))
            if event == "stdout":
                arrived[data["text"]] = time.monotonic()
    kinds = [e[0] for e in events]
    assert kinds[0] == "execution" and kinds[-1] == "result" and kinds.count("result") == 1
    assert [e[1] for e in events] == list(range(1, len(events) + 1))
    assert "".join(d["text"] for k, _, d in events if k == "stdout") == "0\n1\n2\n3\n"
    assert arrived["3\n"] - arrived["0\n"] > 1.5  # streamed, not handed over at the end
    assert "display_data" in kinds and "execute_result" in kinds
    assert events[-1][2]["reason"] == "completed" and events[-1][2]["execution_id"] == events[0][2]["execution_id"]


def test_resume_during_and_after_the_run(client, session):
    seen = []
    code = "import time\nfor i in range(6): print(i, flush=True); time.sleep(0.4)"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(lambda: list(stream(client, session, code)))
        row = wait_until(lambda: client.get(f"/v1/sessions/{session}/executions").json()["executions"], 10, "the row")[0]
        path = f"/v1/executions/{row['execution_id']}/events"
        for event, ident, data in client.stream("GET", path):
            if event:
                seen.append((event, ident, data))
        whole = [e for e in run.result() if e[0]]
    assert seen == whole
    rest = [e for e in client.stream("GET", path, headers={"Last-Event-ID": "3"}) if e[0]]
    assert rest == whole[3:]
    assert client.get("/v1/executions/" + str(uuid.uuid4()) + "/events").status == 404


def test_plain_runs_can_be_read_as_events_too(client, session):
    result = client.run(session, "print('x')")
    events = [e for e in client.stream("GET", f"/v1/executions/{result['execution_id']}/events") if e[0]]
    assert ("stdout", {"text": "x\n"}) in [(e[0], e[2]) for e in events] and events[-1][0] == "result"


def test_keep_alive_comments(client, session):
    comments = [text for event, _, text in stream(client, session, "import time; time.sleep(11)") if event is None]
    assert len(comments) >= 1


def test_a_reader_that_reads_nothing_delays_nobody(client, session):
    connection, response = client.start("POST", f"/v1/sessions/{session}/exec", headers={"Accept": "text/event-stream"},
                                        json_body={"code": "for i in range(3000): print('x' * 1000)\nopen('done', 'w')", "timeout": 30})
    try:
        wait_until(lambda: client.get(f"/v1/sessions/{session}/files/done").status == 200, 20, "the run's end")
        assert client.run(session, "print(1)")["stdout"] == "1\n"
    finally:
        connection.close()


def test_a_spool_over_its_bound_says_so(client, session):
    events = [e for e in stream(client, session, "for i in range(8000): print('x' * 1000)", timeout=90) if e[0]]
    assert [e[0] for e in events].count("gap") == 1 and events[-1][0] == "result"
    assert events[-1][2]["bytes"]["stdout"] == 8000 * 1001


def leave(client, session, body, headers=None):
    connection, response = client.start("POST", f"/v1/sessions/{session}/exec",
                                        headers={"Accept": "text/event-stream", **(headers or {})}, json_body=body)
    response.read(10)
    # shut down first: close() alone keeps the socket while the response object lives
    connection.sock and connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    response.close()


def test_a_vanished_reader_interrupts_within_a_second(client, session):
    leave(client, session, {"code": "import time; time.sleep(30)", "timeout": 40})
    wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["state"] == "ready", 6, "the interrupted run's end")
    row = client.get(f"/v1/sessions/{session}/executions").json()["executions"][0]
    assert row["reason"] == "client_gone"


def test_on_disconnect_continue_runs_to_the_end(client, session):
    leave(client, session, {"code": "import time\nfor i in range(5): print(i); time.sleep(0.5)", "on_disconnect": "continue"})
    row = client.get(f"/v1/sessions/{session}/executions").json()["executions"][0]
    events = [e for e in client.stream("GET", f"/v1/executions/{row['execution_id']}/events") if e[0]]
    assert "".join(e[2]["text"] for e in events if e[0] == "stdout") == "0\n1\n2\n3\n4\n"
    assert events[-1][2]["reason"] == "completed"


def test_idempotency_keys_run_once(client, session):
    key = {"Idempotency-Key": "k-" + uuid.uuid4().hex}
    client.run(session, "n = 0")
    body = {"code": "n += 1; print(n)"}
    first = client.post(f"/v1/sessions/{session}/exec", body, headers=key)
    second = client.post(f"/v1/sessions/{session}/exec", body, headers=key)
    assert first.json()["stdout"] == second.json()["stdout"] == "1\n"
    assert first.json()["execution_id"] == second.json()["execution_id"]
    other = client.post(f"/v1/sessions/{session}/exec", {"code": "n += 2"}, headers=key)
    assert other.code == "idempotency_mismatch"
    assert client.run(session, "print(n)")["stdout"] == "1\n"


def test_the_same_key_from_many_clients_at_once_runs_once(client, session):
    code = "import time\nopen('n', 'a').write('x'); time.sleep(2); print('one')"

    def ask(_):
        return client.post(f"/v1/sessions/{session}/exec", {"code": code}, headers={"Idempotency-Key": "many"})

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(ask, range(5)))
    assert [a.status for a in answers] == [200] * 5, answers
    assert len({a.json()["execution_id"] for a in answers}) == 1
    assert {a.json()["stdout"] for a in answers} == {"one\n"}
    assert client.get(f"/v1/sessions/{session}/files/n").body == b"x"


def test_idempotent_repeats_join_the_run_still_going(client, session):
    key = {"Idempotency-Key": "j-" + uuid.uuid4().hex}
    body = {"code": "import time; time.sleep(2); print('once')"}
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(client.post, f"/v1/sessions/{session}/exec", body, headers=key) for _ in range(3)]
        results = [r.result() for r in runs]
    assert [r.status for r in results] == [200] * 3, results
    assert {r.json()["stdout"] for r in results} == {"once\n"} and len({r.json()["execution_id"] for r in results}) == 1
    assert len(client.get(f"/v1/sessions/{session}/executions").json()["executions"]) == 1


def test_followers_leave_workers_for_files(client, session):
    client.put(f"/v1/sessions/{session}/files/f", b"x")
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        run = pool.submit(client.run, session, "import time; time.sleep(6); print('end')")
        row = wait_until(lambda: client.get(f"/v1/sessions/{session}/executions").json()["executions"], 10, "the row")[0]
        path = f"/v1/executions/{row['execution_id']}/events"
        following = [pool.submit(client.get, path, headers={"Accept": "text/event-stream"}, check=False) for _ in range(9)]
        time.sleep(1)
        assert client.get(f"/v1/sessions/{session}/files/f").body == b"x"
        assert not run.done()
        answers = [f.result() for f in following]
        assert run.result()["stdout"] == "end\n"
    refused = [a for a in answers if a.status != 200]
    assert len(refused) >= 2 and {(a.code, a.headers["retry-after"]) for a in refused} == {("no_worker", "2")}
    assert all(a.body.count(b"event: result") == 1 for a in answers if a.status == 200) and len(answers) > len(refused)


@contextlib.contextmanager
def no_room_for_events(stack, how):
    spool = os.path.join(stack.state, "spool")
    mode = os.stat(spool).st_mode & 0o7777
    if how == "no file":
        os.chmod(spool, 0o500)
        try:
            yield
        finally:
            os.chmod(spool, mode)
        return
    if os.geteuid() != 0:
        pytest.skip("a full disk takes a mount")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=4096,mode=0{mode:o},uid={os.stat(spool).st_uid}", "husk-full",
                       spool], check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        with open(os.path.join(spool, "filler"), "wb") as f:
            f.write(bytes(4096))
        yield
    finally:
        subprocess.run(["umount", "-l", spool], check=True)


@pytest.mark.parametrize("how", ["no file", "no byte"])
def test_a_stream_whose_events_find_no_room_says_so_or_has_all_in_its_result(stack, client, session, how):
    client.run(session, "1")
    with no_room_for_events(stack, how):
        events = [e for e in client.stream("POST", f"/v1/sessions/{session}/exec", {"code": "print('seen')"}) if e[0]]
        whole = client.run(session, "print('seen')")
    assert whole["stdout"] == "seen\n" and whole["reason"] == "completed"
    kinds, result = [e[0] for e in events], events[-1][2]
    assert kinds[-1] == "result" and kinds.count("result") == 1 and result["reason"] == "completed"
    text = "".join(e[2]["text"] for e in events if e[0] == "stdout")
    assert "gap" in kinds or text + result.get("stdout", "") == "seen\n", events
    assert [e[1] for e in events] == sorted({e[1] for e in events})
