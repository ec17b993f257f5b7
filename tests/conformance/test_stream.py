"""Event streams, and runs that are asked for twice."""
import concurrent.futures
import socket
import time
import uuid

from stack import wait_until


def stream(client, session, code, **kw):
    return client.stream("POST", f"/v1/sessions/{session}/exec", {"code": code, "timeout": 30}, **kw)


def test_events_arrive_in_order_as_they_happen(client, session):
    arrived, events = {}, []
    code = "import sys, time\nfor i in range(3): print(i, flush=True); time.sleep(0.6)\nprint('e', file=sys.stderr)\n42"
    for event, ident, data in stream(client, session, code):
        if event:
            events.append((event, ident, data))
            if event == "stdout":
                arrived[data["text"]] = time.monotonic()
    kinds = [e[0] for e in events]
    assert kinds[0] == "execution" and kinds[-1] == "result" and kinds.count("result") == 1
    assert [e[1] for e in events] == list(range(1, len(events) + 1))
    assert "".join(d["text"] for k, _, d in events if k == "stdout") == "0\n1\n2\n"
    assert "".join(d["text"] for k, _, d in events if k == "stderr") == "e\n"
    assert arrived["2\n"] - arrived["0\n"] > 0.8  # streamed, not handed over at the end
    assert [d["data"]["text/plain"] for k, _, d in events if k == "execute_result"] == ["42"]
    assert events[-1][2]["reason"] == "completed" and events[-1][2]["execution_id"] == events[0][2]["execution_id"]


def test_an_error_is_an_event(client, session):
    events = [(e, d) for e, _, d in stream(client, session, "print('a'); 1/0") if e]
    assert [e for e, _ in events] == ["execution", "stdout", "error", "result"]
    assert events[2][1]["error_name"] == "ZeroDivisionError"
    assert events[3][1]["reason"] == "exception"


def test_resume_during_and_after_the_run(client, fresh):
    code = "import time\nfor i in range(4): print(i, flush=True); time.sleep(0.3)"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(lambda: list(stream(client, fresh, code)))
        row = wait_until(lambda: client.get(f"/v1/sessions/{fresh}/executions").json()["executions"], 10, "the row")[0]
        path = f"/v1/executions/{row['execution_id']}/events"
        seen = [e for e in client.stream("GET", path) if e[0]]
        whole = [e for e in run.result() if e[0]]
    assert seen == whole
    assert [e for e in client.stream("GET", path, headers={"Last-Event-ID": "3"}) if e[0]] == whole[3:]


def test_on_disconnect_continue_runs_to_the_end(client, session):
    connection, response = client.start(
        "POST", f"/v1/sessions/{session}/exec", headers={"Accept": "text/event-stream"},
        json_body={"code": "import time\nfor i in range(4): print(i); time.sleep(0.4)", "on_disconnect": "continue"})
    response.read(10)
    connection.sock and connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    response.close()
    row = client.get(f"/v1/sessions/{session}/executions").json()["executions"][0]
    events = [e for e in client.stream("GET", f"/v1/executions/{row['execution_id']}/events") if e[0]]
    assert "".join(e[2]["text"] for e in events if e[0] == "stdout") == "0\n1\n2\n3\n"
    assert events[-1][2]["reason"] == "completed"


def test_idempotency_keys_run_once(client, session):
    key = {"Idempotency-Key": "k-" + uuid.uuid4().hex}
    client.run(session, "n = 0")
    body = {"code": "import time; time.sleep(1); n += 1; print(n)"}
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: client.post(f"/v1/sessions/{session}/exec", body, headers=key), range(3)))
    answers.append(client.post(f"/v1/sessions/{session}/exec", body, headers=key))
    assert [a.status for a in answers] == [200] * 4, answers
    assert {a.json()["stdout"] for a in answers} == {"1\n"} and len({a.json()["execution_id"] for a in answers}) == 1
    other = client.post(f"/v1/sessions/{session}/exec", {"code": "n += 2"}, headers=key)
    assert other.code == "idempotency_mismatch"
    assert client.run(session, "print(n)")["stdout"] == "1\n"
