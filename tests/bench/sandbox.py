"""What a sandbox costs over the stock kernelspec, and that a hundred of them leave nothing: the part `sandbox`."""
import contextlib
import json
import os
import re
import statistics
import subprocess
import time
import urllib.error
import urllib.request

from stack import Stack, free_port, wait_until

STARTS = 100  # sandboxes that must leave nothing


class Side:
    """A stack of its own, with kernels in sandboxes or started by the stock kernelspec."""

    def __init__(self, isolation):
        self.port = free_port()
        self.stack = Stack(SANDBOX_LISTEN=f"127.0.0.1:{self.port}", SANDBOX_ISOLATION=isolation, SANDBOX_REAP_INTERVAL="1h",
                           SANDBOX_LOG_LEVEL="info")
        s = self.stack
        s.prepare()
        if isolation == "none":
            # what a Jupyter installation brings: no launcher of ours
            with open(s.path("sandbox", "kernels", "docsgpt-python", "kernel.json"), "w") as f:
                json.dump({"argv": ["/usr/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                           "display_name": "Python 3", "language": "python"}, f)
        else:
            s.start_keeper()
        s.start_gateway()
        s.ctl("db", "migrate")
        s.start_master()
        s.start_nginx()
        self.key = s.key("bench")
        wait_until(lambda: self.call("GET", "/readyz")[0] == 200, 30, "readyz")

    def call(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode())
        request.add_header("Authorization", "Bearer " + self.key)
        request.add_header("Content-Type", "application/json")
        with contextlib.suppress(urllib.error.HTTPError, ConnectionError):
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read()
        return 0, b""

    def cold(self, name):
        """Milliseconds until a session is open, and until its first execution has answered."""
        began = time.monotonic()
        assert self.call("POST", "/v1/sessions", {"session_id": name})[0] == 201
        ready = time.monotonic()
        assert self.call("POST", f"/v1/sessions/{name}/exec", {"code": "print(1)"})[0] == 200
        return (ready - began) * 1000, (time.monotonic() - began) * 1000

    def close(self, name):
        assert self.call("DELETE", f"/v1/sessions/{name}")[0] == 204


def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:")) / 1024


def around_kernels(stack):
    """Pids of what a sandbox adds to its kernel: the shim, the monitor and init."""
    found = []
    for entry in json.loads(stack.ctl("sandbox", "list", "--json"))["sandboxes"]:
        monitor = entry["monitor"]
        with open(f"/proc/{monitor}/task/{monitor}/children") as f:
            init = int(f.read().split()[0])
        found.append((monitor, init))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            line = f.read()
            if line.startswith(stack.path("bin", "husk-launch").encode()):
                found.append((int(pid),))
    return [pid for pids in found for pid in pids]


def world(stack):
    """Everything a sandbox could leave behind, by kind, as sets of names."""
    def lines(*argv):
        return set(subprocess.run(argv, capture_output=True, text=True).stdout.splitlines())

    groups = {os.path.join(top, f) for top, folders, _ in os.walk("/sys/fs/cgroup") for f in folders if "husk" in f}
    kept = {os.path.join(top, f) for top, _, files in os.walk(stack.path("kp")) for f in files if "/ended" not in top}
    users = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid >= 200000:
                users.add(pid)
    with open(f"/proc/{stack.processes['keeper'].pid}/mountinfo") as f:
        mounts = {line.split()[4] for line in f}
    return {
        "processes of sandboxes": users, "control groups": groups, "files of the keeper": kept, "mounts of the keeper": mounts,
        "interfaces": set(os.listdir("/sys/class/net")),
        "images": set(os.listdir(stack.path("s-keeper", "images"))),
        "loop devices": {line for line in lines("losetup", "-l", "-n", "-O", "NAME,BACK-FILE") if stack.dir in line},
    }


def sandbox(b):
    """Starts in tier host against the stock kernelspec, in alternation; memory around a kernel; a hundred starts."""
    n = 6 if b.quick else 15
    sides = {}
    try:
        sides = {"ours": Side("host"), "stock": Side("none")}
        times = {name: [] for name in sides}
        for i in range(n + 1):
            for name, side in sides.items():
                taken = side.cold(f"s{i}")
                if i:  # the first fills the page cache
                    times[name].append(taken)
                side.close(f"s{i}")
        for at, label in ((0, "open, cold"), (1, "open and first execution, cold")):
            ours, stock = (sorted(t[at] for t in times[name])[n // 2] for name in ("ours", "stock"))
            b.add(f"{label} p50, tier host : stock kernelspec", ours, stock, "<= 1.1")

        host = sides["ours"]
        for i in range(4):
            host.cold(f"m{i}")
        around = around_kernels(host.stack)
        assert len(around) == 12, around
        b.add("memory around a kernel in tier host (PSS of shim, monitor, init)", sum(map(pss, around)) / 4, None, "<= 1", "MiB")
        for i in range(4):
            host.close(f"m{i}")
        took = [int(ms) for ms in re.findall(r"began as uid \d+ after (\d+) ms", host.stack.log("keeper"))]
        b.add("from the request for a sandbox to its interpreter p50", statistics.median(took), None)

        wait_until(lambda: not world(host.stack)["processes of sandboxes"], 20, "the end of all sandboxes")
        before = world(host.stack)
        for i in range(STARTS // 4):
            for k in range(4):
                assert host.call("POST", "/v1/sessions", {"session_id": f"x{i}-{k}"})[0] == 201
            for k in range(4):
                host.close(f"x{i}-{k}")

        def left():
            after = world(host.stack)
            return {kind: sorted(after[kind] - before[kind]) for kind in before if after[kind] - before[kind]}

        with contextlib.suppress(AssertionError):
            wait_until(lambda: not left(), 90, "nothing left", step=0.5)
        b.add(f"left behind by {STARTS} starts and stops in tier host", sum(map(len, left().values())), None, "<= 0", "things",
              note=json.dumps(left()) if left() else "")
    finally:
        for side in sides.values():
            side.stack.stop()
