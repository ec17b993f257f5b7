"""husk-keeper, husk-launch and the monitors: whom they serve, what they refuse, and what is left when one is killed."""
import contextlib
import errno
import json
import os
import pwd
import queue
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
import uuid

import pytest
from jupyter_client import BlockingKernelClient

import keeper_client as wire
from keeper_client import Keeper
from stack import BUILD, ISOLATION, ROOT, wait_until

TIER = ISOLATION if ISOLATION != "none" else "host" if ROOT else "rootless"
SETTINGS = {"SANDBOX_ISOLATION": TIER, "SANDBOX_ISOLATION_MIN": TIER, "SANDBOX_EGRESS": "none"}
ONE_USER = not ROOT or TIER == "rootless"

if not ROOT:
    probed = subprocess.run([os.path.join(BUILD, "husk-keeper"), "--config", os.devnull, "--probe"], stdout=subprocess.PIPE,
                            text=True, timeout=60, env={**os.environ, **SETTINGS, "SANDBOX_GATEWAY_USER": ""})
    if probed.returncode:
        pytest.skip("this machine makes no sandbox for an ordinary user: " + probed.stdout, allow_module_level=True)


@pytest.fixture(scope="module")
def keeper(stack):
    user = "husk" if ONE_USER and ROOT else None
    return Keeper(stack.path("kp"), *((user, user) if ONE_USER else ()))


class Kernel:
    """One kernel of the stack's gateway, spoken to over its ZMQ sockets."""

    def __init__(self, stack, keeper):
        self.stack, self.keeper = stack, keeper
        status, body = stack.gateway_request("POST", "/api/kernels", json.dumps({"name": "docsgpt-python"}), 30)
        assert status == 201, body
        self.id = json.loads(body)["id"]
        self.client = BlockingKernelClient(connection_file=stack.path("k", f"kernel-{self.id}.json"))
        self.client.load_connection_file()
        self.client.start_channels(hb=False)
        self.client.kernel_info(reply=True, timeout=30)

    def run(self, code, timeout=20):
        """What the code printed; an exception's name and text when it ended in one.

        After an interrupt the kernel refuses for a moment what it is asked ("aborted"): asked once more, as the service does.
        """
        out, status = self._ask(code, timeout)
        return self._ask(code, timeout)[0] if status == "aborted" else out

    def _ask(self, code, timeout):
        message = self.client.execute(code)
        out = ""
        while True:
            m = self.client.get_iopub_msg(timeout=timeout)
            if m["parent_header"].get("msg_id") != message:
                continue
            if m["msg_type"] == "stream":
                out += m["content"]["text"]
            elif m["msg_type"] == "error":
                out += m["content"]["ename"] + ": " + m["content"]["evalue"]
            elif m["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
                break
        while True:
            m = self.client.get_shell_msg(timeout=timeout)
            if m["parent_header"].get("msg_id") == message:
                return out.strip(), m["content"]["status"]

    def entry(self):
        return self.keeper.sandboxes()[self.id]

    def shim(self):
        return wait_until(lambda: find_process("husk-launch", self.id), 5, "husk-launch's process")

    def init(self):
        monitor = self.entry().pid
        with open(f"/proc/{monitor}/task/{monitor}/children") as f:
            return int(f.read().split()[0])

    def close(self):
        self.client.stop_channels()
        with contextlib.suppress(OSError):
            self.stack.gateway_request("DELETE", f"/api/kernels/{self.id}", timeout=20)


def find_process(*words):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            line = f.read().replace(b"\0", b" ").decode(errors="replace")
            if all(word in line for word in words) and int(pid) != os.getpid():
                return int(pid)
    return None


@pytest.fixture
def kernel(stack, keeper):
    made = Kernel(stack, keeper)
    yield made
    made.close()


@pytest.fixture
def workspace(keeper):
    """A fresh workspace's id; removed afterwards, which a kernel that still holds it would forbid."""
    number = int.from_bytes(os.urandom(7), "big") | 1
    assert keeper.ask(wire.MAKE, workspace=number).error == 0
    yield number
    wait_until(lambda: keeper.ask(wire.REMOVE, workspace=number).error == 0, 10, "the workspace's removal")


def groups(kernel_id):
    found = []
    for top, folders, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(top, f) for f in folders if kernel_id in f]
        if top.count("/") > 6:
            folders.clear()
    return found


def processes_of(uid):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == uid:
                found.append(int(pid))
    return found


def leftovers(keeper, kernel_id, uid):
    left = [p for p in ("m", "homes") if os.path.exists(keeper.path(p, kernel_id))]
    left += groups(kernel_id)
    if uid >= 200000:
        left += processes_of(uid)
    if find_process(kernel_id):
        left.append(f"process {find_process(kernel_id)}")
    return left


def gone(keeper, kernel_id, uid, seconds=10):
    end = time.monotonic() + seconds
    while leftovers(keeper, kernel_id, uid):
        if time.monotonic() > end:
            raise AssertionError(f"left after {seconds} s: {leftovers(keeper, kernel_id, uid)}")
        time.sleep(0.05)


# ordinary work


def test_a_kernel_runs_in_a_sandbox_of_its_own(kernel, keeper):
    entry = kernel.entry()
    assert keeper.info().tier == TIER
    assert keeper.info().ready == 1
    uid = int(kernel.run("import os; print(os.getuid())"))
    assert uid == entry.uid
    if TIER != "rootless":
        assert uid > 200000
    assert kernel.run("print(sorted(k for k in os.environ if 'HUSK' in k or 'SANDBOX' in k or 'TOKEN' in k))") == "[]"
    assert "husk" not in kernel.run("import sys; print(sys.path[0])")
    if TIER in ("host", "rootless"):
        assert kernel.run("print(os.getcwd(), os.getpid() < 10, sorted(os.listdir('/home')))") == \
            "/home/workspace True ['husk', 'workspace']"
    assert kernel.run("open('x', 'w')").startswith(("OSError", "PermissionError")) or TIER == "container"


# What a session does all day, in one kernel, which must not notice where it is.
ORDINARY_WORK = """
import asyncio, multiprocessing, os, sqlite3, subprocess, sys, tempfile, threading, zipfile
os.chdir(tempfile.mkdtemp())
import numpy, pandas, matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
plt.plot(pandas.DataFrame({"a": numpy.arange(9)}).a); plt.savefig("x.png")
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
with multiprocessing.Manager() as manager: assert manager.list([1])[0] == 1
db = sqlite3.connect("x.db"); db.execute("pragma journal_mode=wal"); db.execute("create table t (a)"); db.commit()
t = threading.Thread(target=print); t.start(); t.join()
async def child():
    return await (await asyncio.create_subprocess_exec("true")).wait()
assert await child() == 0
assert subprocess.run("ls | wc -l", shell=True, capture_output=True).stdout.strip() >= b"2"
with open("big", "wb") as f: f.truncate(30 << 20); f.write(b"x" * (1 << 20))
meta = "thing-1.0.dist-info/"
with zipfile.ZipFile("thing-1.0-py3-none-any.whl", "w") as z:
    z.writestr("thing.py", "answer = 42")
    z.writestr(meta + "METADATA", "Metadata-Version: 2.1\\nName: thing\\nVersion: 1.0\\n")
    z.writestr(meta + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr(meta + "RECORD", "thing.py,,\\n")
%pip install -q --no-index --find-links . thing
import thing
print(thing.answer, os.path.getsize("x.png") > 1000)
"""


def test_ordinary_work_goes_on(kernel):
    assert kernel.run(ORDINARY_WORK, 60).splitlines()[-1] == "42 True"


def test_a_workspace_is_bound_once_and_seen_by_both_sides(kernel, keeper, workspace):
    assert keeper.ask(wire.BIND, kernel.id, workspace).error == 0
    assert keeper.ask(wire.BIND, kernel.id, workspace).error == 0
    assert kernel.run("open('from-kernel', 'w').write('k'); print(os.path.exists('from-kernel'))"
                      .replace("open", "import os; open", 1)) == "True"
    root = keeper.ask(wire.ROOT, workspace=workspace).fds[0]
    try:
        with wire.acting_as(keeper.worker):
            listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
            assert os.listdir(listed) == ["from-kernel"]
            os.close(listed)
            mine = os.open("from-worker", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o660, dir_fd=root)
            os.write(mine, b"w")
            os.close(mine)
            assert stat.S_ISREG(os.stat("from-kernel", dir_fd=root).st_mode)
    finally:
        os.close(root)
    assert kernel.run("print(open('from-worker').read())") == "w"
    other = keeper.ask(wire.BIND, kernel.id, workspace + 2)
    assert (other.error, "another workspace" in other.detail) == (errno.EBUSY, True)
    assert keeper.ask(wire.REMOVE, workspace=workspace).error == errno.EBUSY
    assert keeper.ask(wire.STATUS, kernel.id).workspace == workspace
    kernel.close()
    gone(keeper, kernel.id, 0)
    ended = keeper.ask(wire.STATUS, kernel.id)
    assert (ended.error, ended.flag) == (0, 1)


def test_unknown_kernels_and_workspaces_are_said_to_be_unknown(kernel, keeper, workspace):
    nobody = str(uuid.uuid4())
    for op in (wire.STATUS, wire.KILL):
        assert keeper.ask(op, nobody).error == errno.ENOENT
    assert keeper.ask(wire.BIND, nobody, workspace).error == errno.ENOENT
    assert keeper.ask(wire.BIND, kernel.id, workspace + 2).error == errno.ENOENT
    assert keeper.ask(wire.ROOT, workspace=workspace + 2).error == errno.ENOENT


def test_an_interrupt_reaches_the_cell_and_the_kernel_lives_on(stack, kernel):
    stopped = queue.Queue()
    thread = threading.Thread(target=lambda: stopped.put(kernel.run("import time\nprint('on', flush=True)\ntime.sleep(60)")))
    thread.start()
    time.sleep(0.5)
    assert stack.gateway_request("POST", f"/api/kernels/{kernel.id}/interrupt")[0] == 204
    assert "KeyboardInterrupt" in stopped.get(timeout=10)
    thread.join()
    assert kernel.run("print(1 + 1)") == "2"


def test_a_flood_on_its_descriptors_does_not_reach_the_gateways_log(stack, kernel):
    before = len(stack.log("gateway"))
    # what ipykernel was given, behind the pipe that it reads itself
    flood = "import os, sys\nfor _ in range(400): os.write(sys.stderr._original_stdstream_copy, b'y' * 4096)\nprint('done')"
    assert kernel.run(flood) == "done"
    assert 1000 < len(stack.log("gateway")) - before < 200_000
    time.sleep(0.3)
    assert kernel.run("os.write(sys.stderr._original_stdstream_copy, b'last'); print('alive')") == "alive"
    wait_until(lambda: "bytes of a kernel's output dropped" in stack.log("gateway"), 5, "the note of what was dropped")


def test_huskctl_lists_and_ends_sandboxes(stack, kernel, keeper):
    uid = kernel.entry().uid
    listed = json.loads(stack.ctl("sandbox", "list", "--json"))["sandboxes"]
    assert [s["uid"] for s in listed if s["kernel"] == kernel.id] == [uid]
    assert kernel.id in stack.ctl("sandbox", "list")
    wrong = stack.ctl("sandbox", "stop", check=False)
    assert (wrong.returncode, "--all" in wrong.stderr) == (2, True)
    assert "is stopped" in stack.ctl("sandbox", "stop", kernel.id)
    assert kernel.id not in keeper.sandboxes()
    gone(keeper, kernel.id, uid)
    second = Kernel(stack, keeper)
    try:
        assert "stopped" in stack.ctl("sandbox", "stop", "--all")
        assert second.id not in keeper.sandboxes()
    finally:
        second.close()


# what is left when something is killed


@pytest.mark.parametrize("victim", ["shim", "monitor", "init", "kernel"])
def test_killing_any_part_leaves_nothing(victim, kernel, keeper, workspace):
    entry = kernel.entry()
    assert keeper.ask(wire.BIND, kernel.id, workspace).error == 0
    kernel.run("import subprocess; p = [subprocess.Popen(['sleep', '600'], start_new_session=True) for _ in range(3)]")
    if victim == "kernel":
        kernel.run("import os; subprocess.Popen(['/bin/sh', '-c', 'sleep 0.2; kill -9 %d' % os.getpid()], "
                   "start_new_session=True)")
    else:
        os.kill({"shim": kernel.shim, "monitor": lambda: entry.pid, "init": kernel.init}[victim](), signal.SIGKILL)
    wait_until(lambda: kernel.id not in keeper.sandboxes(), 10, "the sandbox's end")
    status = keeper.ask(wire.STATUS, kernel.id)
    assert (status.error, status.flag) == (0, 1)
    # The gateway tries to start the same kernel again: a second start of an id is refused.
    gone(keeper, kernel.id, entry.uid)


def test_a_second_start_of_an_id_is_refused_in_words(stack, kernel, keeper):
    with listeners() as fds:
        op, value, detail = keeper.launch(wire.start_message(kernel.id), fds)
        assert (op, value) == (wire.EXIT, 70)
        assert "has a sandbox already" in detail
        kernel.close()
        gone(keeper, kernel.id, 0)
        op, value, detail = keeper.launch(wire.start_message(kernel.id), fds)
        assert (op, value) == (wire.EXIT, 70)
        assert "has ended" in detail


def test_kernels_outlive_the_keeper_and_are_found_again(stack, kernel, keeper, workspace):
    stack.stop_process("keeper", signal.SIGKILL)
    assert kernel.run("print('without a keeper')") == "without a keeper"
    # a start while none runs waits for the next one
    later = queue.Queue()
    thread = threading.Thread(target=lambda: later.put(Kernel(stack, keeper)))
    thread.start()
    time.sleep(0.5)
    stack.start_keeper()
    assert kernel.id in keeper.sandboxes()
    assert keeper.ask(wire.BIND, kernel.id, workspace).error == 0
    assert kernel.run("import os; open('x', 'w').close(); print(os.listdir('.'))") == "['x']"
    second = later.get(timeout=30)
    thread.join()
    assert second.run("print(2)") == "2"
    second.close()
    # the end of a monitor that another keeper has forked is seen as well
    entry = kernel.entry()
    os.kill(entry.pid, signal.SIGKILL)
    gone(keeper, kernel.id, entry.uid)


def test_the_end_of_the_keeper_ends_no_kernel_and_says_so(stack, kernel, keeper):
    assert stack.stop_process("keeper", signal.SIGTERM) == 0
    assert "1 sandboxes live on" in stack.log("keeper")
    assert kernel.run("print(3)") == "3"
    stack.start_keeper()
    assert kernel.id in keeper.sandboxes()


def test_a_second_keeper_is_refused(stack, keeper):
    argv = [stack.path("bin", "husk-keeper"), "--config", stack.path("husk.conf")]
    second = subprocess.run(argv, stderr=subprocess.PIPE, text=True, timeout=20, cwd="/",
                            **(stack._as("husk") if ONE_USER else {}))
    assert (second.returncode, "a keeper runs already" in second.stderr) == (1, True)
    assert keeper.info().ready == 1
    # the first one's folders are as it left them: tier container has them passed through by sessions
    last = Kernel(stack, keeper)
    assert last.run("print(5)") == "5"
    last.close()


@pytest.mark.skipif(ONE_USER, reason="the keeper and the workers are one user: there is nobody to keep out")
def test_a_state_folder_that_others_could_exchange_is_refused(stack):
    """What root does below its folder it does by name: a link or a folder of the workers' user must not stand there."""
    base = stack.path("exchanged")
    os.mkdir(base, 0o711)
    husk, aim = pwd.getpwnam("husk").pw_uid, os.path.join(base, "aim")
    os.mkdir(aim, 0o755)

    def start(state):
        env = {"PATH": os.environ["PATH"], "SANDBOX_STATE_DIR": state, "SANDBOX_KEEPER_DIR": os.path.join(base, "kp")}
        argv = [stack.path("bin", "husk-keeper"), "--config", stack.path("husk.conf"), "--library", stack.path("sandbox", "inside")]
        done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, timeout=20, cwd="/", env=env)
        return done.returncode, done.stderr

    def folder(name, uid, mode):
        path = os.path.join(base, name)
        os.mkdir(path)
        os.chown(path, uid, -1)
        os.chmod(path, mode)
        return path

    assert "can be exchanged" in start(os.path.join(folder("husks", husk, 0o711), "s"))[1]
    assert "can be exchanged" in start(os.path.join(folder("writable", 0, 0o777), "s"))[1]
    linked = folder("linked", 0, 0o755)
    os.symlink(aim, os.path.join(linked, "s-keeper"))
    status, said = start(os.path.join(linked, "s"))
    assert (status, "a folder of our own" in said) == (1, True), said
    planted = folder("planted", 0, 0o1777)
    os.mkdir(os.path.join(planted, "s-keeper"))
    os.chown(os.path.join(planted, "s-keeper"), husk, -1)
    assert "a folder of our own" in start(os.path.join(planted, "s"))[1]
    assert os.listdir(aim) == [] and os.stat(aim).st_mode & 0o777 == 0o755


# what is refused


@contextlib.contextmanager
def listeners(change=None):
    """The descriptors of a start: stdout, stderr, five listening unix streams; change may spoil them."""
    with contextlib.ExitStack() as open_ones:
        null = os.open(os.devnull, os.O_WRONLY)
        open_ones.callback(os.close, null)
        made = [null, null]
        for _ in range(5):
            s = open_ones.enter_context(socket.socket(socket.AF_UNIX))
            s.bind("")  # an abstract name of the kernel's choice
            s.listen(1)
            made.append(s.fileno())
        yield change(open_ones, made) if change else made


def no_listener(open_ones, fds):
    return fds[:-1] + [open_ones.enter_context(socket.socket(socket.AF_UNIX)).fileno()]


def tcp_listener(open_ones, fds):
    s = open_ones.enter_context(socket.socket())
    s.bind(("127.0.0.1", 0))
    s.listen(1)
    return fds[:2] + [s.fileno()] + fds[3:]


def datagram(open_ones, fds):
    s = open_ones.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    s.bind("")
    return fds[:-1] + [s.fileno()]


def packets(open_ones, fds):
    s = open_ones.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    s.bind("")
    s.listen(1)
    return fds[:-1] + [s.fileno()]


def no_socket(_, fds):
    return fds[:-1] + [fds[0]]


GOOD = "0" * 8 + "-aaaa"
REFUSED_STARTS = {
    "short": (lambda m: m[:-1], None, "another size"),
    "long": (lambda m: m + b"x", None, "another size"),
    "version": (lambda _: wire.start_message(GOOD, version=2), None, "another version"),
    "op": (lambda _: wire.start_message(GOOD, op=wire.SIGNAL), None, "another version"),
    "slash in the id": (lambda _: wire.start_message("../../aaaa"), None, "kernel's id"),
    "upper case": (lambda _: wire.start_message("AAAAAAAA-1"), None, "kernel's id"),
    "short id": (lambda _: wire.start_message("abc"), None, "kernel's id"),
    "no end of the id": (lambda _: wire.start_message("a" * 40), None, "kernel's id"),
    "no connection file": (lambda _: wire.start_message(GOOD, b""), None, "no length"),
    "length that lies": (lambda _: wire.start_message(GOOD, length=2049), None, "no length"),
    "six descriptors": (lambda m: m, lambda _, fds: fds[:-1], "7 descriptors and not 6"),
    "eight descriptors": (lambda m: m, lambda _, fds: fds + fds[:1], "too many descriptors"),
    "twenty descriptors": (lambda m: m, lambda _, fds: fds + fds[:1] * 13, "too many descriptors"),
    "none": (lambda m: m, lambda _, fds: [], "7 descriptors and not 0"),
    "does not listen": (lambda m: m, no_listener, "listening unix stream"),
    "tcp": (lambda m: m, tcp_listener, "listening unix stream"),
    "datagram": (lambda m: m, datagram, "listening unix stream"),
    "seqpacket": (lambda m: m, packets, "listening unix stream"),
    "no socket": (lambda m: m, no_socket, "listening unix stream"),
}


@pytest.mark.parametrize("what", REFUSED_STARTS)
def test_a_start_that_is_not_right_is_refused_in_words(what, keeper):
    spoil_message, spoil_fds, why = REFUSED_STARTS[what]
    with listeners(spoil_fds) as fds:
        op, value, detail = keeper.launch(spoil_message(wire.start_message(GOOD)), fds)
    assert (op, value) == (wire.EXIT, 70)
    assert why in detail
    assert keeper.info().ready == 1


def test_questions_that_are_not_right_are_refused(keeper):
    assert keeper.exchange(b"x")[0] == b""
    assert keeper.exchange(wire.request(wire.INFO) + b"x")[0] == b""
    assert keeper.exchange(wire.request(wire.INFO), [0])[0] == b""
    for message, error in (
            (wire.request(99), errno.EPROTO), (wire.request(wire.MAKE, version=7), errno.EPROTO),
            (wire.request(wire.MAKE), errno.EINVAL), (wire.request(wire.STATUS), errno.EINVAL),
            (wire.request(wire.STATUS, "../aaaaaaaa"), errno.EINVAL),
            (wire.request(wire.KILL, "a" * 40), errno.EINVAL), (wire.request(32, GOOD), errno.EPROTO)):
        answer, _ = keeper.exchange(message)
        assert wire.REPLY_FORMAT.unpack(answer)[2] == error, message


@pytest.mark.skipif(not ROOT or ONE_USER, reason="several users are needed")
def test_only_the_gateways_and_the_workers_users_are_served(keeper):
    for name, user in (("launch.sock", "husk"), ("launch.sock", "nobody"), ("files.sock", "husk-kernel"),
                       ("files.sock", "nobody"), ("m", "husk"), ("m", "husk-kernel")):
        with pytest.raises(PermissionError), wire.connect(keeper.path(name), user):
            pass
    # root may connect, but is not the gateway
    with wire.connect(keeper.path("launch.sock")) as s:
        assert wire.receive(s)[0] == b""
    for name, mode in (("launch.sock", 0o600), ("files.sock", 0o600), ("m", 0o700), ("ended", 0o700), ("", 0o711)):
        assert stat.S_IMODE(os.stat(keeper.path(name)).st_mode) == mode


def garbage(seed):
    """(socket, message, number of descriptors) of what nobody should send: cut, long, changed in some bytes, of the other
    socket's kind."""
    random_ = random.Random(seed)
    kinds = [wire.start_message(GOOD), wire.request(wire.INFO), wire.request(wire.LIST, "f" * 39),
             *(wire.request(op, GOOD, random_.getrandbits(64)) for op in (wire.MAKE, wire.ROOT, wire.BIND, wire.STATUS, wire.USAGE, wire.KILL)),
             wire.EVENT_FORMAT.pack(wire.VERSION, wire.SIGNAL, 9, b"x" * 200), b"\0", bytes(9000)]
    for _ in range(250):
        message = bytearray(random_.choice(kinds))
        for _ in range(random_.choice((0, 1, 8, 64))):
            message[random_.randrange(min(len(message), random_.choice((12, 9000))))] = random_.getrandbits(8)
        cut = random_.choice((0, 0, 0, 1, random_.randrange(len(message) + 1)))
        yield random_.choice(("launch.sock", "files.sock")), bytes(message[cut:]), random_.choice((0, 0, 0, 1, 7, 8, 200))


def test_garbage_changes_nothing(stack, keeper, kernel):
    pid = stack.processes["keeper"].pid
    made = []

    def open_now():
        return len(os.listdir(f"/proc/{pid}/fd"))

    before = open_now()
    for name, message, count in garbage(6):
        with listeners() as fds, wire.connect(keeper.path(name), keeper.gateway if name == "launch.sock" else keeper.worker, 5) as s:
            try:
                wire.send(s, message, (fds * 30)[:count])
                if len(message) == wire.REQUEST_FORMAT.size and name == "files.sock":
                    version, op, _, workspace = wire.REQUEST_FORMAT.unpack(message)
                    made += [workspace] if (version, op) == (wire.VERSION, wire.MAKE) else []
                if count % 2:  # a peer that does not wait for its answer
                    wire.receive(s)
            except (BrokenPipeError, socket.timeout):
                pass
    begun = time.monotonic()
    assert keeper.info().ready == 1
    assert time.monotonic() - begun < 3
    wait_until(lambda: list(keeper.sandboxes()) == [kernel.id], 30, "the end of what was started")
    assert kernel.run("print(6 * 7)") == "42"
    assert open_now() <= before
    for workspace in filter(None, made):
        wait_until(lambda w=workspace: keeper.ask(wire.REMOVE, workspace=w).error in (0, errno.EINVAL), 10, "the workspace's removal")


def test_floods_of_connections_keep_nobody_else_out(stack, keeper, kernel):
    with contextlib.ExitStack() as held:
        for _ in range(150):
            with contextlib.suppress(socket.timeout, BlockingIOError):
                held.enter_context(wire.connect(keeper.path("launch.sock"), keeper.gateway, 1))
        begun = time.monotonic()
        assert keeper.info().ready == 1
        assert time.monotonic() - begun < 3
    with contextlib.ExitStack() as held:
        for _ in range(100):
            held.enter_context(wire.connect(keeper.path("files.sock"), keeper.worker, 5))
        # what says nothing is let go of after two seconds
        assert keeper.info().ready == 1
    assert kernel.run("print('served')") == "served"
    another = Kernel(stack, keeper)
    assert another.run("print(4)") == "4"
    another.close()


# husk-launch by itself


def launch(stack, *arguments, **kw):
    return subprocess.run([stack.path("bin", "husk-launch"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=30, cwd="/", **kw)


def test_husk_launch_says_what_is_wrong(stack, keeper):
    folder = stack.path("l")
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o777)
    path = os.path.join(folder, f"kernel-{GOOD}.json")

    def connection(**changed):
        content = {f"{c}_port": i + 1 for i, c in enumerate(("shell", "iopub", "stdin", "control", "hb"))}
        content.update(ip=path[:-5] + "-ipc", transport="ipc", key="k", signature_scheme="hmac-sha256")
        content.update(changed)
        with open(path, "w") as f:
            json.dump(content, f)

    assert launch(stack).returncode == 64
    assert "husk-launch" in launch(stack, "--version").stdout
    assert "-f FILE" in launch(stack, "--help").stdout
    assert "No such file" in launch(stack, "-f", path).stderr
    connection(transport="tcp")
    wrong = launch(stack, "-f", path)
    assert (wrong.returncode, "KernelManager.transport=ipc" in wrong.stderr) == (66, True)
    connection(ip="/" + "x" * 150)
    wrong = launch(stack, "-f", path)
    assert (wrong.returncode, "57 bytes" in wrong.stderr) == (73, True)
    connection()
    if ROOT and not ONE_USER:
        wrong = launch(stack, "--keeper", keeper.directory, "-f", path, **stack._as("husk"))
        assert (wrong.returncode, "does not serve this user" in wrong.stderr) == (69, True)
    begun = time.monotonic()
    wrong = launch(stack, "--keeper", folder, "-f", path)
    assert (wrong.returncode, "does not run: waited 10 s" in wrong.stderr) == (69, True)
    assert 9 < time.monotonic() - begun < 20
    assert [n for n in os.listdir(folder) if "ipc" in n] == []
    shutil.rmtree(folder)


# the last: it takes the gateway away


def test_killing_the_gateway_ends_all_its_sandboxes(stack, keeper):
    kernels = [Kernel(stack, keeper) for _ in range(3)]
    uids = [k.entry().uid for k in kernels]
    if TIER != "rootless":
        assert len(set(uids)) == 3
    for k in kernels:
        k.client.stop_channels()
    stack.stop_process("gateway", signal.SIGKILL)
    for k, uid in zip(kernels, uids):
        gone(keeper, k.id, uid)
    assert keeper.info().sandboxes == 0
    assert [n for n in os.listdir(stack.path("k")) if re.match(r"kernel-.*-ipc-", n)] == []
    stack.start_gateway()
    last = Kernel(stack, keeper)
    assert last.run("print(5)") == "5"
    assert last.entry().uid == uids[0], "the uids of kernels that ended are free again"
    last.close()
