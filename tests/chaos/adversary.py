"""What goes wrong on purpose: processes killed, stopped, ended and reloaded at random, and a full disk."""
import collections
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import time

from stack import Stack

# Longer than the master waits for an idle worker that was handed a request, and than a client's turn takes.
STOPPED_S = (2, 14)
PAUSE_MEAN_S = 2
DISK_FULL_S = 6
WEIGHTS = {
    "worker SIGKILL": 5, "worker SIGSTOP": 4, "worker SIGTERM": 2, "reload": 1.5, "master SIGKILL": 0.7,
    "master SIGTERM": 0.7, "master SIGSTOP": 0.5, "reaper SIGKILL": 1.5, "reaper SIGSTOP": 0.7, "reaper SIGTERM": 0.5,
    "gateway SIGKILL": 0.7, "gateway SIGSTOP": 0.5, "gateway SIGTERM": 0.4, "kernel SIGKILL": 4, "kernel SIGSTOP": 1,
    "kernel SIGTERM": 1,
}


class ChaosStack(Stack):
    """disk_mib: keeps the state on a tmpfs of that size, 0: beside the rest."""

    def __init__(self, cap, pool, disk_mib):
        super().__init__(SANDBOX_MAX_SESSIONS=cap, SANDBOX_POOL_SIZE=pool, SANDBOX_WORKERS_EXEC=cap + 2,
                         SANDBOX_REAP_INTERVAL=1, SANDBOX_START_TIMEOUT=12, SANDBOX_HTTP_TIMEOUT=3, SANDBOX_MAX_EXEC_TIMEOUT=60,
                         SANDBOX_DRAIN_TIMEOUT=10, SANDBOX_LOG_LEVEL="info", SANDBOX_CONNECTIONS_PER_CLIENT=1000)
        self.disk_mib = disk_mib
        self.mounted = False

    def prepare(self):
        if self.disk_mib:
            os.makedirs(self.state)
            done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.disk_mib}m,nosuid,nodev", "husk-chaos",
                                   self.state], check=False)
            self.mounted = done.returncode == 0
            if not self.mounted:
                print("no tmpfs can be mounted here: the disk is not filled", flush=True)
        super().prepare()

    def processes_of(self, program, argument):
        """pids of a program by the end of its name, with an argument that contains the text."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    argv = f.read().split(b"\0")
                if argv[0].endswith(program.encode()) and argument.encode() in b" ".join(argv[1:]):
                    found.append(int(pid))
        return sorted(found)

    def kernel_processes(self):
        return self.processes_of("", self.path("k", "kernel-"))

    def kernels_now(self):
        """How many kernels the gateway has; 0 while it does not say."""
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            status, body = self.gateway_request("GET", "/api/kernels", timeout=2)
            return len(json.loads(body)) if status == 200 else 0
        return 0

    def wake_all(self):
        for pid in self.processes_of("", self.dir + "/"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def stop(self):
        """Ends everything; returns what did not end by itself."""
        left = []
        self.wake_all()
        try:
            super().stop()
        except AssertionError as e:
            left.append(str(e))
        end = time.monotonic() + 20
        while (pids := self.processes_of("", self.dir + "/")) and time.monotonic() < end:
            time.sleep(0.2)
        for pid in pids:
            left.append(f"process {pid} lives on")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.mounted:
            subprocess.run(["umount", "-l", self.state], check=True)
            self.mounted = False
        if "HUSK_KEEP" not in os.environ:
            shutil.rmtree(self.dir, ignore_errors=True)
        return left


class Adversary:
    """Attacks for so many seconds. Every draw is made whatever comes of it, so that a seed repeats the decisions."""

    def __init__(self, stack, seed, disk, seconds):
        self.stack, self.disk, self.seconds = stack, disk, seconds
        self.random = random.Random(f"{seed}:adversary")
        self.done = collections.Counter()
        self.stopped = []  # (when it goes on, pid)

    def count(self):
        return sum(self.done.values())

    def attack(self):
        began = time.monotonic()
        disk_at = began + self.seconds / 2 if self.disk else float("inf")
        while True:
            next_at = time.monotonic() + min(6, self.random.expovariate(1 / PAUSE_MEAN_S))
            what = self.random.choices(list(WEIGHTS), WEIGHTS.values())[0]
            target, length, busy = self.random.random(), self.random.uniform(*STOPPED_S), self.random.random() < 0.6
            while time.monotonic() < next_at:
                self._go_on()
                time.sleep(0.05)
            if time.monotonic() - began > self.seconds:
                return
            if time.monotonic() > disk_at:
                disk_at = float("inf")
                self._fill_disk()
            getattr(self, "_" + what.split()[0])(what.split()[-1], target, length, busy)
            self.done[what] += 1

    def make_peace(self):
        """Whoever was stopped goes on."""
        self.stopped = []
        self.stack.wake_all()

    def _go_on(self):
        now = time.monotonic()
        for when, pid in [s for s in self.stopped if s[0] <= now]:
            self.stopped.remove((when, pid))
            # the number may have been given to another meanwhile; to go on harms nobody who was not stopped
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    @staticmethod
    def _hit(pids, target, number):
        """Returns the pid that got the signal, or None."""
        if not pids:
            return None
        pid = pids[int(target * len(pids))]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return pid
        return None

    def _working(self):
        status = self.stack.ctl("status", "--json", check=False).stdout
        with contextlib.suppress(ValueError, KeyError):
            return sorted(w["pid"] for w in json.loads(status)["workers"] if w["state"] == "working")
        return []

    def _signal(self, pids, how, target, length):
        pid = self._hit(pids, target, getattr(signal, how))
        if pid and how == "SIGSTOP":
            self.stopped.append((time.monotonic() + length, pid))

    def _worker(self, how, target, length, busy):
        there = self.stack.workers()
        pids = [p for p in self._working() if p in there] if busy else []
        self._signal(pids or there, how, target, length)

    def _reload(self, *_):
        self.stack.processes["master"].send_signal(signal.SIGHUP)

    def _master(self, how, target, length, busy):
        if how == "SIGSTOP":
            return self._signal([self.stack.processes["master"].pid], how, target, length)
        self.make_peace()
        before = self.stack.workers()
        self.stack.stop_process("master", getattr(signal, how), 60)
        end = time.monotonic() + 15
        while set(before) & set(self.stack.workers()) and time.monotonic() < end:
            time.sleep(0.05)
        self.stack.start_master()

    def _reaper(self, how, target, length, busy):
        self._signal(self.stack.processes_of("husk-reaper", self.stack.dir), how, target, length)

    def _gateway(self, how, target, length, busy):
        if how == "SIGSTOP":
            return self._signal([self.stack.processes["gateway"].pid], how, target, length)
        with contextlib.suppress(AssertionError):  # ended the hard way: as good
            self.stack.stop_process("gateway", getattr(signal, how), 20)
        time.sleep(length / 4)
        self.stack.start_gateway()

    def _kernel(self, how, target, length, busy):
        self._signal(self.stack.kernel_processes(), how, target, length)

    def _fill_disk(self):
        filler = os.path.join(self.stack.state, "filler")
        fd = os.open(filler, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        os.write(fd, bytes(size))
            time.sleep(DISK_FULL_S)
        finally:
            os.close(fd)
            os.unlink(filler)
        self.done["disk full"] += 1
