"""huskctl and the operator's views on a running service."""
import json

import pytest


def test_status_and_sessions(stack, client, session):
    client.run(session, "1")
    status = json.loads(stack.ctl("status", "--json"))
    assert {w["lane"] for w in status["workers"]} == {"exec", "api", "bulk", "ctl"}
    assert "exec" in stack.ctl("status")
    assert session in stack.ctl("session", "list")
    listed = json.loads(stack.ctl("session", "list", "--json"))["sessions"]
    assert session in [s["session_id"] for s in listed]
    assert session in stack.ctl("session", "show", session)


def test_session_close(stack, client):
    client.open("to-close")
    stack.ctl("session", "close", "to-close")
    assert client.get("/v1/sessions/to-close").status == 404


def test_keys(stack):
    key = stack.key("someone", "read")
    assert stack.client(key).get("/v1/sessions").status == 200
    assert key not in stack.ctl("key", "list")


def test_config_masks_secrets(stack):
    shown = stack.ctl("config")
    assert stack.token not in shown and "SANDBOX_GATEWAY_AUTH_TOKEN=" in shown


def test_doctor_finds_a_working_service_healthy(stack):
    done = stack.ctl("doctor", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_database(stack, tmp_path):
    assert stack.ctl("db", "check", check=False).returncode == 0
    stack.ctl("db", "migrate")


@pytest.mark.parametrize("args", [["nonsense"], ["session", "show"], ["key", "create", "--scope", "everything", "--owner", "x"], ["--nope"]])
def test_wrong_use_is_refused_with_a_reason(stack, args):
    done = stack.ctl(*args, check=False)
    assert done.returncode != 0 and done.stderr.strip()


@pytest.mark.parametrize("program", ["husk-master", "husk-worker", "husk-reaper", "huskctl"])
def test_help_and_version(stack, program):
    import subprocess
    for option in ("--help", "--version"):
        done = subprocess.run([stack.path("bin", program), option], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and program in done.stdout


def test_views(stack, client, session):
    client.run(session, "1/0")
    (row,) = stack.sql("SELECT owner, name, state FROM v_sessions WHERE name = ?", session)
    assert row == ("tester", session, "ready")
    assert stack.sql("SELECT count(*) FROM v_executions")[0][0] >= 1


def test_reaper_once(stack):
    stack.sweep()
