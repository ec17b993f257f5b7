"""What a worker is killed at, and what must hold afterwards; those of the reaper are in kill_cases_reaper.py."""
import contextlib
import hashlib
import os
import shutil
import sqlite3
import time

from client import files_url
from kills import At, Past, Reaper, TRIES, Worker
from stack import SOURCE, Stack, wait_until

ANSWER, START, STOP = r"sendmsg\(.*Status: ", r"sendto\(.*POST /api/kernels", r"sendto\(.*DELETE /api/kernels"
LIST, WRITE, HEARD = r"sendto\(.*GET /api/kernels HTTP", r"pwrite64\(", r"recvfrom\("
STARTED, STOPPED, ASKED = r"HTTP/1.1 201", r"HTTP/1.1 204", r"accept4\("


class PlainStack(Stack):
    """With a gateway whose kernels are plain Pythons that start at once, as very many are started.

    HUSK_TEST_GATEWAY names another.
    """

    def start_gateway(self):
        if "HUSK_TEST_GATEWAY" in os.environ:
            return super().start_gateway()
        program = shutil.copy2(os.path.join(SOURCE, "tests", "bench", "many_kernels"), self.path("many_kernels"))
        self._spawn("gateway", ["/usr/bin/python3", program, str(self.gateway_port), "--run"], "husk-kernel")
        return wait_until(self.gateway_answers, 60, "the gateway")


class World:
    """The stack, a client, and what the cases look at and set up from outside."""

    def __init__(self, stack, client):
        self.stack, self.client = stack, client

    def attempt(self, method, path, body=None, json_body=None, headers=None):
        """The answer, or None if whoever was to give it died."""
        answer = self.client.request(method, path, body, headers, json_body, check=False)
        if answer.status in (502, 504):
            assert answer.code in ("worker_lost", "gateway_timeout"), answer
            return None
        return answer

    def write(self, query, *args):
        """Moves what the database knows into the past: nobody waits for that in a test."""
        with contextlib.closing(sqlite3.connect(self.stack.path("s", "husk.db"), timeout=10)) as database, database:
            database.execute(query, args)

    def state(self, name):
        """By the row: an answer would tell what is told once."""
        rows = self.stack.sql("SELECT state FROM sessions WHERE name = ?", name)
        return rows[0][0] if rows else None

    def handle(self, name):
        rows = self.stack.sql("SELECT r.handle FROM runtimes r JOIN sessions s USING (sid) WHERE s.name = ?", name)
        assert len(rows) <= 1, (name, rows)
        return rows[0][0] if rows else ""

    def folder(self, name):
        """Where the files of a session are, or of one that was."""
        (number,), = self.stack.sql("SELECT workspace_id FROM workspaces WHERE name = ? AND state <> 'doomed'", name)
        return self.stack.path("s", "workspaces", f"{number & (1 << 64) - 1:016x}")

    def empty_pool(self):
        self.stack.sweep(SANDBOX_POOL_SIZE="0")

    def settle(self):
        """What whoever was killed may have asked for counts until it has had the time to show: that is over."""
        self.empty_pool()
        self.write("UPDATE orphans SET first_seen_boot_ms = 0")
        self.write("UPDATE runtimes SET created_at = created_at - 600000 WHERE state = 'starting' AND sid IS NULL")
        self.empty_pool()

    def fill_pool(self):
        self.settle()
        self.stack.sweep(SANDBOX_POOL_SIZE="1")
        assert self.stack.sql("SELECT count(*) FROM pool") == [(1,)]

    def expire(self, *names):
        """The sessions' TTL is over; their next sweep is still to come."""
        for name in names:
            self.write("UPDATE sessions SET last_work_boot_ms = last_work_boot_ms - ttl_ms WHERE name = ?", name)

    def age(self, path, seconds=3600):
        os.utime(path, (time.time() - seconds,) * 2)

    def works(self, name):
        """Opened if need be it runs code; its DELETE then leaves neither kernel nor files."""
        opened = self.client.open(name)
        assert self.client.run(name, "print('works')")["stdout"] == "works\n"
        self.ends(name)
        return opened

    def ends(self, name):
        handle, folder = self.handle(name), self.folder(name)
        assert self.client.delete(f"/v1/sessions/{name}").status == 204
        assert self.client.get(f"/v1/sessions/{name}").status == 404
        assert handle not in self.stack.kernels() and not os.path.exists(folder)

    def blobs(self):
        """Digests of the contents on the disk, and other names there."""
        contents, others = set(), []
        for folder, _, names in os.walk(self.stack.path("s", "artifacts")):
            for name in names:
                digest = os.path.basename(folder) + name
                (contents.add if len(digest) == 64 else others.append)(digest)
        return contents, others

    def left_spools(self):
        """Files of events that belong to no run."""
        known = {e for e, in self.stack.sql("SELECT eid FROM executions WHERE spool_pruned = 0")}
        return {f.partition(".")[0] for f in os.listdir(self.stack.path("s", "spool"))} - known



class Case:
    """lane: whose worker is followed; without one it is a pass of the reaper, with `settings` of its own."""

    lane = None
    settings = {}
    kills = {}

    def prepare(self, w, name):
        pass

    def act(self, w, name):
        """What is asked of the worker; its answer, None if it died."""

    def judge(self, w, name, answer):
        """After the death: the worker's successor is there, or another pass of the reaper is over."""
        raise NotImplementedError

    # the sweep

    def strike(self, w, name, kill=None):
        """Returns (the calls, killed?) and judges what came of it."""
        self.prepare(w, name)
        target = Worker(w.stack, self.lane) if self.lane else Reaper(w.stack, **self.settings)
        answer, told, killed = target.run(lambda: self.act(w, name), kill)
        assert not (killed and kill is None), "it died by itself"
        if self.lane:
            assert killed or answer is not None
        w.stack.sweep(**{"SANDBOX_POOL_SIZE": "0", **self.settings})
        self.judge(w, name, answer)
        return told, killed

    def strike_named(self, w, name, told, kill):
        """How many calls there are before it differs a little from run to run: again, with what was seen."""
        point = kill
        if isinstance(kill, At):
            point = kill.found(told)
            assert point, f"an undisturbed run has no such call: {kill}"
        for i in range(TRIES):
            told, killed = self.strike(w, f"{name}-{i}", point)
            if isinstance(kill, Past):
                if killed and kill.was_hit(told):
                    return
                continue
            now = kill.found(told)
            if killed and now == point and told[-1][:2] == point:
                return
            point = now or (point[0], point[1] + 1)  # too late, too early
        raise AssertionError(f"never killed at {kill}")


class Open(Case):
    lane = "api"
    kills = {
        "before there is a row": At(WRITE, ASKED),
        "row written, kernel not asked for": At(START),
        "asked for, no answer yet": At(HEARD, START),
        "between the gateway's answer and the row": Past("recvfrom", STARTED),
        "all done, not answered": At(ANSWER),
    }

    def prepare(self, w, name):
        w.empty_pool()

    def act(self, w, name):
        return w.attempt("POST", "/v1/sessions", json_body={"session_id": name})

    def judge(self, w, name, answer):
        if answer is not None:
            assert answer.status == 201, answer
            assert w.client.run(name, "print(1)")["session"]["state_lost"] is False
        else:
            assert w.state(name) in ("ready", None)
        w.works(name)


class OpenFromPool(Open):
    kills = {
        "before there is a row": At(WRITE, ASKED),
        "claimed, not looked at": At(r"sendto\(.*GET /api/kernels/"),
        "looked at, not noted": Past("sendto", "GET /api/kernels/"),
        "all done, not answered": At(ANSWER),
    }

    def prepare(self, w, name):
        w.fill_pool()

    def judge(self, w, name, answer):
        pooled = {h for h, in w.stack.sql("SELECT handle FROM pool")}
        assert w.handle(name) not in pooled  # handed out once
        super().judge(w, name, answer)


class Execute(Case):
    lane = "exec"
    kills = {
        "before there is a row": At(WRITE, ASKED),
        "row written, code not sent": At(r"sendto\(", WRITE),
        "code sent, nothing heard": At(HEARD, r"openat\(.*\.events"),
        "between result and row": Past("pwritev", r"SPL1\\377"),
        "all done, not answered": At(ANSWER),
    }
    code = "open('log', 'a').write('ran\\n'); print('ran')"
    loses = False

    def prepare(self, w, name):
        w.client.open(name)
        w.client.run(name, "x = 41")

    def act(self, w, name):
        return w.attempt("POST", f"/v1/sessions/{name}/exec", json_body={"code": self.code, "timeout": 20},
                         headers={"Idempotency-Key": name})

    def judge(self, w, name, answer):
        assert w.state(name) in ("ready", "cold")
        told = [answer.json()] if answer is not None else []
        again = w.client.post(f"/v1/sessions/{name}/exec", {"code": self.code, "timeout": 20},
                              headers={"Idempotency-Key": name})
        assert again.status == 200, again
        told.append(again.json())
        last = w.client.run(name, "print('x' in globals())")
        log = w.client.get(files_url(name, "log"))
        ran = len(log.text.split()) if log.status == 200 else 0
        assert {t["execution_id"] for t in told} == {told[0]["execution_id"]}
        assert [t["reason"] for t in told] in (["completed"] * len(told), ["aborted"])
        assert ran == 1 or (ran == 0 and told[0]["reason"] == "aborted")
        assert told[0]["reason"] == "aborted" or {t["stdout"] for t in told} == {"ran\n"}
        rows = w.client.get(f"/v1/sessions/{name}/executions").json()["executions"]
        assert [r["execution_id"] for r in rows].count(told[0]["execution_id"]) == 1 and len(rows) == 3 and all(
            r["reason"] for r in rows)
        lost = [t["session"]["state_lost"] for t in told + [last] if t.get("session")]
        assert last["stdout"] == f"{not any(lost)}\n" and (any(lost) or not self.loses), (lost, last)
        w.works(name)


class ExecuteAfterLoss(Execute):
    """The session's kernel is gone: its next code needs another."""

    kills = {
        "kernel not asked for": At(START),
        "between the gateway's answer and the row": Past("recvfrom", STARTED),
        "between result and row": Past("pwritev", r"SPL1\\377"),
    }
    loses = True

    def prepare(self, w, name):
        super().prepare(w, name)
        assert w.stack.gateway_request("DELETE", "/api/kernels/" + w.handle(name))[0] == 204
        w.empty_pool()
        wait_until(lambda: w.stack.sql("SELECT state FROM sessions WHERE name = ?", name) == [("cold",)], 5, "cold")


class Upload(Case):
    lane = "bulk"
    old, new = b"old" * 1000, bytes(range(256)) * 4096
    headers = {}
    kills = {
        "in the middle": At(r"write\(", r"write\("),
        "whole, without a name": At(r"linkat\("),
        "beside the old one": At(r"renameat\("),
        "in place, not answered": At(ANSWER),
    }

    def prepare(self, w, name):
        w.client.open(name)
        w.client.put(files_url(name, "f"), self.old)

    def act(self, w, name):
        return w.attempt("PUT", files_url(name, "f"), self.new, headers=self.headers)

    def judge(self, w, name, answer):
        there = w.client.get(files_url(name, "f")).body
        assert there == self.new or (there == self.old and answer is None)
        assert w.client.file_names(name) == ["f"] and os.listdir(w.folder(name)) == ["f"]
        assert w.client.put(files_url(name, "f"), self.old).status == 200
        assert w.client.get(files_url(name, "f")).body == self.old
        w.works(name)


class UploadNew(Upload):
    headers = {"If-None-Match": "*"}
    kills = {
        "named beside its place": At(r"linkat\(", r"linkat\("),
        "in place, and beside it": At(r"unlinkat\("),
    }

    def prepare(self, w, name):
        w.client.open(name)

    def judge(self, w, name, answer):
        if answer is None and w.client.file_names(name) == []:
            assert os.listdir(w.folder(name)) == []
            w.works(name)
        else:
            super().judge(w, name, answer)


class Capture(Case):
    lane = "exec"
    kills = {
        "content written, not on disk": At(r"fsync\("),
        "on disk, without its name": At(r"renameat\("),
        "between content and row": Past("renameat", " = 0"),
        "row written, result not": At(r"pwritev\(", r"fdatasync\("),
        "all done, not answered": At(ANSWER),
    }

    def text(self, name):
        return f"kept of {name}"

    def prepare(self, w, name):
        w.client.open(name)

    def act(self, w, name):
        return w.attempt("POST", "/v1/exec", json_body={
            "session_id": name, "persist": True, "outputs": ["*.txt"],
            "code": f"open('o.txt', 'w').write({self.text(name)!r});"})

    def judge(self, w, name, answer):
        if answer is not None:
            assert [a["version"] for a in answer.json()["artifacts"]] == [1], answer
        contents, others = w.blobs()
        for digest in contents:
            w.age(w.stack.path("s", "artifacts", digest[:2], digest[2:]))
        for other in others:
            w.age(w.stack.path("s", "artifacts", other.removeprefix("artifacts")))
        w.stack.sweep(SANDBOX_POOL_SIZE="0")
        again = self.act(w, name).json()
        assert [(a["ref"], a["version"]) for a in again["artifacts"]] == [("A1", 1)], again
        rows = w.client.get(f"/v1/artifacts?session_id={name}").json()["artifacts"]
        assert [r["version"] for r in rows] == [1]
        content = w.client.get(f"/v1/artifacts/{rows[0]['artifact_id']}/versions/1/content")
        assert content.text == self.text(name)
        assert w.blobs() == ({hashlib.sha256(self.text(name).encode()).hexdigest()}, [])
        assert w.client.delete("/v1/artifacts/" + rows[0]["artifact_id"]).status == 204
        assert w.blobs() == (set(), [])
        w.works(name)


class OneCall(Case):
    """Opened for one run and closed after it."""

    lane = "exec"
    kills = {
        "between the gateway's answer and the row": Past("recvfrom", STARTED),
        "run, not closed": At(STOP),
        "closed, not answered": At(ANSWER),
    }

    def prepare(self, w, name):
        w.empty_pool()
        self.before = {s["session_id"] for s in w.client.get("/v1/sessions").json()["sessions"]}

    def act(self, w, name):
        return w.attempt("POST", "/v1/exec", json_body={"code": "print('once')"})

    def judge(self, w, name, answer):
        left = [s for s in w.client.get("/v1/sessions").json()["sessions"] if s["session_id"] not in self.before]
        assert not left or answer is None
        assert [s["ttl"] for s in left] in ([], [60])
        for session in left:
            w.ends(session["session_id"])


class Close(Case):
    lane = "api"
    kills = {
        "before it is closing": At(WRITE, ASKED),
        "closing, kernel lives": At(STOP),
        "asked to end, no answer yet": At(HEARD, STOP),
        "kernel ended, files there": At(r"renameat\(", STOPPED),
        "files half removed": At(r"unlinkat\(", r"unlinkat\(.*ENOTEMPTY"),
        "files removed, row there": Past("unlinkat", r"REMOVEDIR\) += 0"),
        "row gone, not answered": At(ANSWER),
    }

    def prepare(self, w, name):
        w.client.open(name)
        w.client.put(files_url(name, "a/f"), b"mine")
        w.client.put(files_url(name, "g"), b"mine")
        self.handle, self.folder = w.handle(name), w.folder(name)

    def act(self, w, name):
        return w.attempt("DELETE", f"/v1/sessions/{name}")

    def judge(self, w, name, answer):
        if answer is not None or w.state(name) is None:
            assert answer is None or answer.status in (202, 204), answer
        else:  # as if it had not been asked for
            assert w.client.run(name, "print(open('a/f').read())")["stdout"] == "mine\n"
            w.ends(name)
        assert self.handle not in w.stack.kernels() and not os.path.exists(self.folder)
        history = w.stack.sql("SELECT reason FROM session_history WHERE name = ?", name)
        assert history == [("closed",)]
        assert w.works(name)["files_kept"] is False


class Restart(Case):
    lane = "api"
    kills = {
        "kernel lives": At(STOP),
        "kernel ended, row as before": Past("recvfrom", STOPPED),
        "kernel not asked for": At(START),
        "between the gateway's answer and the row": Past("recvfrom", STARTED),
        "all done, not answered": At(ANSWER),
    }

    def prepare(self, w, name):
        w.empty_pool()
        w.client.open(name)
        w.client.run(name, "x = 1; open('f', 'w').write('kept')")

    def act(self, w, name):
        return w.attempt("POST", f"/v1/sessions/{name}/restart")

    def judge(self, w, name, answer):
        assert answer is None or answer.status == 200, answer
        look = w.client.get(f"/v1/sessions/{name}").json()
        result = w.client.run(name, "print('x' in globals(), open('f').read())")
        kept = result["stdout"] == "True kept\n"
        assert kept or result["stdout"] == "False kept\n"
        lost = look["state_lost"] or result["session"]["state_lost"]
        # what nobody was told to be restarted is told to be lost, unless it was restarted as asked
        assert not (kept and (lost or answer is not None)), (look, result)
        assert w.client.run(name, "1")["session"]["state_lost"] is False
        w.works(name)
