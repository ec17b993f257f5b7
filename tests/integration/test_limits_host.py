"""What a session cannot outgrow in tier host, what its neighbours notice of that, and where its files are."""
import concurrent.futures
import os
import signal
import subprocess
import time

import pytest

from client import files_url as url
from keeper_client import Keeper
from stack import ROOT, wait_until

MIB = 1 << 20
SETTINGS = {"SANDBOX_ISOLATION": "host", "SANDBOX_ISOLATION_MIN": "host", "SANDBOX_EGRESS": "none",
            "SANDBOX_MEMORY": 200 * MIB, "SANDBOX_PIDS": 48, "SANDBOX_DISK": 24 * MIB, "SANDBOX_POOL_SIZE": 1,
            "SANDBOX_REAP_INTERVAL": "0.5"}
pytestmark = pytest.mark.skipif(not ROOT, reason="tier host needs root")


@pytest.fixture(scope="module")
def neighbour(stack, module_key):
    """Somebody else, at whom a test may look afterwards."""
    client = stack.client(module_key)
    client.open("neighbour")
    client.run("neighbour", "kept = 41")

    def is_well():
        assert client.run("neighbour", "kept += 0; print(kept)")["stdout"] == "41\n"
        assert client.put(url("neighbour", "mine"), b"x" * 10000).status in (200, 201)
        assert client.get(url("neighbour", "mine")).body == b"x" * 10000
        assert client.get("/v1/sessions/neighbour").json()["state_lost"] is False

    yield is_well
    client.delete("/v1/sessions/neighbour")


def test_the_tier_in_force_is_said_everywhere(stack, client, session):
    shown = client.get(f"/v1/sessions/{session}").json()
    assert (shown["isolation"], shown["egress"]) == ("host", "none")
    assert 'isolation="host",egress="none",disk="image"' in client.get("/metrics").body.decode()
    assert "isolation: tier host, egress none, disk image" in stack.ctl("doctor", check=False).stdout
    ready = client.get("/readyz")
    assert ready.status == 200 and (ready.json()["isolation"], ready.json()["egress"]) == ("host", "none")


def test_a_host_without_control_groups_is_told_that_it_has_none(stack):
    """As one with cgroup v2 whose unit is not delegated: sandboxes are made, and what does not bound them is said."""
    place = stack.path("bare")
    env = {"PATH": os.environ["PATH"], "SANDBOX_STATE_DIR": place + "/s", "SANDBOX_KEEPER_DIR": place + "/kp"}
    os.mkdir(place, 0o711)
    keeper = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", 'umount -R -l /sys/fs/cgroup; exec "$@"', "sh",
                               stack.path("bin", "husk-keeper"), "--config", stack.path("husk.conf"), "--library", stack.path("sandbox", "inside")],
                              stderr=subprocess.PIPE, text=True, env=env, cwd="/")
    try:
        wait_until(lambda: os.path.exists(place + "/kp/files.sock"), 30, "the other keeper")
        told = Keeper(place + "/kp").info()
        assert (told.ready, told.tier, told.cpu) == (1, "host", 0)
        assert "bounded by RLIMITs only" in told.detail
    finally:
        keeper.terminate()
        said = keeper.communicate(timeout=20)[1]
    assert "bounded by RLIMITs only" in said


def test_over_memory_is_oom(client, session, neighbour):
    client.put(url(session, "kept"), b"here")
    result = client.run(session, "x = []\nwhile True: x.append(bytearray(1 << 20))", timeout=50)
    assert (result["status"], result["reason"], result["runtime_invalidated"]) == ("error", "oom", True)
    neighbour()
    after = client.run(session, "print(open('kept').read())")
    assert after["stdout"] == "here\n" and after["session"]["state_lost"] is True


def test_a_child_over_memory_is_oom_as_well(client, session, neighbour):
    result = client.run(session, "import subprocess, sys\n"
                        "subprocess.run([sys.executable, '-c', 'x = bytearray(1 << 30)'], check=True)", timeout=50)
    assert result["reason"] == "oom"
    if not result["runtime_invalidated"]:  # whom the machine chooses is its own affair
        assert result["error_name"] == "CalledProcessError"
    neighbour()


def test_a_timeout_comes_before_all_counters(client, session):
    result = client.run(session, "import time\nx = bytearray(10 << 20)\ntime.sleep(60)", timeout=2)
    assert result["reason"] == "timeout"


FORKS = """
import os, time
children = []
try:
    while True:
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        children.append(pid)
finally:
    for pid in children:
        os.kill(pid, 9)
    for pid in children:
        os.waitpid(pid, 0)
"""


def test_over_processes_is_a_clear_error(client, session, neighbour):
    client.run(session, "x = 1")
    result = client.run(session, FORKS, timeout=50)
    assert (result["reason"], result["error_name"]) == ("pids", "BlockingIOError")
    assert result["runtime_invalidated"] is False
    neighbour()
    assert client.run(session, "print(x)")["stdout"] == "1\n"


def test_over_disk_is_enospc_and_the_session_goes_on(client, session, neighbour):
    result = client.run(session, "open('big', 'wb').write(bytes(64 << 20))", timeout=50)
    assert (result["reason"], result["error_name"]) == ("disk_full", "OSError")
    assert "[Errno 28]" in result["error_value"]
    refused = client.put(url(session, "more"), b"x" * MIB)
    assert (refused.status, refused.code) == (507, "disk_full")
    assert client.get(url(session, "more")).status == 404
    neighbour()
    assert client.run(session, "import os; os.remove('big'); open('ok', 'w').write('1')")["status"] == "ok"
    assert client.put(url(session, "more"), b"x" * MIB).status == 201


def test_another_disk_than_the_workspace_is_no_disk_full(client, session):
    result = client.run(session, "open('/tmp/big', 'wb').write(bytes(190 << 20))", timeout=50)
    assert result["reason"] in ("exception", "oom") and result["status"] == "error"
    assert client.put(url(session, "a"), b"x" * MIB).status == 201


def test_files_while_a_cell_runs(client, session):
    code = ("import os, time\nopen('from-cell', 'w').write('c')\n"
            "while not os.path.exists('d/go'): time.sleep(.05)\nprint(open('d/go').read(), os.stat('d/go').st_uid == os.getuid())\n"
            "open('d/go', 'a').write('!'); os.mkdir('d/made'); os.rename('d/go', 'd/gone')")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        run = pool.submit(client.run, session, code)
        wait_until(lambda: client.get(url(session, "from-cell")).body == b"c", 20, "the cell's file")
        assert client.put(url(session, "d/go"), b"now").status == 201
        assert run.result()["stdout"] == "now True\n"
    assert client.get(url(session, "d/gone")).body == b"now!"
    names = [f["path"] for f in client.get(url(session) + "?recursive=true").json()["files"]]
    assert names == ["d", "d/gone", "d/made", "from-cell"]
    assert client.delete(url(session, "d") + "?recursive=true").status == 204
    assert client.run(session, "print(os.listdir())")["stdout"] == "['from-cell']\n"


def test_files_survive_their_kernel(client, session):
    client.put(url(session, "a"), b"1")
    assert client.run(session, "import os; os._exit(3)")["reason"] == "kernel_died"
    assert client.get(url(session, "a")).body == b"1"
    after = client.run(session, "print(open('a').read())")
    assert after["stdout"] == "1\n" and after["session"]["state_lost"] is True


def test_a_dead_kernel_is_found_before_the_code_is_sent(stack, client, session):
    pid = int(client.run(session, "import os; print(os.getpid())")["stdout"])
    os.kill(stack.host_pid(pid), signal.SIGKILL)
    time.sleep(0.5)  # the sandbox's end is noted; the gateway is not yet done with it
    began = time.monotonic()
    after = client.run(session, "print(6 * 7)")
    assert after["stdout"] == "42\n" and after["session"]["state_lost"] is True
    assert time.monotonic() - began < 15


def test_session_and_files_outlive_the_keeper(stack, client, session):
    client.put(url(session, "a"), b"1")
    client.run(session, "x = 7; f = open('held', 'w')")
    stack.stop_process("keeper", signal.SIGKILL)
    assert client.run(session, "print(x, open('a').read())")["stdout"] == "7 1\n"
    refused = client.post("/v1/sessions", {"session_id": "not-now"})
    assert (refused.status, refused.code) == (503, "keeper_unavailable"), refused
    ready = client.get("/readyz")
    assert (ready.status, ready.code) == (503, "keeper_unavailable") and "husk-keeper" in ready.json()["detail"]
    stack.start_keeper()
    assert client.get("/readyz").status == 200
    assert client.put(url(session, "b"), b"2").status == 201
    assert client.run(session, "f.write('w'); f.close(); print(x, open('b').read())")["stdout"] == "7 2\n"
    assert client.get(url(session, "held")).body == b"w"
    assert client.get("/v1/sessions/not-now").status == 404


def test_files_are_there_when_it_is_opened_again(client):
    assert client.open("again", ttl=1)["files_kept"] is False
    client.put(url("again", "a"), b"1")
    client.run("again", "open('b', 'w').write('2')")
    wait_until(lambda: client.get("/v1/sessions/again").status == 404, 20, "its expiry")
    assert client.open("again")["files_kept"] is True
    assert client.run("again", "print(open('a').read(), open('b').read())")["stdout"] == "1 2\n"
    assert client.delete("/v1/sessions/again").status == 204
    assert client.open("again")["files_kept"] is False
    assert client.get(url("again")).json()["files"] == []
    client.delete("/v1/sessions/again")


def test_one_of_the_pool_gets_the_workspace(stack, client):
    pooled = wait_until(lambda: stack.sql("SELECT handle FROM pool"), 40, "the pool")
    client.open("claimed")
    handle = stack.sql("SELECT r.handle FROM runtimes r JOIN sessions s USING (sid) WHERE s.name = 'claimed'")
    assert handle[0] in pooled
    client.put(url("claimed", "a"), b"1")
    assert client.run("claimed", "import os; print(os.getcwd(), open('a').read())")["stdout"] == "/home/workspace 1\n"
    client.delete("/v1/sessions/claimed")


def loops(stack):
    state = stack.path("s")
    found = []
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file") as f:
                found += [name] if state in f.read() else []
        except OSError:
            continue
    return found


def test_nothing_is_left_of_a_closed_session(stack, client):
    images = stack.path("s-keeper", "images")
    before, attached = set(os.listdir(images)), len(loops(stack))
    client.open("passing")
    client.run("passing", "open('a', 'w').write('1')")
    assert len(set(os.listdir(images)) - before) == 1
    client.delete("/v1/sessions/passing")
    wait_until(lambda: set(os.listdir(images)) == before, 10, "the image's end")
    wait_until(lambda: len(loops(stack)) <= attached, 10, "the loop device's end")
