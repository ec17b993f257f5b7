"""What a pass of the reaper is killed at, and what must hold after the next one."""
import concurrent.futures
import hashlib
import json
import os
import signal

from client import files_url
from kill_cases import HEARD, LIST, START, STARTED, STOP, STOPPED, Case, Close, Open
from kills import At, Past, Worker
from stack import wait_until

LONG_AGO_MS = 40 * 24 * 3600 * 1000


class Expiry(Case):
    kills = {
        "closing, kernel lives": At(STOP),
        "asked to end, no answer yet": At(HEARD, STOP),
        "kernel ended, row there": Past("recvfrom", STOPPED),
        "row gone, the rest of the pass not": At(LIST, STOPPED),
    }
    settings = {"SANDBOX_POOL_SIZE": "0"}

    def prepare(self, w, name):
        w.client.open(name)
        w.client.put(files_url(name, "f"), b"mine")
        self.handle = w.handle(name)
        w.settle()
        w.expire(name)

    def judge(self, w, name, answer):
        assert w.client.get(f"/v1/sessions/{name}").status == 404
        assert self.handle not in w.stack.kernels()
        assert w.stack.sql("SELECT reason FROM session_history WHERE name = ?", name) == [("expired",)]
        assert w.stack.sql("SELECT state FROM workspaces WHERE name = ?", name) == [("kept",)]
        assert w.client.open(name)["files_kept"] is True
        assert w.client.get(files_url(name, "f")).body == b"mine"
        w.works(name)


class Refill(Case):
    settings = {"SANDBOX_POOL_SIZE": "1"}
    kills = {
        "kernel not asked for": At(START),
        "asked for, no answer yet": At(HEARD, START),
        "between the gateway's answer and the row": Past("recvfrom", STARTED),
    }

    def prepare(self, w, name):
        w.settle()

    def judge(self, w, name, answer):
        pooled = [h for h, in w.stack.sql("SELECT handle FROM pool")]
        assert len(pooled) <= 1 and set(pooled) <= set(w.stack.kernels())
        w.works(name)


class GatewayRestarted(Case):
    settings = {"SANDBOX_POOL_SIZE": "0"}
    kills = {
        "list not asked for": At(LIST),
        "list heard, nothing asked by name": At(r"sendto\(.*GET /api/kernels/"),
        "a kernel known to be gone, its row there": Past("recvfrom", "HTTP/1.1 404"),
    }

    def prepare(self, w, name):
        for each in (name, name + "-b"):
            w.client.open(each)
            w.client.run(each, "x = 1; open('f', 'w').write('kept')")
        w.stack.stop_process("gateway", signal.SIGKILL)
        w.stack.start_gateway()

    def judge(self, w, name, answer):
        for each in (name, name + "-b"):
            assert w.stack.sql("SELECT state FROM sessions WHERE name = ?", each) == [("cold",)]
            assert w.handle(each) == ""
            result = w.client.run(each, "print('x' in globals(), open('f').read())")
            assert result["stdout"] == "False kept\n" and result["session"]["state_lost"] is True
            assert w.client.run(each, "1")["session"]["state_lost"] is False
            w.works(each)


class Orphan(Case):
    settings = {"SANDBOX_POOL_SIZE": "0"}
    kills = {"not ended": At(STOP), "ended, not noted": Past("recvfrom", STOPPED)}

    def prepare(self, w, name):
        status, body = w.stack.gateway_request("POST", "/api/kernels", json.dumps({"name": "docsgpt-python"}), 30)
        assert status == 201
        self.handle = json.loads(body)["id"]
        w.empty_pool()
        w.write("UPDATE orphans SET first_seen_boot_ms = 0 WHERE handle = ?", self.handle)

    def judge(self, w, name, answer):
        assert self.handle not in w.stack.kernels()
        w.stack.sweep(SANDBOX_POOL_SIZE="0")
        assert w.stack.sql("SELECT 1 FROM orphans WHERE handle = ?", self.handle) == []


class Bound(Case):
    """Kept workspaces over the bound: the oldest is dropped."""

    settings = {"SANDBOX_POOL_SIZE": "0", "SANDBOX_WORKSPACES_MAX_BYTES": "1MiB"}
    kills = {
        "nothing measured": Past("sendto", "GET /api/kernels HTTP"),
        "chosen, files there": At(r"renameat\("),
        "files half removed": At(r"unlinkat\(", r"unlinkat\(.*ENOTEMPTY"),
        "files removed, row there": Past("unlinkat", r"REMOVEDIR\) += 0"),
    }

    def dropped(self, w):
        return next(line for line in w.client.get("/metrics").text.splitlines()
                    if line.startswith("husk_workspaces_dropped_total "))

    def prepare(self, w, name):
        self.names = [name + "-old", name + "-new"]
        for each in self.names:
            w.client.open(each)
            w.client.put(files_url(each, "f"), os.urandom(700_000))
        self.folders = [w.folder(each) for each in self.names]
        w.expire(*self.names)
        w.stack.sweep(SANDBOX_POOL_SIZE="0")
        w.write("UPDATE workspaces SET kept_bytes = NULL WHERE state = 'kept'")
        w.write("UPDATE workspaces SET kept_since = kept_since - 60000 WHERE name = ?", self.names[0])
        self.before = int(self.dropped(w).split()[1])

    def judge(self, w, name, answer):
        assert w.stack.sql("SELECT name FROM workspaces WHERE state = 'kept'") == [(self.names[1],)]
        assert w.stack.sql("SELECT name FROM workspaces WHERE state = 'doomed'") == []
        assert [os.path.exists(f) for f in self.folders] == [False, True]
        assert int(self.dropped(w).split()[1]) == self.before + 1
        assert [w.works(each)["files_kept"] for each in self.names] == [False, True]


class Retention(Case):
    """What has been kept for as long as the settings say: files, events, history."""

    settings = {"SANDBOX_POOL_SIZE": "0"}
    kills = {
        "files there": At(r"renameat\("),
        "files removed, row there": Past("unlinkat", r"REMOVEDIR\) += 0"),
        "events there": At(r"unlink\(.*\.events"),
        "events removed, history there": Past("unlink", "events"),
    }

    def prepare(self, w, name):
        w.client.open(name)
        w.client.run(name, "print('said'); open('f', 'w')")
        self.folder = w.folder(name)
        w.expire(name)
        w.stack.sweep(SANDBOX_POOL_SIZE="0")
        w.write("UPDATE workspaces SET kept_since = kept_since - ? WHERE name = ?", LONG_AGO_MS, name)
        w.write("UPDATE executions SET ended_at = ended_at - ? WHERE session_name = ?", LONG_AGO_MS, name)
        w.write("UPDATE session_history SET ended_at = ended_at - ? WHERE name = ?", LONG_AGO_MS, name)

    def judge(self, w, name, answer):
        assert not os.path.exists(self.folder)
        for table, column in (("workspaces", "name"), ("session_history", "name"), ("executions", "session_name")):
            assert w.stack.sql(f"SELECT count(*) FROM {table} WHERE {column} = ?", name) == [(0,)], table
        assert w.left_spools() == set()
        assert w.works(name)["files_kept"] is False


class Contents(Case):
    """Contents without a row, and one that has it and is as old."""

    settings = {"SANDBOX_POOL_SIZE": "0"}
    kills = {
        "nothing removed": At(r"unlinkat\(.*\.tmp-"),
        "the half written one removed": At(r"unlinkat\(", r"unlinkat\(.*\.tmp-"),
        "one removed": At(r"unlinkat\(", r"unlinkat\(.*/"),
    }

    def prepare(self, w, name):
        w.client.open(name)
        answer = w.client.post("/v1/exec", {"session_id": name, "persist": True, "outputs": ["k"],
                                            "code": f"open('k', 'w').write({name!r});"}).json()
        self.artifact = answer["artifacts"][0]
        folder = w.stack.path("s", "artifacts")
        digest = self.artifact["sha256"]
        paths = [os.path.join(folder, digest[:2], digest[2:]), os.path.join(folder, ".tmp-" + "a" * 32)]
        for text in ("one", "two"):
            digest = hashlib.sha256((name + text).encode()).hexdigest()
            os.makedirs(os.path.join(folder, digest[:2]), exist_ok=True)
            os.chown(os.path.join(folder, digest[:2]), os.stat(folder).st_uid, -1)
            paths.append(os.path.join(folder, digest[:2], digest[2:]))
        for path in paths:
            with open(path, "a"):
                w.age(path)

    def judge(self, w, name, answer):
        assert w.blobs() == ({self.artifact["sha256"]}, [])
        url = "/v1/artifacts/" + self.artifact["artifact_id"]
        assert w.client.get(url + "/versions/1/content").text == name
        assert w.client.delete(url).status == 204
        w.works(name)


class Leavings(Case):
    """What workers left that were killed in mid-run, in mid-open and in mid-close."""

    settings = {"SANDBOX_POOL_SIZE": "0"}
    kills = {
        "the run not interrupted": At(r"sendto\(.*interrupt"),
        "interrupted, not recorded": Past("sendto", "interrupt"),
        "kernel of the close lives": At(STOP),
        "kernel ended, row closing": Past("recvfrom", STOPPED),
        "closed, the other still opening": At(LIST, STOPPED),
    }

    def prepare(self, w, name):
        w.empty_pool()
        busy, closing, opening = self.names = [f"{name}-{what}" for what in ("busy", "closing", "opening")]
        w.client.open(busy)
        w.client.open(closing)
        self.die(w, Open(), At(START), opening)
        self.die(w, Close(), At(STOP), closing)
        pid, = w.stack.workers("exec")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            run = pool.submit(w.attempt, "POST", f"/v1/sessions/{busy}/exec",
                              json_body={"code": "import time; time.sleep(30)", "timeout": 40})
            wait_until(lambda: w.state(busy) == "busy", 15, "busy")
            os.kill(pid, signal.SIGKILL)
            assert run.result() is None
        wait_until(lambda: w.stack.workers("exec") not in ([], [pid]), 15, "a new worker")
        self.handle = w.handle(closing)
        assert {s for s, in w.stack.sql("SELECT state FROM sessions WHERE name LIKE ?", name + "-%")} == {
            "busy", "closing", "opening"}

    def die(self, w, case, kill, name):
        """The worker is killed at the first such call; a request of another kind counts none before it."""
        call = kill.pattern.partition("\\(")[0]
        _, _, killed = Worker(w.stack, case.lane).run(lambda: case.act(w, name), (call, 1))
        assert killed

    def judge(self, w, name, answer):
        busy, closing, opening = self.names
        assert w.state(busy) == "ready"
        rows = w.client.get(f"/v1/sessions/{busy}/executions").json()["executions"]
        assert [r["reason"] for r in rows] == ["aborted"]
        assert w.state(closing) is None and w.state(opening) is None
        assert self.handle not in w.stack.kernels()
        for each in self.names:
            w.works(each)


class Quarantined(Case):
    """A kernel whose end the gateway did not confirm."""

    settings = {"SANDBOX_POOL_SIZE": "0"}
    kills = {"not tried": At(STOP), "ended, row there": Past("recvfrom", STOPPED)}

    def prepare(self, w, name):
        w.client.open(name)
        self.handle = w.handle(name)
        gateway = w.stack.processes["gateway"]
        gateway.send_signal(signal.SIGSTOP)
        try:
            assert w.client.delete(f"/v1/sessions/{name}").status == 204
        finally:
            gateway.send_signal(signal.SIGCONT)
        w.stack.kernels()
        # as it is when its DELETE has not arrived either: another kernel in its place
        status, body = w.stack.gateway_request("POST", "/api/kernels", json.dumps({"name": "docsgpt-python"}), 30)
        assert status == 201
        self.handle = json.loads(body)["id"]
        w.write("UPDATE runtimes SET next_try_boot_ms = 0, handle = ? WHERE name = ? AND state = 'quarantined'",
                self.handle, name)

    def judge(self, w, name, answer):
        assert self.handle not in w.stack.kernels()
        assert w.stack.sql("SELECT 1 FROM runtimes WHERE name = ?", name) == []
        w.works(name)
