"""huskctl and the operator's views on a running service."""
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess

import pytest

from stack import ROOT, SOURCE


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


@pytest.mark.parametrize("args, says", [
    (["nonsense"], "unknown command"), (["--nope"], "unknown option --nope"), (["session", "show"], "session show needs ID"),
    (["key", "create"], "key create needs --owner OWNER, whose key it is"), (["key", "create", "--owner"], "needs a value"),
    (["key", "create", "--owner", "x", "--scope", "everything"], "not \"everything\""),
    (["key", "create", "--owner", "x" * 65], "1 to 64 bytes"), (["key", "create", "--owner", "x", "--expires", "soon"], "30days"),
    (["config", "--json", "--nginx"], "--nginx"), (["sandbox", "list", "x"], "unexpected")])
def test_wrong_use_is_refused_with_a_reason(stack, args, says):
    done = stack.ctl(*args, check=False)
    assert done.returncode == 2 and says in done.stderr and not done.stdout, done


def test_a_command_says_what_it_lacks_and_where_to_read(stack):
    done = stack.ctl("key", "create", check=False)
    assert done.stderr.endswith("see huskctl key create --help\n"), done
    assert "--owner OWNER" in stack.ctl("key", "create", "--help")


@pytest.mark.skipif(not ROOT, reason="only root can make what is another user's")
def test_what_root_makes_is_the_services(stack, tmp_path):
    """A database or lock of root's would keep the service from starting."""
    os.chmod(tmp_path, 0o711)
    for folder in (tmp_path.parent, tmp_path.parent.parent):
        os.chmod(folder, 0o711)
    names = ("state", "run")
    for name in names:
        (tmp_path / name).mkdir()
        shutil.chown(tmp_path / name, "husk", "husk")
    conf = tmp_path / "husk.conf"
    conf.write_text(f"SANDBOX_STATE_DIR={tmp_path}/state\nSANDBOX_RUNTIME_DIR={tmp_path}/run\nSANDBOX_GATEWAY_URL=http://127.0.0.1:1\n")
    conf.chmod(0o600)
    for argv in (["huskctl", "db", "migrate"], ["huskctl", "key", "create", "--owner", "me"], ["huskctl", "status"], ["husk-reaper", "--once"]):
        done = subprocess.run([stack.path("bin", argv[0]), "--config", str(conf), *argv[1:]], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 or argv[0] == "husk-reaper", done
    made = [path for name in names for path in (tmp_path / name).rglob("*")]
    assert {"husk.db", "locks"} <= {path.name for path in made}
    assert {path.owner() for path in made} == {"husk"}, made


def test_settings_that_are_not_the_service_s_are_named(stack, tmp_path):
    """An operator who forgot --config must not take an empty state for the service's."""
    def ctl(*args, **environment):
        return subprocess.run([stack.path("bin", "huskctl"), *args], capture_output=True, text=True, timeout=20,
                              env={"PATH": os.environ["PATH"], **environment})

    done = ctl("db", "check")
    named = "there is no /etc/husk/husk.conf, and neither --config nor HUSK_CONFIG names another: these are the defaults, SANDBOX_STATE_DIR=/var/lib/husk"
    assert (named in done.stderr) is not os.path.exists("/etc/husk/husk.conf"), done
    assert "neither" not in ctl("config", "--sample").stderr
    empty = tmp_path / "empty.conf"
    empty.write_text(f"SANDBOX_STATE_DIR={tmp_path}\n")
    for done in (ctl("session", "list", HUSK_CONFIG=str(empty)), ctl("--config", str(empty), "db", "check")):
        assert done.returncode == 1 and f"settings of {empty}: there is no database {tmp_path}/husk.db" in done.stderr, done
    done = ctl("session", "list", SANDBOX_STATE_DIR=str(tmp_path / "none"))
    assert done.returncode == 1 and "neither" not in done.stderr and f"{tmp_path}/none/husk.db" in done.stderr, done
    done = ctl("status", HUSK_CONFIG=str(tmp_path / "none.conf"))
    assert done.returncode != 0 and f"cannot open {tmp_path}/none.conf" in done.stderr, done


def test_words_that_begin_commands_list_them(stack):
    done = stack.ctl("key", "--help", check=False)
    assert done.returncode == 0 and "key create" in done.stdout and "status" not in done.stdout
    done = stack.ctl("key", check=False)
    assert done.returncode == 2 and "key revoke KEY_ID" in done.stderr


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


def run_code(stack, session, code, *more):
    return stack.ctl("exec", *more, session, "-", check=False, input=code)


def test_exec_prints_what_the_code_prints_and_ends_as_it_does(stack, client, session):
    done = run_code(stack, session, "import sys\nx = 1\nprint('out')\nprint('err', file=sys.stderr)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert client.run(session, "print(x)")["stdout"] == "1\n"
    failed = run_code(stack, session, "1/0")
    assert failed.returncode == 1 and "ZeroDivisionError" in failed.stderr
    late = run_code(stack, session, "import time; time.sleep(30)", "--timeout", "1s")
    assert late.returncode != 0 and "timeout" in late.stderr
    missing = run_code(stack, "no-such-session", "1")
    assert missing.returncode == 1 and missing.stderr.startswith("huskctl: ")
    other = stack.client(stack.key("someone-else"))
    other.open(session)
    assert run_code(stack, session, "print('theirs'); y = 2", "--owner", "someone-else").stdout == "theirs\n"
    assert other.run(session, "print(y)")["stdout"] == "2\n"
    other.delete(f"/v1/sessions/{session}")


def test_exec_of_a_file_as_json_is_recorded_like_any_other(stack, client, session):
    path = stack.path("code.py")
    with open(path, "w") as f:
        f.write("print('from a file'); 6 * 7")
    result = json.loads(stack.ctl("exec", "--json", session, path))
    assert result["stdout"] == "from a file\n" and result["reason"] == "completed"
    assert result["results"][0]["data"]["text/plain"] == "42"
    here = f"/v1/executions/{result['execution_id']}"
    assert client.get(here).json()["status"] == "ok"
    ran = client.run(session, "1")
    assert result.keys() == ran.keys()
    (followed,) = [data for kind, _, data in client.stream("GET", here + "/events") if kind == "result"]
    assert followed.keys() == ran.keys() - {"stdout", "stderr"}


def test_exec_is_interrupted_by_ctrl_c(stack, client, session):
    process = subprocess.Popen(
        [stack.path("bin", "huskctl"), "--config", stack.path("husk.conf"), "exec", session], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **stack._as("husk"))
    process.stdin.write("import time\nprint('on', flush=True)\ntime.sleep(30)")
    process.stdin.close()
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(15) != 0
    process.stdout.close(), process.stderr.close()
    assert client.run(session, "print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("kind, mode", [("backup", 0o640), ("snapshot", 0o440)])
def test_copies_of_the_database(stack, session, kind, mode):
    path = stack.path("s", kind + ".db")
    stack.ctl("db", kind, path)
    assert stat.S_IMODE(os.stat(path).st_mode) == mode
    copy = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert copy.execute("SELECT count(*) FROM v_sessions WHERE name = ?", (session,)).fetchone() == (1,)
    copy.close()
    before = os.stat(path)
    again = stack.ctl("db", kind, path, check=False)
    assert again.returncode == 1 and "exists" in again.stderr
    assert os.stat(path).st_mtime_ns == before.st_mtime_ns


def test_everything_shown_is_shown_as_json_too(stack, session):
    for command in (["status"], ["session", "list"], ["session", "show", session], ["key", "list"], ["config"], ["doctor"],
                    ["key", "create", "--owner", "j"]):
        shown = stack.ctl(*command, "--json")
        assert json.loads(shown), command
    assert json.loads(stack.ctl("config", "--json"))["SANDBOX_GATEWAY_AUTH_TOKEN"] == "********"


def complete(stack, *words):
    """What bash offers for the last of the words."""
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _huskctl; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(
        ["bash", "-euc", script, "bash", os.path.join(SOURCE, "completion", "huskctl"), stack.path("bin", "huskctl"), *words],
        stdout=subprocess.PIPE, text=True, check=True, timeout=30, cwd="/", **stack._as("husk"))
    return done.stdout.split()


def test_completion(stack, session):
    assert complete(stack, "sess") == ["session"]
    assert set(complete(stack, "session", "")) == {"list", "show", "close"}
    assert complete(stack, "db", "sn") == ["snapshot"]
    assert "--owner" in complete(stack, "session", "close", "--")
    assert complete(stack, "key", "create", "--sc") == ["--scope"]
    assert "admin" in complete(stack, "key", "create", "--scope", "")
    config = ("--config", stack.path("husk.conf"))
    assert complete(stack, *config, "session", "show", session[:5]) == [session]
    assert session in complete(stack, *config, "exec", "")
    assert complete(stack, "exec", "x", "/etc/host") != []
