"""Many sessions, most of them idle, some at work, for minutes: what grows, and what gets slower?

With kernels that are none (many_kernels), so that what is measured is Husk.
"""
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time

from stack import Stack, wait_until

OPEN = 500
ACTIVE = 100
EXTRA = 20  # sessions that come and go
HERE = os.path.dirname(os.path.abspath(__file__))


class ManyStack(Stack):
    """The service before kernels that are none."""

    def start_gateway(self):
        self.gateway = subprocess.Popen(["/usr/bin/python3", os.path.join(HERE, "many_kernels"), str(self.gateway_port)],
                                        stdin=subprocess.PIPE)
        self.processes["gateway"] = self.gateway
        wait_until(self.gateway_answers, 20, "the gateway")


class Driver:
    """Requests at a steady pace, each on a connection that is kept; their times by kind and minute."""

    def __init__(self, stack, key, minutes):
        self.stack, self.key, self.minutes = stack, key, minutes
        self.times = {}  # (minute, kind): [ms]
        self.failed = []

    async def request(self, connection, method, path, body=None):
        reader, writer = connection
        data = json.dumps(body).encode() if body is not None else b""
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n"
                     f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head.split()[1])
        length = head.partition("content-length:")[2].split("\r\n")[0]
        if length:
            answer = await reader.readexactly(int(length))
        elif status == 204:
            answer = b""
        else:
            answer = await self.chunks(reader)
        if "connection: close" in head:  # nginx keeps one for so many requests
            writer.close()
            connection[:] = await self.connect()
        return status, answer

    @staticmethod
    async def chunks(reader):
        parts = []
        while True:
            size = int(await reader.readline(), 16)
            parts.append(await reader.readexactly(size))
            await reader.readline()
            if size == 0:
                return b"".join(parts)

    async def connect(self):
        return list(await asyncio.open_unix_connection(self.stack.address))

    async def timed(self, kind, connection, method, path, body=None):
        began = time.monotonic()
        status, answer = await self.request(connection, method, path, body)
        if status >= 400:
            self.failed.append((kind, status, answer[:200]))
        minute = int((began - self.began) / 60)
        self.times.setdefault((minute, kind), []).append((time.monotonic() - began) * 1000)
        return answer

    async def every(self, seconds, offset, work):
        """work(connection) at fixed times, whatever the last one took."""
        connection = await self.connect()
        due = self.began + offset
        while due < self.began + self.minutes * 60:
            await asyncio.sleep(max(0, due - time.monotonic()))
            await work(connection)
            due += seconds
        connection[1].close()

    async def execute(self, i, connection):
        await self.timed("exec", connection, "POST", f"/v1/sessions/s{i}/exec", {"code": "print(1)"})

    async def page(self, connection):
        answer = await self.timed("list", connection, "GET", self.next_page)
        cursor = json.loads(answer).get("next_cursor")
        self.next_page = "/v1/sessions?limit=100" + (f"&cursor={cursor}" if cursor else "")

    async def come_and_go(self, i, connection):
        await self.timed("open", connection, "POST", "/v1/sessions", {"session_id": f"e{i}"})
        await self.request(connection, "DELETE", f"/v1/sessions/e{i}")

    async def open_all(self):
        connections = [await self.connect() for _ in range(4)]

        async def some(k):
            for i in range(k, OPEN, len(connections)):
                status, answer = await self.request(connections[k], "POST", "/v1/sessions", {"session_id": f"s{i}"})
                assert status == 201, answer
        await asyncio.gather(*(some(k) for k in range(len(connections))))
        for _, writer in connections:
            writer.close()

    async def watch(self):
        self.wal, self.memory, self.database = {}, {}, {}
        while time.monotonic() < self.began + self.minutes * 60:
            minute = int((time.monotonic() - self.began) / 60)
            path = os.path.join(self.stack.state, "husk.db")
            with contextlib.suppress(FileNotFoundError):
                self.wal[minute] = max(self.wal.get(minute, 0), os.path.getsize(path + "-wal"))
            self.database[minute] = os.path.getsize(path)
            self.memory[minute] = max(rss(pid) for pid in self.pids)
            await asyncio.sleep(1)

    async def drive(self):
        self.began = time.monotonic()
        self.next_page = "/v1/sessions?limit=100"
        self.pids = self.stack.workers("exec") + self.stack.workers("api")
        work = [self.every(1, i / ACTIVE, lambda c, i=i: self.execute(i, c)) for i in range(ACTIVE)]
        work += [self.every(5, i / 4, lambda c, i=i: self.come_and_go(i, c)) for i in range(EXTRA)]
        work += [self.every(0.2, 0.1, self.page), self.watch()]
        await asyncio.gather(*work)


def rss(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1]) / 1024
    return 0


def p(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))] if values else 0


def looks(b, stack):
    """What an operator sees of them, and how soon."""
    def took(what):
        times = []
        for _ in range(5):
            began = time.monotonic()
            what()
            times.append((time.monotonic() - began) * 1000)
        return statistics.median(times)

    assert json.loads(stack.ctl("status", "--json"))["sessions"]["ready"] >= OPEN - ACTIVE
    b.add(f"huskctl status, {OPEN} sessions", took(lambda: stack.ctl("status")), None)
    b.add(f"huskctl session list, {OPEN} sessions", took(lambda: stack.ctl("session", "list")), None)
    b.add(f"SELECT * FROM v_sessions, {OPEN} sessions", took(lambda: stack.sql("SELECT * FROM v_sessions")), None)


def many(b):
    """500 sessions open, 100 at work once a second, others come and go: do times and sizes stay as they are?"""
    stack = ManyStack(SANDBOX_MAX_SESSIONS=OPEN + EXTRA, SANDBOX_WORKERS_EXEC=ACTIVE + 4, SANDBOX_MAX_TTL=7200,
                      SANDBOX_LOG_LEVEL="warning", SANDBOX_CONNECTIONS_PER_CLIENT=1000)
    try:
        stack.start()
        d = Driver(stack, stack.key("many"), b.minutes)
        asyncio.run(d.open_all())
        looks(b, stack)
        asyncio.run(d.drive())
        assert not d.failed, (len(d.failed), d.failed[:3])
        report(b, d)
        time.sleep(12)  # two sweeps: what a load leaves in the log goes
        b.add("write-ahead log after the load", os.path.getsize(os.path.join(stack.state, "husk.db-wal")) / (1 << 20),
              None, None, "MiB")
    finally:
        stack.stop()


def report(b, d):
    for minute in range(b.minutes):
        line = "  ".join(f"{kind} {p(d.times[minute, kind], .5):.1f}/{p(d.times[minute, kind], .99):.1f} ms"
                         for kind in ("exec", "list", "open"))
        print(f"  minute {minute + 1}: p50/p99 {line}  log {d.wal.get(minute, 0) / (1 << 20):.1f} MiB"
              f"  database {d.database[minute] / (1 << 20):.1f} MiB  worker {d.memory[minute]:.1f} MiB", flush=True)
    part = max(1, b.minutes // 5)
    first, last = range(part), range(b.minutes - part, b.minutes)

    def over(minutes, kind):
        return [ms for m in minutes for ms in d.times[m, kind]]

    n = f"{OPEN} sessions, {ACTIVE} at work, {b.minutes} minutes"
    for kind in ("exec", "list", "open"):
        for q in (.5, .99):
            b.add(f"{kind} p{q * 100:.0f}, {n}: last of it : first", p(over(last, kind), q), p(over(first, kind), q))
    b.add("largest write-ahead log: last of it : first", max(d.wal.get(m, 0) for m in last) / (1 << 20),
          max(d.wal.get(m, 0) for m in first) / (1 << 20), None, "MiB")
    b.add("largest worker: last of it : first", max(d.memory[m] for m in last), max(d.memory[m] for m in first), None, "MiB")


if __name__ == "__main__":
    sys.exit("a part of tests/bench/run")
