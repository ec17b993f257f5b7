"""The warm pool: kernels that wait for sessions, each handed out once."""
import concurrent.futures
import contextlib
import json
import os
import signal
import time

import pytest

from stack import wait_until

SETTINGS = {"SANDBOX_POOL_SIZE": 2, "SANDBOX_REAP_INTERVAL": "0.5", "SANDBOX_START_TIMEOUT": 18}


def pooled(stack):
    return {handle for (handle,) in stack.sql("SELECT handle FROM v_runtimes WHERE state = 'pooled'")}


def full(stack):
    """The pool's handles once it is full."""
    return wait_until(lambda: len(pooled(stack)) == 2 and pooled(stack), 60, "a full pool")


def handle(stack, session):
    return stack.sql("SELECT handle FROM v_sessions WHERE name LIKE ?", "%" + session)[0][0]


def kernel_pid(kernel):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            if f"kernel-{kernel}.json".encode() in f.read():
                return int(pid)
    raise AssertionError("no process of kernel " + kernel)


@pytest.fixture(autouse=True)
def fresh(stack, client):
    yield
    for session in client.get("/v1/sessions").json()["sessions"]:
        client.delete("/v1/sessions/" + session["session_id"])


def test_an_open_takes_a_kernel_that_waits(stack, client):
    before = full(stack)
    client.open("first")
    assert handle(stack, "first") in before
    after = full(stack)
    assert handle(stack, "first") not in after
    assert len(after & before) == 1
    client.put("/v1/sessions/first/files/in.txt", b"mine")
    assert client.run("first", "print(open('in.txt').read()); x = 1")["stdout"] == "mine\n"
    where = client.run("first", "import os; print(os.getcwd())")["stdout"]
    assert stack.sandboxed or where.startswith(stack.path("s", "workspaces") + "/")
    client.open("second")
    assert handle(stack, "second") in after
    assert client.run("second", "print('x' in globals())")["stdout"] == "False\n"
    assert client.get("/v1/sessions/second/files/in.txt").status == 404
    used = handle(stack, "first")
    client.delete("/v1/sessions/first")
    wait_until(lambda: used not in stack.kernels(), 15, "the end of a used kernel")
    assert used not in full(stack)


def test_kernels_that_began_with_other_settings_are_replaced(stack, client):
    """They have other walls, limits or libraries than the settings say."""
    def restart(**settings):
        stack.settings.update(settings)
        stack.write_conf()
        stack.stop_process("master")
        stack.start_master()

    before = full(stack)
    restart(SANDBOX_REAP_INTERVAL="0.6")
    assert full(stack) == before, "no kernel knows of that setting"
    restart(SANDBOX_MEMORY="900m")
    client.open("newborn")
    assert handle(stack, "newborn") not in before
    wait_until(lambda: not before & set(stack.kernels()), 15, "the end of the old ones")
    restart(SANDBOX_MEMORY="1g", SANDBOX_REAP_INTERVAL=str(SETTINGS["SANDBOX_REAP_INTERVAL"]))


def test_parallel_opens_get_kernels_of_their_own(stack, client):
    full(stack)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: client.open(f"par{i}"), range(4)))
    handles = {handle(stack, f"par{i}") for i in range(4)}
    assert len(handles) == 4 and not handles & pooled(stack)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: client.run(f"par{i}", f"x = {i}"), range(4)))
    assert [client.run(f"par{i}", "print(x)")["stdout"] for i in range(4)] == [f"{i}\n" for i in range(4)]


def test_the_first_code_finds_a_channel(stack, client):
    def channels(kernel):
        return json.loads(stack.gateway_request("GET", "/api/kernels/" + kernel)[1])["connections"]

    wait_until(lambda: all(channels(k) == 1 for k in full(stack)), 60, "a channel to each kernel that waits")
    client.open("ahead")
    client.put("/v1/sessions/ahead/files/in.txt", b"mine")
    assert client.run("ahead", "print(open('in.txt').read())")["stdout"] == "mine\n"
    assert channels(handle(stack, "ahead")) == 1
    assert client.run("ahead", "print(6 * 7)")["stdout"] == "42\n"


def test_a_restart_takes_one_too(stack, client):
    client.open("again")
    client.run("again", "x = 1")
    before = full(stack)
    client.post("/v1/sessions/again/restart")
    assert handle(stack, "again") in before
    assert client.run("again", "print('x' in globals())")["stdout"] == "False\n"


def test_a_dead_kernel_of_the_pool_is_replaced(stack, client):
    before = full(stack)
    dead = sorted(before)[0]
    assert stack.gateway_request("DELETE", "/api/kernels/" + dead, timeout=30)[0] == 204
    wait_until(lambda: dead not in pooled(stack), 30, "its row's end")
    assert dead not in full(stack)


def test_one_that_died_or_hangs_is_not_handed_out(stack, client):
    before = full(stack)
    hung, restarted = (kernel_pid(k) for k in sorted(before))
    os.kill(hung, signal.SIGSTOP)
    os.kill(restarted, signal.SIGKILL)  # the gateway starts another process under the same id
    client.open("hard")
    assert client.run("hard", "print(6 * 7)")["stdout"] == "42\n"
    client.open("harder")
    assert client.run("harder", "print(6 * 7)")["stdout"] == "42\n"
    full(stack)
    wait_until(lambda: set(stack.kernels()) == {h for (h,) in stack.sql("SELECT handle FROM v_runtimes")}, 60,
               "as many kernels as rows")


def test_the_pool_outlives_reaper_and_service(stack, client):
    before = full(stack)
    reaper = next(pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_reaper(stack, pid))
    os.kill(reaper, signal.SIGKILL)
    client.open("meanwhile")
    assert handle(stack, "meanwhile") in before
    after = full(stack)
    stack.stop_process("master")
    assert after <= set(stack.kernels())
    stack.start_master()
    assert full(stack) == after
    client.open("later")
    assert handle(stack, "later") in after


def is_reaper(stack, pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
        argv = f.read()
        return b"husk-reaper" in argv.split(b"\0")[0] and stack.dir.encode() in argv
    return False


def test_a_gateway_that_was_restarted(stack, client):
    before = full(stack)
    stack.stop_process("gateway")
    stack.start_gateway()
    client.open("anew")
    assert client.run("anew", "print(1)")["stdout"] == "1\n"
    wait_until(lambda: not before & pooled(stack), 60, "the old rows' end")
    assert full(stack) <= set(stack.kernels())


def test_an_operator_sees_it(stack, client):
    full(stack)
    status = json.loads(stack.ctl("status", "--json"))
    assert status["runtimes"]["pooled"] == 2 and status["runtimes"]["pool_size"] == 2
    assert "pool:       2 of 2" in stack.ctl("status")
    assert "\nhusk_pool_runtimes 2\n" in stack.client(None).get("/metrics").text


@contextlib.contextmanager
def otherwise(stack, **settings):
    """The service with other settings, for a while."""
    def use(wanted):
        stack.stop_process("master")
        stack.settings = wanted
        stack.write_conf()
        stack.start_master()

    before = dict(stack.settings)
    use({**before, **settings})
    try:
        yield
    finally:
        use(before)


def test_faster_than_a_start(stack, client):
    full(stack)
    began = time.monotonic()
    client.open("warm")
    warm = time.monotonic() - began
    with otherwise(stack, SANDBOX_POOL_SIZE="0"):
        wait_until(lambda: not pooled(stack), 30, "an empty pool")
        began = time.monotonic()
        client.open("cold")
        assert time.monotonic() - began > 3 * warm
        client.delete("/v1/sessions/warm")
        client.delete("/v1/sessions/cold")


def test_files_that_move_through_a_kernel_of_the_pool(stack, client):
    before = full(stack)
    with otherwise(stack, SANDBOX_TRANSFER="kernel"):
        for session in ("through", "beside"):
            client.open(session)
            assert handle(stack, session) in before
        client.put("/v1/sessions/through/files/in.txt", b"mine")
        assert client.run("through", "print(open('in.txt').read())")["stdout"] == "mine\n"
        assert client.get("/v1/sessions/beside/files/in.txt", check=False).status == 404
        client.delete("/v1/sessions/through")
        client.delete("/v1/sessions/beside")
