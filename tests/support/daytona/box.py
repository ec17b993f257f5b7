"""One sandbox of the stand-in: a directory for its files, and where the machine lets us a mount and pid namespace of its
own, in which that directory is /home/daytona and nothing of the machine's processes is seen.
"""
import asyncio
import contextlib
import ctypes
import datetime
import errno
import json
import os
import shutil
import signal
import subprocess
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = "/home/daytona"
PROCESSES = 64  # a sandbox's at once, those of code not counted
CHUNK_LINE = 1 << 20  # bytes of a line of the interpreter's; at a longer one reading ends for good
HEARD = 3600  # seconds: for ever, as far as any caller goes
OUTPUT = 16 << 20  # what a command's output may be

# Process 1 of a sandbox: prints its pid as the machine knows it, reaps, and ends all when the stand-in is gone.
SETUP = r"""
read -r pid _ </proc/self/stat
mount -t tmpfs -o size=64m none /home && mkdir /home/daytona && mount --bind "$1" /home/daytona &&
mount --bind "$3" /mnt && mount --bind "$2" /tmp && mount -t proc proc /proc && echo "$pid" || exit 1
exec /usr/bin/python3 -ISc 'import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sys.stdin.read()'
"""


def source(name):
    """A program of this folder for python3 -c, its lines named as the file's: "<string>" is the code's that it runs."""
    with open(os.path.join(HERE, name)) as f:
        return f"exec(compile({f.read()!r}, {name!r}, 'exec'))"


WORKER, CODE_RUN = source("worker.py"), source("coderun.py")


def _namespaces():
    """The options of unshare and nsenter that work here, or None."""
    for more, enter in (([], []), (["-r"], ["-U", "--preserve-credentials"])):
        test = ["unshare", "-m", "-p", "-f", "--kill-child", *more, "sh", "-c", "mount -t proc proc /proc"]
        if subprocess.run(test, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20, check=False).returncode == 0:
            return more, enter
    return None


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


async def ended(process):
    """Waits for a killed process. asyncio waits for its pipes too, and does not see the end of one it reads no more."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), 1)


def stamp(when=None):
    """RFC 3339 with milliseconds."""
    return datetime.datetime.fromtimestamp(when or time.time(), datetime.timezone.utc).isoformat(timespec="milliseconds") \
        .replace("+00:00", "Z")


class Full(Exception):
    """A bound of the stand-in's own."""


class Context:
    """An interpreter that keeps its state; one execution at a time, first in, first out."""

    def __init__(self, box, cwd=None, default=False):
        self.box, self.cwd, self.default = box, cwd or HOME, default
        self.id = "default" if default else str(uuid.uuid4())
        self.created = stamp()
        self.turn = asyncio.Lock()
        self.process = None
        self.deaf = False

    @property
    def active(self):
        return self.process is not None and self.process.returncode is None

    def shown(self):
        return {"id": self.id, "cwd": self.cwd, "createdAt": self.created, "active": self.active, "language": "python"}

    async def start(self):
        self.deaf = False
        self.process = await self.box.spawn(["/usr/bin/python3", "-uc", WORKER], self.cwd, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, limit=CHUNK_LINE)

    async def send(self, code, envs):
        self.process.stdin.write((json.dumps({"code": code, "envs": envs}) + "\n").encode())
        await self.process.stdin.drain()

    async def chunk(self):
        """The next chunk, or None where the interpreter has ended."""
        while True:
            try:
                if self.deaf:
                    await asyncio.sleep(HEARD)
                    continue
                line = await self.process.stdout.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                self.deaf = True
                continue
            except asyncio.IncompleteReadError:
                return None
            with contextlib.suppress(ValueError):
                chunk = json.loads(line)
                if isinstance(chunk, dict) and chunk.get("type") in ("stdout", "stderr", "error", "control"):
                    return chunk

    def interrupt(self):
        if self.active:
            self.box.signal(self.process, signal.SIGINT)

    async def kill(self):
        if self.process:
            await self.box.end(self.process)


class Box:
    """A sandbox's directory and processes. Its state as the API tells it is not known here."""

    base = None  # a directory of the stand-in's own
    namespaces = None

    @classmethod
    def prepare(cls, base):
        cls.base = base
        os.makedirs(os.path.join(base, "matplotlib"), exist_ok=True)
        cls.namespaces = _namespaces()

    def __init__(self, ident, env):
        self.env = dict(env)
        self.root = os.path.join(self.base, ident)
        self.home, self.tmp = os.path.join(self.root, "home"), os.path.join(self.root, "tmp")
        for path in (self.home, self.tmp):
            os.makedirs(path)
        self.init = self.init_pid = None
        self.processes = set()
        self.contexts = {}

    async def start(self):
        if self.namespaces is None:
            return
        more, _ = self.namespaces
        self.init = await asyncio.create_subprocess_exec(
            "unshare", "-m", "-p", "-f", "--kill-child", *more, "sh", "-c", SETUP, "sh", self.home, self.tmp,
            os.path.join(self.base, "matplotlib"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True, env=self.environment({}))
        self.init_pid = int(await asyncio.wait_for(self.init.stdout.readline(), 20))

    def environment(self, more):
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": HOME if self.init else self.home, "USER": "daytona",
                "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1",
                "MPLCONFIGDIR": "/mnt" if self.init else os.path.join(self.base, "matplotlib"), **self.env, **(more or {})}

    async def spawn(self, argv, cwd=None, envs=None, **kw):
        """A process in the sandbox, leader of its group. cwd: as the sandbox sees it."""
        if len(self.processes) >= PROCESSES:
            raise Full("too many processes in the sandbox")
        cwd = os.path.normpath(os.path.join(HOME, cwd or "."))
        if self.init:
            _, enter = self.namespaces
            # "sh" changes the folder inside; a folder that is not there is an error of the call
            argv = ["nsenter", *enter, "-t", str(self.init_pid), "-m", "-p", "--", "sh", "-c", 'cd "$1" && shift && exec "$@"',
                    "sh", cwd, *argv]
        else:
            kw["cwd"] = self.outside(cwd)
        process = await asyncio.create_subprocess_exec(*argv, env=self.environment(envs), start_new_session=True,
                                                       preexec_fn=_die_with_parent, **kw)
        self.processes.add(process)
        return process

    def signal(self, process, number):
        """To the program itself: nsenter stays outside, its child is the program."""
        pid = process.pid
        if self.init:
            with contextlib.suppress(OSError, IndexError):
                with open(f"/proc/{pid}/task/{pid}/children") as f:
                    pid = int(f.read().split()[0])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    async def end(self, process):
        """Kills a process and its group, and waits for it."""
        if process.returncode is None:
            self.signal(process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await ended(process)
        self.processes.discard(process)

    async def run(self, argv, cwd, envs, timeout, stdin=b"", charts=False):
        """(exit status, merged output, charts) of a program; None as the status where the time was up.

        charts: a None in argv becomes the number of a descriptor to which the program writes them.
        """
        read = write = None
        kw = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        if charts:
            read, write = os.pipe()
            kw["pass_fds"] = (write,)
            argv = [str(write) if a is None else a for a in argv]
        try:
            process = await self.spawn(argv, cwd, envs, **kw)
        finally:
            if charts:
                os.close(write)
        try:
            done = asyncio.gather(self._all(process.stdout), self._charts(read), self._feed(process, stdin))
            output, made, _ = await asyncio.wait_for(done, timeout)
            return await process.wait(), output, made
        except asyncio.TimeoutError:
            return None, b"", []
        finally:
            await self.end(process)

    @staticmethod
    async def _feed(process, data):
        with contextlib.suppress(ConnectionError):
            process.stdin.write(data)
            await process.stdin.drain()
        process.stdin.close()

    @staticmethod
    async def _all(stream):
        kept, size = [], 0
        while data := await stream.read(65536):
            size += len(data)
            if size <= OUTPUT:
                kept.append(data)
        return b"".join(kept)

    async def _charts(self, fd):
        if fd is None:
            return []
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(fd, "rb"))
        try:
            with contextlib.suppress(ValueError):
                return json.loads(await self._all(stream))
            return []
        finally:
            transport.close()

    def context(self, ident=None):
        """The context by id, the default one where none is named; None where there is none."""
        if ident in (None, "", "default"):
            if "default" not in self.contexts:
                self.contexts["default"] = Context(self, default=True)
            return self.contexts["default"]
        return self.contexts.get(ident)

    async def new_context(self, cwd):
        if len(self.contexts) >= 32:
            raise Full("too many contexts")
        context = Context(self, cwd)
        self.contexts[context.id] = context
        await context.start()
        return context

    async def stop(self):
        """Ends every process; the files stay."""
        self.contexts = {}
        if self.init:
            self.init.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init_pid, signal.SIGKILL)
            await ended(self.init)
            self.init = self.init_pid = None
        for process in list(self.processes):
            await self.end(process)

    async def destroy(self):
        await self.stop()
        await asyncio.get_running_loop().run_in_executor(None, lambda: shutil.rmtree(self.root, ignore_errors=True))

    def outside(self, path, follow=True):
        """Where a path of the sandbox lies on this machine. Links are followed as the sandbox would: an absolute one
        begins at its root. None for what is not beneath its home or /tmp (the rest of a sandbox is not shown)."""
        parts, done, links = [p for p in os.path.join(HOME, path).split("/") if p not in ("", ".")], [], 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                done = done[:-1]
                continue
            done.append(part)
            here = self._place(done)
            if here is None or not os.path.islink(here) or not (parts or follow):
                continue
            links += 1
            if links > 40:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = os.readlink(here)
            done = [] if target.startswith("/") else done[:-1]
            parts = [p for p in target.split("/") if p not in ("", ".")] + parts
        return self._place(done)

    def _place(self, parts):
        if parts[:2] == ["home", "daytona"]:
            return os.path.join(self.home, *parts[2:])
        if parts[:1] == ["tmp"]:
            return os.path.join(self.tmp, *parts[1:])
        return None
