"""Holds what is there, once things have settled, against what was acknowledged."""
import concurrent.futures
import threading
import time

SETTLE_S = 120  # the reaper's orphans wait for the longest open, quarantined kernels for their next try
TOUCH_S = 90
SHOWN = 12  # findings of one kind are all counted, so many of them shown

CHECKS = {
    "sessions": "every acknowledged session is there or its history says why not",
    "files": "every acknowledged file is there, whole",
    "executions": "every acknowledged execution has its row",
    "busy": "no session is busy without a living holder",
    "kernels": "no kernel without a row, no row without a kernel",
    "cap": "the cap was never exceeded",
    "outputs": "nobody saw another session's output",
    "state lost": "whose kernel was lost was told",
    "once": "nothing ran twice, nothing refused ran",
    "integrity": "the database is whole",
    "locked": "no answer said that the database is locked",
    "answers": "every answer keeps to the contract, none is a plain 500",
    "left behind": "everything ended and left nothing",
}


class Findings:
    """What did not hold, by the check it belongs to."""

    def __init__(self):
        self.lock = threading.Lock()
        self.found = {name: 0 for name in CHECKS}

    def add(self, check, text):
        with self.lock:
            self.found[check] += 1
            if self.found[check] <= SHOWN:
                print(f"FOUND {check}: {text[:600]}", flush=True)

    def total(self):
        return sum(self.found.values())

    def summary(self):
        """Prints a line a check and the count; the program's exit code."""
        for name, text in CHECKS.items():
            print(f"{'ok  ' if not self.found[name] else 'FAIL'} {text}"
                  + (f" ({self.found[name]})" if self.found[name] else ""))
        failed = sum(1 for n in self.found.values() if n)
        print(f"{len(CHECKS) - failed} passed, {failed} failed", flush=True)
        return 1 if failed else 0


class Checker:
    def __init__(self, stack, slots, drivers, findings):
        self.stack, self.slots, self.drivers, self.findings = stack, slots, drivers, findings
        self.driver_of = {id(slot): driver for driver in drivers for slot in driver.slots}

    def check(self):
        began = time.monotonic()

        def tell(what):
            print(f"{time.monotonic() - began:5.0f} s: {what}", flush=True)

        tell("waiting for what is at work to end")
        self.settled("busy", "SELECT 'session ' || name || ' is ' || state FROM sessions"
                             " WHERE state IN ('busy', 'opening', 'closing')"
                             " UNION ALL SELECT 'execution ' || eid || ' never ended' FROM executions"
                             " WHERE reason IS NULL")
        tell("waiting for rows and kernels to agree")
        self.settled("kernels", "SELECT 'quarantined: ' || handle FROM runtimes WHERE state = 'quarantined'")
        self.kernels()  # of sessions that nobody has used since, too
        tell("meeting every session")
        with concurrent.futures.ThreadPoolExecutor(len(self.drivers)) as pool:
            for done in [pool.submit(self.slots_of, driver) for driver in self.drivers]:
                done.result()
        tell("comparing executions and kernels")
        self.executions()
        self.kernels()
        for row, in self.stack.sql("PRAGMA integrity_check"):
            if row != "ok":
                self.findings.add("integrity", row)

    def settled(self, check, query):
        end = time.monotonic() + SETTLE_S
        while (rows := self.stack.sql(query)) and time.monotonic() < end:
            time.sleep(0.5)
        for text, in rows:
            self.findings.add(check, f"{text} after {SETTLE_S} s")

    def slots_of(self, driver):
        for slot in driver.slots:
            self.slot(slot)

    def slot(self, slot):
        """Opens what had ended, runs a cell in it and reads every file."""
        driver = self.driver_of[id(slot)]
        if slot.state == "unsure" and not slot.files:
            return  # never acknowledged: it may be there or not
        if slot.state == "none" and not slot.files and not slot.tries:
            return
        if slot.state == "open":
            driver.step_look(slot)
        if not self.until(lambda: self.runs(driver, slot)):
            self.findings.add("sessions", f"{slot.name} runs nothing within {TOUCH_S} s: {dict(driver.codes)}")
            return
        for path in sorted(slot.files):
            if not self.until(lambda: driver.read(slot, path)):
                self.findings.add("files", f"{slot.name}: {path} cannot be read")
        if not self.until(lambda: driver.read_log(slot)):
            self.findings.add("files", f"{slot.name}: the log of its runs cannot be read")
        self.strangers(driver, slot)

    @staticmethod
    def until(test):
        end = time.monotonic() + TOUCH_S
        while not (value := test()) and time.monotonic() < end:
            time.sleep(0.5)
        return value

    @staticmethod
    def runs(driver, slot):
        if slot.state != "open":
            driver.open(slot)
        before = len(slot.tries)
        if slot.state == "open":
            driver.step_run(slot)
        tries = list(slot.tries.values())[before:]
        return bool(tries) and tries[0][0] == "ran"

    def strangers(self, driver, slot):
        answer = driver.ask(slot, "GET", slot.url + "/files?recursive=true&glob=d*/f*&limit=1000")
        if driver.acknowledged(answer):
            for entry in answer.json()["files"]:
                if entry.get("type") == "file" and entry.get("path") not in slot.files:
                    self.findings.add("files", f"{slot.name}: {entry} is nobody's")

    def executions(self):
        rows = {eid: rest for eid, *rest in
                self.stack.sql("SELECT eid, owner, session_name, reason FROM executions")}
        for slot in self.slots:
            for eid, (name, reason) in slot.runs.items():
                if rows.get(eid) != [slot.owner, name, reason]:
                    self.findings.add("executions", f"{eid} of {name} ({reason}) has the row {rows.get(eid)}")

    def kernels(self):
        """What the rows name is what the gateway has."""
        end = time.monotonic() + SETTLE_S
        while True:
            rows = {h for h, in self.stack.sql("SELECT handle FROM runtimes UNION SELECT handle FROM pool")}
            there = set(self.stack.kernels())
            if rows == there or time.monotonic() > end:
                break
            time.sleep(0.5)
        for handle in there - rows:
            self.findings.add("kernels", f"{handle} at the gateway has no row")
        for handle in rows - there:
            self.findings.add("kernels", f"{handle} has a row and is not at the gateway: "
                              f"{self.stack.sql('SELECT * FROM v_runtimes WHERE handle = ?', handle)}")
