"""Clients that know what they were promised: each drives some sessions and keeps a model of them."""
import collections
import contextlib
import http.client
import json
import random
import sqlite3
import threading
import time

LOG = "ran.log"  # every cell appends its id to it first
CODE = """with open('{log}', 'a') as f:
    f.write('{uid}\\n')
import time
time.sleep({sleep})
try:
    mine
except NameError:
    mine = None
print('{uid}', mine, flush=True)
mine = '{nonce}'
"""
STEPS = {"run": 6, "move": 1, "put": 3, "get": 3, "remove": 1, "look": 1, "list": 0.5, "restart": 0.4, "close": 0.5, "rest": 0.3}
WITH_KEY = 0.3  # of the runs carry an Idempotency-Key and are sent again when no answer comes
STREAMED = 0.3  # of the runs are followed as an event stream
# Refusals of a run after which it may have begun all the same (docs/errors.md).
PERHAPS_RAN = ("worker_lost", "gateway_timeout", "duplicate_request")
SURVIVABLE = ("expired", "evicted", "lost")  # ends of a session that its client did not ask for


class Slot:
    """One session a client drives: under which name, what it was promised, what it must hold."""

    def __init__(self, index, owner, client, ttl):
        self.index, self.owner, self.client, self.ttl = index, owner, client, ttl
        self.lives = 0
        self.runs = {}  # execution id: (session's name, reason), of every acknowledged one
        self.begin(False)

    def begin(self, same_name):
        """Another session with no files, under a new name unless asked otherwise."""
        self.lives += 1
        if not same_name:
            self.name = f"s{self.index}-{self.lives}"
        self.nonce = f"n{self.index}.{self.lives}"
        self.state = "none"  # none | unsure (an open without an answer) | open | ending (a DELETE was sent)
        self.opened_ms = 0
        self.knows = False  # whether the kernel must know its nonce; None: either way
        self.files = {}  # path: the set of contents it may have, None for no file
        self.tainted = set()  # paths that an unanswered request may still write
        self.tries = {}  # id of a cell: ("ran" | "refused" | "unknown", request id)

    @property
    def url(self):
        return f"/v1/sessions/{self.name}"


class Driver(threading.Thread):
    def __init__(self, index, seed, slots, stack, findings):
        super().__init__(daemon=True)
        self.random = random.Random(f"{seed}:client:{index}")
        self.slots, self.stack, self.findings = slots, stack, findings
        self.stop = threading.Event()
        self.asked = self.unanswered = self.counter = 0
        self.codes = collections.Counter()

    def run(self):
        while not self.stop.is_set():
            slot = self.random.choice(self.slots)
            step = self.random.choices(list(STEPS), STEPS.values())[0]
            try:
                if slot.state == "open":
                    getattr(self, "step_" + step)(slot)
                else:
                    self.open(slot)
            except Exception as e:  # a client that ended would leave its sessions unchecked
                self.findings.add("answers", f"{slot.name}: {step}: {type(e).__name__}: {e}")

    # asking

    def ask(self, slot, method, path, **kw):
        """An answer, or None where the connection ended without one."""
        self.asked += 1
        try:
            answer = slot.client.request(method, path, **kw)
        except (OSError, http.client.HTTPException):
            self.unanswered += 1
            self.codes["without an answer"] += 1
            return None
        if answer.status < 400:
            self.codes[str(answer.status)] += 1
        if answer.status >= 500:
            self.unanswered += 1
            if b"locked" in answer.body:
                self.findings.add("locked", f"{method} {path}: {answer}")
            if answer.status == 500:
                self.findings.add("answers", f"{method} {path}: {answer}")
        if answer.status >= 400:
            self.codes[answer.code] += 1
            if answer.status == 404 and answer.code == "session_not_found" and slot.state == "open":
                self.gone(slot)
        return answer

    @staticmethod
    def acknowledged(answer):
        return answer is not None and 200 <= answer.status < 300

    def seen(self, slot, session):
        """A session object of an answer: the news that state was lost is told once."""
        if session.get("state_lost"):
            slot.knows = None
        if session["session_id"] != slot.name or session["owner"] != slot.owner:
            self.findings.add("outputs", f"{slot.name} was answered with {session['session_id']}")

    def gone(self, slot):
        """An acknowledged session is not there: its history has to say why."""
        slot.state = "none"
        slot.knows = False
        if not self.survived(slot):
            self.findings.add("sessions", f"{slot.name} is gone, its history says {self.history(slot)}")

    def survived(self, slot):
        """Did it end, or is it ending, in a way that its client did not ask for but may meet?"""
        # in this order: it may be swept between the two looks
        return self.ending(slot) or bool(set(self.history(slot)) & set(SURVIVABLE))

    def history(self, slot):
        return [r for r, in self.stack.sql("SELECT reason FROM session_history WHERE owner = ? AND name = ?"
                                           " AND ended_at >= ?", slot.owner, slot.name, slot.opened_ms)]

    def ending(self, slot):
        """Past its TTL it is gone for every caller, whether or not the reaper is through with it."""
        for state, reason, left in self.stack.sql("SELECT state, close_reason, expires_in_s FROM v_sessions"
                                                  " WHERE owner = ? AND name = ?", slot.owner, slot.name):
            return reason in SURVIVABLE if state == "closing" else left is not None and left <= 1
        return False

    # steps

    def open(self, slot):
        fresh = slot.state == "none"
        answer = self.ask(slot, "POST", "/v1/sessions", json_body={"session_id": slot.name, "ttl": slot.ttl})
        if not self.acknowledged(answer):
            slot.state = "unsure"
            time.sleep(0.2)
            return
        if fresh and answer.status != 201:
            self.findings.add("sessions", f"{slot.name}: a first open was answered {answer}")
        if answer.status == 201:
            slot.knows = False
        slot.state = "open"
        slot.opened_ms = int(time.time() * 1000) - 1000
        self.seen(slot, answer.json())

    def step_rest(self, slot):
        time.sleep(self.random.uniform(0, 2))

    def step_look(self, slot):
        answer = self.ask(slot, "GET", slot.url)
        if self.acknowledged(answer):
            self.seen(slot, answer.json())

    def step_list(self, slot):
        answer = self.ask(slot, "GET", "/v1/sessions?limit=100")
        if self.acknowledged(answer):
            strangers = [s["owner"] for s in answer.json()["sessions"] if s["owner"] != slot.owner]
            if strangers:
                self.findings.add("outputs", f"{slot.owner} sees sessions of {strangers}")

    def step_restart(self, slot):
        answer = self.ask(slot, "POST", slot.url + "/restart")
        if self.acknowledged(answer):
            slot.knows = False
        elif answer is None or answer.status >= 500:
            slot.knows = None if slot.knows else slot.knows

    def step_close(self, slot):
        self.read_log(slot)
        same_name = self.random.random() < 0.5
        if slot.state != "open":
            return
        slot.state = "ending"  # from here on it may be gone, whatever the first answer was
        for attempt in range(5):
            answer = self.ask(slot, "DELETE", slot.url)
            if answer is not None and answer.status in (202, 204, 404):
                if answer.status == 404 and attempt == 0 and not self.survived(slot):
                    self.findings.add("sessions", f"{slot.name} was gone before it was closed")
                break
            if answer is not None and answer.status < 500:
                self.findings.add("answers", f"DELETE {slot.url}: {answer}")
                break
            time.sleep(0.5)
        # where the first answer was lost or something still ran, the old one may be there for a while
        clean = answer is not None and answer.status == 204 and attempt == 0
        slot.begin(same_name and clean)

    def step_put(self, slot):
        known = sorted(p for p in slot.files if p not in slot.tainted)
        again = self.random.random() < 0.4
        content = self.random.randbytes(self.random.choice((0, 10, 1000, 65536, 300000)))
        pick = self.random.random()
        if again and known:
            path = known[int(pick * len(known))]
        else:
            self.counter += 1
            path = f"d{self.counter % 3}/f{self.counter}"
            if len(known) >= 12:
                return
        answer = self.ask(slot, "PUT", f"{slot.url}/files/{path}", body=content)
        if self.acknowledged(answer):
            slot.files[path] = {content}
        else:
            self.doubt(slot, path, content)

    def doubt(self, slot, path, content):
        slot.files[path] = slot.files.get(path, {None}) | {content}
        slot.tainted.add(path)

    def step_get(self, slot):
        pick = self.random.random()
        if slot.files:
            self.read(slot, sorted(slot.files)[int(pick * len(slot.files))])

    def read(self, slot, path):
        """Holds a file against what it may be; False where nothing could be learnt."""
        answer = self.ask(slot, "GET", f"{slot.url}/files/{path}")
        if answer is None or not (answer.status == 200 or answer.status == 404 and answer.code == "file_not_found"):
            return False
        content = answer.body if answer.status == 200 else None
        if content not in slot.files[path]:
            told = "no file" if content is None else f"{len(content)} bytes"
            wanted = ["no file" if c is None else f"{len(c)} bytes" for c in slot.files[path]]
            self.findings.add("files", f"{slot.name}: {path} is {told}, should be {' or '.join(wanted)}")
        return True

    def step_remove(self, slot):
        known = sorted(p for p in slot.files if p not in slot.tainted)
        pick = self.random.random()
        if not known:
            return
        path = known[int(pick * len(known))]
        answer = self.ask(slot, "DELETE", f"{slot.url}/files/{path}")
        if self.acknowledged(answer):
            slot.files[path] = {None}
        elif answer is not None and answer.status == 404 and answer.code == "file_not_found":
            if None not in slot.files[path]:
                self.findings.add("files", f"{slot.name}: {path} is not there to be removed")
        else:
            self.doubt(slot, path, None)

    @staticmethod
    def whole_stream(answer):
        """The result an event stream ends with, its text put back; None where it was cut short."""
        text, result, gap = "", None, False
        for block in answer.text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
            if lines.get("event") == "stdout":
                text += json.loads(lines["data"])["text"]
            elif lines.get("event") == "gap":
                gap = True
            elif lines.get("event") == "result":
                result = json.loads(lines["data"])
        if result is not None:
            result["stdout"] = text + result.get("stdout", "")  # it has what found no room in the spool
            result["gap"] = gap
        return result

    def step_move(self, slot):
        """A cell renames a file."""
        known = sorted(p for p in slot.files if p not in slot.tainted and None not in slot.files[p])
        pick = self.random.random()
        target = f"d{self.counter % 3}/m{self.counter}"
        if not known:
            return
        path = known[int(pick * len(known))]
        if target.split("/")[0] not in {p.split("/")[0] for p in known}:
            target = f"{path.split('/')[0]}/m{self.counter}"  # in a folder that is there
        how = self.step_run(slot, f"import os\nos.rename({path!r}, {target!r})\n")
        if how == "ran":
            slot.files[target] = slot.files[path]
            slot.files[path] = {None}
        elif how == "unknown":
            for content in slot.files[path]:
                self.doubt(slot, target, content)
            self.doubt(slot, path, None)

    def step_run(self, slot, more=""):
        """Returns what became of it: ran, refused or unknown."""
        self.counter += 1
        uid = f"u{slot.index}.{slot.lives}.{self.counter}"
        sleep = self.random.choice((0, 0, 0, 0.2, 1, 3))
        keyed = self.random.random() < WITH_KEY
        body = {"code": CODE.format(log=LOG, uid=uid, nonce=slot.nonce, sleep=sleep) + more, "timeout": 20}
        headers = {"Idempotency-Key": uid} if keyed else {}
        if self.random.random() < STREAMED:
            headers["Accept"] = "text/event-stream"
        name, perhaps, request_id = slot.name, False, None
        for _ in range(4 if keyed else 1):
            answer = self.ask(slot, "POST", slot.url + "/exec", json_body=body, headers=headers)
            if self.acknowledged(answer):
                result = self.whole_stream(answer) if "Accept" in headers else answer.json()
                if result:
                    slot.tries[uid] = ("ran", None)
                    self.judge(slot, uid, result)
                    return slot.tries[uid][0]
                answer = None
            perhaps = perhaps or answer is None or answer.code in PERHAPS_RAN
            request_id = answer.headers.get("x-request-id") if answer is not None else None
            if slot.state != "open" or slot.name != name or answer is not None and answer.status < 500:
                break
            time.sleep(0.3)
        slot.tries[uid] = ("unknown", request_id if not keyed else None) if perhaps else ("refused", None)
        # whoever found the kernel gone may have been unable to say so
        slot.knows = None if slot.knows else slot.knows
        return slot.tries[uid][0]

    def judge(self, slot, uid, result):
        """A result must be this run's, of this session's kernel."""
        slot.runs[result["execution_id"]] = (slot.name, result["reason"])
        ok = result["reason"] == "completed"
        news, old = f"{uid} None\n", f"{uid} {slot.nonce}\n"
        whole = result["stdout"] in (news, old)
        # a full disk takes events and kept results, a lost channel messages: then the answer says so
        cut = result["truncated"] or result.get("gap", False) or result.get("incomplete", False)
        if result.get("incomplete"):
            self.codes["incomplete"] += 1
        if not (whole if ok and not cut else news.startswith(result["stdout"]) or old.startswith(result["stdout"])):
            said = {k: result.get(k) for k in ("execution_id", "stdout", "truncated", "gap", "incomplete", "execution_count", "bytes")}
            self.findings.add("outputs", f"{slot.name}: {uid} ({result['reason']}) was answered {said}")
        if whole and slot.knows and result["stdout"] == news and not result["session"]["state_lost"]:
            self.findings.add("state lost", f"{slot.name}: {uid} met a fresh kernel and was not told")
        self.seen(slot, result["session"])
        if ok:
            slot.knows = True
        else:
            slot.tries[uid] = ("unknown", None)
            slot.knows = None if slot.knows else slot.knows

    def read_log(self, slot):
        """What ran, by the cells' own word: nothing twice, nothing refused, nothing of others, all acknowledged."""
        answer = self.ask(slot, "GET", f"{slot.url}/files/{LOG}")
        if answer is None or not (answer.status == 200 or answer.status == 404 and answer.code == "file_not_found"):
            return False
        ran = collections.Counter(answer.body.decode().split() if answer.status == 200 else [])
        for uid, n in ran.items():
            how, request_id = slot.tries.get(uid, ("stranger", None))
            if n > 1:
                self.findings.add("once", f"{slot.name}: {uid} ran {n} times")
            if how in ("refused", "stranger"):
                self.findings.add("once", f"{slot.name}: {uid} ran and was {how}")
            if request_id and not self.row_of(request_id):
                self.findings.add("executions", f"{slot.name}: {uid} ran without a row ({request_id})")
        for uid, (how, _) in slot.tries.items():
            if how == "ran" and uid not in ran:
                self.findings.add("files", f"{slot.name}: {uid} completed, but its line in {LOG} is gone")
        return True

    def row_of(self, request_id):
        with contextlib.suppress(sqlite3.Error):
            return self.stack.sql("SELECT eid FROM executions WHERE request_id = ?", request_id)
        return True
