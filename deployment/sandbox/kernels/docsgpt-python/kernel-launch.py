"""Starts one IPython kernel with an environment made from nothing, and leaves no process behind.

Three processes: the shim is what the gateway started and signals; it relays to the supervisor, which
has a session of its own, adopts every orphan of the kernel (PR_SET_CHILD_SUBREAPER) and kills all
that is left when the kernel ends, or when the shim does; the kernel has a session of its own again,
so that an interrupt reaches it and what it started, and nothing else.

From the environment: HUSK_KERNEL_PYTHON (the kernel's interpreter, default /usr/bin/python3) and
HUSK_TRASH (where workspaces go to be removed: see gateway-launch.py).
"""
import ctypes
import os
import resource
import shutil
import signal
import sys
import tempfile
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SWEEP_SECONDS = 10  # longest time leftovers are hunted
LOOK_SECONDS = 1    # how often the kernel's working directory is looked at
RELAYED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
WAITED = RELAYED | {signal.SIGCHLD}

libc = ctypes.CDLL(None, use_errno=True)


def prctl(option, value):
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def die_with_parent(signum, parent):
    """The parent may have gone before the request took hold: compare once more."""
    prctl(PR_SET_PDEATHSIG, signum)
    if parent and os.getppid() != parent:
        os._exit(1)


def reap(pid):
    """Collects whatever ended; the exit status of pid once that did, else None."""
    result = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return result
        if ended == 0:
            return result
        if ended == pid:
            result = os.waitstatus_to_exitcode(status)


def end_as(code):
    """Ends the way the kernel did, for the gateway's log."""
    os._exit(code if 0 <= code < 256 else 128 - code)


def forward(pid, signum):
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        pass


def interrupt_session(pid):
    try:
        os.killpg(pid, signal.SIGINT)
    except OSError:
        forward(pid, signal.SIGINT)


def shim(supervisor):
    while True:
        info = signal.sigwaitinfo(WAITED)
        if info.si_signo == signal.SIGCHLD:
            code = reap(supervisor)
            if code is not None:
                end_as(code)
        else:
            forward(supervisor, info.si_signo)


def children():
    me = str(os.getpid())
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                parent = f.read().rpartition(b")")[2].split()[1].decode()
        except (OSError, IndexError):
            continue
        if parent == me:
            yield int(name)


def sweep():
    """Kills generation after generation: what loses its parent becomes a child of this process."""
    until = time.monotonic() + SWEEP_SECONDS
    while time.monotonic() < until:
        reap(0)
        left = list(children())
        if not left:
            return
        for pid in left:
            forward(pid, signal.SIGSTOP)
        for pid in left:
            forward(pid, signal.SIGKILL)
        time.sleep(0.005)


class Workspaces:
    """Remembers which workspaces the kernel worked in, for the remover in gateway-launch.py."""

    def __init__(self, trash, seen):
        self.base = os.path.dirname(trash) if trash else None
        self.seen = seen
        self.last = None

    def look(self, pid):
        if not self.base:
            return
        try:
            cwd = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            return
        if cwd == self.last or os.path.dirname(cwd) != self.base:
            return
        self.last = cwd
        try:
            os.makedirs(self.seen, 0o700, exist_ok=True)
            with open(os.path.join(self.seen, os.path.basename(cwd)), "w"):
                pass
        except OSError as e:
            print("kernel-launch:", e, file=sys.stderr)


def supervise(kernel, workspaces, temporary):
    while True:
        info = signal.sigtimedwait(WAITED, LOOK_SECONDS)
        if info is None:
            workspaces.look(kernel)
        elif info.si_signo == signal.SIGINT:
            interrupt_session(kernel)
        elif info.si_signo == signal.SIGCHLD:
            code = reap(kernel)
            if code is None:
                continue
            sweep()
            for path in temporary:
                shutil.rmtree(path, ignore_errors=True)
            end_as(code)
        else:
            # The polite way out is the protocol's shutdown request; after it this is the end.
            workspaces.look(kernel)
            forward(kernel, signal.SIGKILL)


def environment(home, connection_file):
    proxy = os.environ.get("SANDBOX_EGRESS_PROXY", "")
    told = {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": "localhost,127.0.0.1"} if proxy else {}
    return {
        **told,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "IPYTHONDIR": os.path.join(home, ".ipython"),
        "JUPYTER_RUNTIME_DIR": os.path.dirname(connection_file),
        "JUPYTER_DATA_DIR": os.path.join(home, ".local", "share", "jupyter"),
    }


def kernel_script():
    """Beside this file where install-kernelspec has put it, else where sandboxes have it too."""
    here = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.join(here, "husk_output.py")
    return beside if os.path.exists(beside) else os.path.normpath(os.path.join(here, "../../inside/husk_output.py"))


def run_kernel(connection_file, home):
    os.setsid()
    os.umask(0o007)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(home)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.closerange(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 65536 else 65536)
    for signum in WAITED | {signal.SIGPIPE, signal.SIGXFSZ}:
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    python = os.environ.get("HUSK_KERNEL_PYTHON") or "/usr/bin/python3"
    argv = [python, kernel_script(), "-f", connection_file]
    os.execve(python, argv, environment(home, connection_file))


def start_supervisor(connection_file, shim_pid):
    os.setsid()
    die_with_parent(signal.SIGTERM, shim_pid)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    runtime = os.path.dirname(connection_file)
    name = os.path.splitext(os.path.basename(connection_file))[0]
    home = os.path.join(runtime, "homes", name)
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home, 0o700)
    me = os.getpid()
    kernel = os.fork()
    if kernel == 0:
        try:
            die_with_parent(signal.SIGKILL, me)
            run_kernel(connection_file, home)
        finally:
            os._exit(127)
    workspaces = Workspaces(os.environ.get("HUSK_TRASH"), os.path.join(runtime, "seen"))
    # With SANDBOX_TRANSFER=kernel a session's files are in a folder of the kernel's, named after it.
    own = os.path.join(tempfile.gettempdir(), "husk-" + name.removeprefix("kernel-"))
    supervise(kernel, workspaces, (home, own))


def main():
    if len(sys.argv) != 3 or sys.argv[1] != "-f":
        sys.exit("usage: kernel-launch.py -f CONNECTION_FILE")
    connection_file = os.path.abspath(sys.argv[2])
    gateway = os.environ.get("JPY_PARENT_PID", "")
    die_with_parent(signal.SIGKILL, int(gateway) if gateway.isdigit() else 0)
    # From here on signals are waited for, never handled in between.
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED)
    me = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        try:
            start_supervisor(connection_file, me)
        finally:
            os._exit(127)
    shim(supervisor)


main()
