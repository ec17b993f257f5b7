"""What the stand-in knows: its sandboxes with their states, its switches, and what was asked of it."""
import asyncio
import collections
import contextlib
import time
import uuid

from daytona.box import Box, stamp

SANDBOXES = 500  # live ones at once
CALLS = 20000  # remembered
HANG = 600  # seconds a hung call is kept open at most

STATES = ("creating", "restoring", "destroyed", "destroying", "started", "stopped", "starting", "stopping", "error",
          "build_failed", "pending_build", "building_snapshot", "unknown", "pulling_snapshot", "archived", "archiving",
          "resizing", "snapshotting", "forking", "pausing", "paused", "resuming")

# kind of call: where it belongs ("api" or "toolbox")
KINDS = {**dict.fromkeys(("create", "get", "list", "start", "stop", "delete", "labels", "autostop", "autodelete", "activity",
                          "proxy_url"), "api"),
         **dict.fromkeys(("code_run", "execute", "interpreter", "context", "folder", "bulk_upload", "upload_v2", "upload",
                          "download", "bulk_download", "info", "list_files", "delete_file", "move", "permissions", "dir"),
                         "toolbox")}

SWITCHES = {
    "slow": {},            # kind: milliseconds before the call is looked at
    "hang": {},            # kind: so many next calls are accepted and never answered (-1: all)
    "fail": {},            # kind: [status, so many next calls]
    "redirect": {},        # kind: so many next calls get a 302 to /_elsewhere
    "garbage": {},         # kind: so many next calls get a page of HTML with status 200
    "drop": {},            # kind: so many next calls are cut off unanswered
    "lose": {},            # kind: so many next calls are done, but their answer never comes
    "cut": {},             # kind (download): so many next bodies end half-way
    "uploads": ["bulk-upload", "upload-v2", "upload"],  # which upload calls there are
    "interpreter": True,   # whether there is an interpreter
    "proxy_url": True,     # whether a sandbox names its toolbox
    "ranges": True,        # whether a download knows Range
    "depth": True,         # whether a list of files knows depth
    "create_ms": 0, "start_ms": 0, "stop_ms": 0, "delete_ms": 0,  # how long a change of state takes
    "create_state": "started",  # in what state a new sandbox ends ("error", …)
    "minute_ms": 60000,    # how long a minute of auto-stop and auto-delete takes
    "slow_reader_ms": 5000,  # after which a socket that does not take its output is closed
    "on_disconnect": "continue",  # or "interrupt": code whose socket is gone
    "quota": SANDBOXES,    # live sandboxes allowed
}


class Sandbox:
    def __init__(self, request, url):
        self.id = str(uuid.uuid4())
        self.name = request.get("name") or self.id
        self.snapshot = request.get("snapshot") or "daytonaio/sandbox:latest"
        self.env = request.get("env") or {}
        self.labels = request.get("labels") or {}
        self.target = request.get("target") or "us"
        self.auto_stop = request.get("autoStopInterval", 15)
        self.auto_delete = request.get("autoDeleteInterval", -1)
        self.url = url
        self.created = self.updated = time.time()
        self.active = time.monotonic()
        self.stopped_at = None
        self.state, self.reason = "creating", None
        self.box = Box(self.id, self.env)
        self.change = asyncio.Lock()

    def move(self, state):
        self.state, self.updated = state, time.time()
        self.stopped_at = time.monotonic() if state == "stopped" else None

    def shown(self, with_url, item=False):
        seen = {
            "id": self.id, "organizationId": "organization-1", "name": self.name, "snapshot": self.snapshot,
            "user": "daytona", "env": self.env, "labels": self.labels, "public": False, "networkBlockAll": False,
            "target": self.target, "cpu": 1, "gpu": 0, "memory": 1, "disk": 3, "state": self.state,
            "desiredState": {"destroying": "destroyed", "stopping": "stopped"}.get(self.state, self.state),
            "autoStopInterval": self.auto_stop, "autoDeleteInterval": self.auto_delete, "autoArchiveInterval": 10080,
            "createdAt": stamp(self.created), "updatedAt": stamp(self.updated), "lastActivityAt": stamp(self.updated),
            "sandboxClass": "linux-vm", "daemonVersion": "0.190.0",
        }
        if self.reason:
            seen["errorReason"] = self.reason
        if with_url:
            seen["toolboxProxyUrl"] = self.url
        if item:
            del seen["env"]
        return seen


class State:
    def __init__(self, key):
        self.key = key
        self.sandboxes = {}
        self.created = 0
        self.calls = collections.deque(maxlen=CALLS)
        self.counts = collections.Counter()
        self.elsewhere = []  # what followed a redirect: [path, had the key]
        self.refused = 0  # calls without the key
        self.tasks = set()
        self.reset()

    def reset(self):
        self.switches = {k: v.copy() if isinstance(v, (dict, list)) else v for k, v in SWITCHES.items()}

    def set(self, switches):
        for name, value in switches.items():
            if name not in SWITCHES or not isinstance(value, type(SWITCHES[name])):
                raise ValueError(f"no such switch, or not its kind of value: {name}")
            if isinstance(value, dict):
                unknown = set(value) - set(KINDS) - {"*", "api", "toolbox"}
                if unknown:
                    raise ValueError(f"{name}: no such kind of call: {sorted(unknown)}")
            self.switches[name] = value

    def switch(self, name, kind):
        """A switch's value for a kind of call, by name, by place, or for all."""
        table = self.switches[name]
        return next((table[k] for k in (kind, KINDS[kind], "*") if k in table), None)

    def take(self, name, kind):
        """Counts a switch down for a kind of call; its value, or None where it is not (or no longer) on."""
        table = self.switches[name]
        for key in (kind, KINDS[kind], "*"):
            value = table.get(key)
            left = value[1] if isinstance(value, list) else value
            if not left:
                continue
            if left > 0:
                table[key] = [value[0], left - 1] if isinstance(value, list) else left - 1
            return value
        return None

    def called(self, kind, method, path):
        call = {"at": time.time(), "kind": kind, "method": method, "path": path[:500], "status": None}
        self.calls.append(call)
        self.counts[kind] += 1
        return call

    # sandboxes

    def alive(self):
        return [s for s in self.sandboxes.values() if s.state != "destroyed"]

    def find(self, ident):
        sandbox = self.sandboxes.get(ident)
        return sandbox or next((s for s in self.sandboxes.values() if s.name == ident), None)

    def _later(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _then(self, name, work):
        """Does work at once, or after the switch's time without the caller."""
        delay = self.switches[name] / 1000
        if not delay:
            await work()
            return

        async def wait():
            await asyncio.sleep(delay)
            await work()
        self._later(wait())

    async def create(self, request, url):
        sandbox = Sandbox(request, url)
        self.sandboxes[sandbox.id] = sandbox
        self.created += 1
        await self._then("create_ms", lambda: self._started(sandbox, "creating", self.switches["create_state"]))
        return sandbox

    async def _started(self, sandbox, state_before, state="started"):
        async with sandbox.change:
            if sandbox.state != state_before:
                return
            if state == "started":
                await sandbox.box.start()
            else:
                sandbox.reason = "made to fail"
            sandbox.active = time.monotonic()
            sandbox.move(state)

    async def start(self, sandbox):
        sandbox.move("starting")
        await self._then("start_ms", lambda: self._started(sandbox, "starting"))

    async def _stopped(self, sandbox):
        async with sandbox.change:
            if sandbox.state == "stopping":
                await sandbox.box.stop()
                sandbox.move("stopped")

    async def stop(self, sandbox):
        sandbox.move("stopping")
        await self._then("stop_ms", lambda: self._stopped(sandbox))

    async def _destroyed(self, sandbox):
        async with sandbox.change:
            await sandbox.box.destroy()
            sandbox.move("destroyed")
            self.sandboxes.pop(sandbox.id, None)

    async def delete(self, sandbox):
        sandbox.move("destroying")
        await self._then("delete_ms", lambda: self._destroyed(sandbox))

    async def force(self, sandbox, state):
        """Puts a sandbox into a state as if it had happened of itself."""
        async with sandbox.change:
            if state == "started" and sandbox.box.init is None:
                await sandbox.box.start()
            elif state != "started":
                await sandbox.box.stop()
            sandbox.move(state)

    async def automatic(self):
        """Auto-stop and auto-delete, by the intervals of each sandbox."""
        while True:
            await asyncio.sleep(0.1)
            minute, now = self.switches["minute_ms"] / 1000, time.monotonic()
            for sandbox in list(self.sandboxes.values()):
                if sandbox.state == "started" and sandbox.auto_stop > 0 and now - sandbox.active > sandbox.auto_stop * minute:
                    await self.stop(sandbox)
                elif sandbox.state == "stopped" and sandbox.auto_delete >= 0 \
                        and now - sandbox.stopped_at > sandbox.auto_delete * minute:
                    await self.delete(sandbox)

    async def end(self):
        for sandbox in list(self.sandboxes.values()):
            with contextlib.suppress(Exception):
                await sandbox.box.destroy()
