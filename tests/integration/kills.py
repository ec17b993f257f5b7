"""SIGKILL at a chosen system call: strace follows a worker or a pass of the reaper and kills it where it is about to
make its n-th call of a kind.

Which call that is says an undisturbed run of the same thing: At and Past name one, `every` takes all those by which
something changes or is learned.
"""
import collections
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time

from stack import ROOT, wait_until

# What others can notice: files, locks, what goes to a peer and what comes from one.
CALLS = ("openat", "openat2", "write", "writev", "pwrite64", "pwritev", "ftruncate", "fsync", "fdatasync", "fcntl",
         "flock", "linkat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "fchmod",
         "fchown", "utimensat", "sendto", "sendmsg", "recvfrom", "accept4")
LINE = re.compile(r"(\d+) +(\w+)\((.*)")
READS_ONLY = re.compile(r"openat2?\((?!.*(O_CREAT|O_TMPFILE))|fcntl\(\d+, F_(GET|SETF|DUPFD)")
TRIES = 6
HELD_UP_US = 30000
YOUNG_S = 1.1  # the master starts those ever more slowly whose like died younger

Event = collections.namedtuple("Event", "call nth text")


class At(collections.namedtuple("At", "pattern after", defaults=(None,))):
    """Killed as it comes to the first such call, or to the first after another one."""

    def found(self, told):
        """(call, n) of it, or None."""
        seen = self.after is None
        for event in told:
            if seen and re.match(self.pattern, event.text):
                return event.call, event.nth
            seen = seen or re.search(self.after, event.text) is not None
        return None


class Past(collections.namedtuple("Past", "call pattern")):
    """Killed when such a call is over, before anything is written to the database. Calls of that name are held up for
    as long as it takes to notice."""

    def was_hit(self, told):
        seen = [bool(re.search(self.pattern, e.text)) and e.call == self.call for e in told]
        return any(seen) and not any(e.call == "pwrite64" for e in told[seen.index(True):])


def command(trace, kill=None):
    """strace's words: all CALLS are told; a (call, n) ends the process as it comes to it."""
    words = ["strace", "-f", "-s", "120", "-o", trace, "-e", "trace=" + ",".join(CALLS), "-e", "signal=none"]
    if isinstance(kill, Past):
        return words + ["-e", f"inject={kill.call}:delay_exit={HELD_UP_US}"]
    return words + ["-e", f"inject={kill[0]}:signal=SIGKILL:when={kill[1]}"] if kill else words


@contextlib.contextmanager
def lying_in_wait(trace, past):
    """Meanwhile, whoever tells of such a call is killed."""
    over = threading.Event()

    def watch():
        rest = ""
        with open(trace, errors="replace") as f:
            while not over.is_set():
                rest += f.read()
                lines = rest.split("\n")
                rest = lines.pop()
                for match in filter(None, map(LINE.match, lines)):
                    if match[2] == past.call and re.search(past.pattern, match[3]):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(match[1]), signal.SIGKILL)
                        return
                time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    if isinstance(past, Past):
        watcher.start()
    try:
        yield
    finally:
        over.set()
        if watcher.ident:
            watcher.join()


def events(trace):
    """The first process's calls in their order, each with its number among those of its kind."""
    found, counts, pid = [], collections.Counter(), None
    with open(trace, errors="replace") as f:
        for match in filter(None, map(LINE.match, f)):
            pid = pid or match[1]
            if match[1] == pid:
                counts[match[2]] += 1
                found.append(Event(match[2], counts[match[2]], f"{match[2]}({match[3]}"))
    return found


def every(told, step):
    """Each step-th of the calls by which something changes, or is learned from a peer."""
    return [(e.call, e.nth) for e in told if e.call != "accept4" and not READS_ONLY.match(e.text)][::step]


@contextlib.contextmanager
def trace_file():
    handle, name = tempfile.mkstemp(prefix="husk-trace-", dir="/tmp")
    os.close(handle)
    try:
        yield name
    finally:
        os.unlink(name)


def state_of(pid):
    """Its letter in /proc; Z and X: it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def age_of(pid):
    with open(f"/proc/{pid}/stat") as f:
        started = int(f.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


class Worker:
    """Follows the only worker of a lane through one request."""

    def __init__(self, stack, lane):
        self.stack, self.lane = stack, lane

    def run(self, act, kill):
        """Returns (what act returned, the worker's calls, whether it was killed)."""
        pid, = wait_until(lambda: self.stack.workers(self.lane), 15, "a worker")
        wait_until(lambda: age_of(pid) > YOUNG_S, 5, "its coming of age")
        with trace_file() as trace:
            strace = subprocess.Popen([*command(trace, kill), "-p", str(pid)], stdin=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True)
            try:
                assert "attached" in strace.stderr.readline()
                with lying_in_wait(trace, kill):
                    result = act()
            finally:
                strace.send_signal(signal.SIGTERM)
                strace.communicate(timeout=20)
            told = events(trace)
        killed = state_of(pid) in "ZX"
        wait_until(lambda: [p for p in self.stack.workers(self.lane) if p != pid or not killed], 15, "its successor")
        return result, told, killed


@contextlib.contextmanager
def held_up_at(pid, call, how):
    """strace does to the process what it calls `how` as it comes to such a call (signal=SIGSTOP: it stops when the call
    is over); gives a function that tells whether the process has stopped, or ended."""
    def is_stopped():
        return state_of(pid) in "TtZX"

    strace = subprocess.Popen(["strace", "-f", "-o", os.devnull, "-e", "trace=" + call, "-e",
                               f"inject={call}:{how}:when=1", "-p", str(pid)],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert "attached" in strace.stderr.readline()
        time.sleep(0.2)  # it sleeps again, as it did before strace came
        yield is_stopped
    finally:
        strace.send_signal(signal.SIGTERM)
        strace.communicate(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class Reaper:
    """Follows one pass; settings are set for it alone."""

    def __init__(self, stack, **settings):
        self.stack = stack
        self.environment = {"PATH": os.environ["PATH"], **settings}

    def run(self, act, kill):
        act()
        with trace_file() as trace, open(self.stack.path("reaper-once.log"), "ab") as log:
            # strace becomes husk for what it starts only, so that its own file stays ours
            user = ["-u", "husk"] if ROOT else []
            with lying_in_wait(trace, kill):
                done = subprocess.run([*command(trace, kill), *user, self.stack.path("bin", "husk-reaper"), "--config",
                                       self.stack.path("husk.conf"), "--once"], env=self.environment, stderr=log,
                                      timeout=120, cwd="/", check=False)
            assert done.returncode in (0, -signal.SIGKILL), done
            return None, events(trace), done.returncode != 0
