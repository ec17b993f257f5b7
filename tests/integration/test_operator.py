"""What an operator relies on: metrics, structured logs, the documented queries, alarms about the database."""
import json
import os
import re
import shutil
import sqlite3
import subprocess
import time

import pytest

from documents import blocks
from stack import wait_until

SETTINGS = {"SANDBOX_LOG_FORMAT": "json", "SANDBOX_REAP_INTERVAL": 1}


def metrics(stack):
    answer = stack.client(None).get("/metrics")
    assert answer.status == 200
    return answer.body.decode()


def sample(text, name):
    """The value of one sample, labels included in the name."""
    (value,) = re.findall("^" + re.escape(name) + r" (\S+)$", text, re.M)
    return float(value)


def test_metrics_are_well_formed_and_count(stack, client, session):
    before = metrics(stack)
    client.run(session, "print(1)")
    client.run(session, "1/0")
    after = metrics(stack)
    for name in ('husk_executions_total{reason="completed"}', 'husk_executions_total{reason="exception"}', "husk_execution_seconds_count"):
        assert sample(after, name) > sample(before, name), name
    assert sample(after, 'husk_requests_total{lane="exec",class="2xx"}') >= 2
    assert sample(after, 'husk_sessions{state="ready"}') >= 1
    assert sample(after, "husk_gateway_seconds_count") >= 1
    assert sample(after, 'husk_request_seconds_bucket{le="+Inf"}') == sample(after, "husk_request_seconds_count")
    for name in ("husk_turn_waiters", "husk_database_wal_bytes", "husk_workers", "husk_runtimes", 'husk_alarms{what="long_reader"}'):
        assert name in after
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    done = subprocess.run(["promtool", "check", "metrics"], input=after, text=True, capture_output=True, timeout=30)
    assert done.returncode == 0 and not (done.stdout + done.stderr).strip(), done.stdout + done.stderr


def test_logs_are_json_and_name_request_session_and_execution(stack, client, session):
    ran = client.post(f"/v1/sessions/{session}/exec", {"code": "import os; os.kill(os.getpid(), 9)"})
    wait_until(lambda: ran.json()["execution_id"] in stack.log("master"), 10, "a line about the execution")
    lines = [json.loads(line) for line in stack.log("master").splitlines(keepends=True) if line.endswith("\n")]
    assert {"husk-master", "husk-worker", "husk-reaper"} <= {line["program"] for line in lines}
    for line in lines:
        assert {"time", "level", "program", "pid", "message"} <= line.keys()
    told = [line for line in lines if line.get("execution_id") == ran.json()["execution_id"]]
    assert told, "no line about the execution"
    for line in told:
        assert line["session_id"] == session and re.fullmatch("[0-9a-f]{32}", line["request_id"])


def test_the_documented_queries_run(stack, client, session):
    client.run(session, "1/0")
    queries = blocks("sqlite.md", "sql")
    assert len(queries) >= 8
    for query in queries:
        stack.sql(query)


def alarm(stack, what):
    return [a["detail"] for a in json.loads(stack.ctl("status", "--json"))["alarms"] if a["what"] == what]


def forget_transaction(stack, *statements):
    """An operator's sqlite3, left open in a transaction."""
    shell = subprocess.Popen(["sqlite3", stack.path("s", "husk.db")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, **stack._as("husk"))
    shell.stdin.write("\n".join(statements) + "\nSELECT 'open';\n")
    shell.stdin.flush()
    while shell.stdout.readline() != "open\n":
        pass
    return shell


def end(shell):
    shell.stdin.close()
    shell.wait(10)
    shell.stdout.close()


def test_a_forgotten_reader_raises_an_alarm_and_stops_nobody(stack, client, session):
    shell = forget_transaction(stack, "BEGIN;", "SELECT count(*) FROM sessions;")
    try:
        (detail,) = wait_until(lambda: alarm(stack, "long_reader"), 40, "the alarm")
        assert f"process {shell.pid} (sqlite3)" in detail
        began = time.monotonic()
        assert client.run(session, "print(1)")["stdout"] == "1\n"
        assert time.monotonic() - began < 4
        wait_until(lambda: "alarm, long_reader" in stack.log("master"), 15, "the reaper's line")
        assert sample(metrics(stack), 'husk_alarms{what="long_reader"}') == 1
        assert "ALARM" in stack.ctl("status")
    finally:
        end(shell)
    wait_until(lambda: not alarm(stack, "long_reader"), 10, "the alarm's end")
    wait_until(lambda: sample(metrics(stack), "husk_database_wal_bytes") < 4 << 20, 10, "an emptied log")


def test_a_forgotten_writer_is_a_clean_503_an_alarm_and_over_when_it_ends(stack, client, session):
    shell = forget_transaction(stack, "BEGIN IMMEDIATE;")
    try:
        refused = client.post(f"/v1/sessions/{session}/exec", {"code": "1"}, timeout=60)
        assert (refused.status, refused.code) == (503, "database_busy"), refused.body
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get(f"/v1/sessions/{session}").status == 200  # who only reads is not hindered
        (detail,) = wait_until(lambda: alarm(stack, "long_writer"), 30, "the alarm")
        assert f"process {shell.pid} (sqlite3)" in detail
        wait_until(lambda: "alarm, long_writer" in stack.log("master"), 15, "the reaper's line")
        assert sample(metrics(stack), 'husk_alarms{what="long_writer"}') == 1
    finally:
        end(shell)
    assert client.run(session, "print(2)")["stdout"] == "2\n"
    wait_until(lambda: not alarm(stack, "long_writer"), 15, "the alarm's end")


def test_a_reaper_that_does_not_sweep_raises_an_alarm(stack):
    assert not alarm(stack, "reaper")
    database = sqlite3.connect(stack.path("s", "husk.db"))
    try:
        with database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE clock SET swept_at = swept_at - 120000")
            # seen from inside the transaction: the next sweep would mend it at once
            told = database.execute("SELECT detail FROM v_alarms WHERE what = 'reaper'").fetchone()
            database.execute("ROLLBACK")
    finally:
        database.close()
    assert told and "last sweep" in told[0]
