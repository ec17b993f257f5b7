"""A Daytona that answers with nonsense: every call ends in time, with an error that has a name, and what was there stays."""
import concurrent.futures
import contextlib
import itertools
import json
import queue
import socket
import struct
import time

import pytest

from fakedaytona import DaytonaStack
from hostile import CLOSE, Hostile, answer, close, frame, socket_of
from stack import wait_until

TIMEOUT = 2  # seconds of an execution here
SESSIONS = 6  # at once
SETTINGS = {"SANDBOX_REAP_INTERVAL": "0.5", "SANDBOX_HTTP_TIMEOUT": 1, "SANDBOX_START_TIMEOUT": 4, "SANDBOX_WORKERS_EXEC": 8,
            "SANDBOX_EXEC_TIMEOUT": 10, "SANDBOX_FLOOD_BYTES": 8 << 20, "SANDBOX_MAX_OUTPUT_BYTES": 1 << 20,
            "SANDBOX_MAX_FILE_BYTES": 4 << 20, "SANDBOX_MAX_SESSIONS": 20}
BOUND = 20  # seconds: no call takes longer
NAMED = {"gateway_error", "gateway_unavailable", "start_failed", "transfer_failed", "timeout", "file_too_large", "limit_exceeded"}


class HostileStack(DaytonaStack):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.front = Hostile(self.daytona.port, self.daytona.certificate)
        self.settings["DAYTONA_API_URL"] = f"https://127.0.0.1:{self.front.port}/api"

    def stop(self):
        try:
            super().stop()
        finally:
            self.front.stop()


STACK = HostileStack


def forever(first, piece, pause=0.0):
    """A rule's answer that never ends."""
    def run(_head, client):
        client.sendall(first)
        for _ in itertools.count():
            client.sendall(piece)
            if pause:
                time.sleep(pause)
    return run


def begun(head):
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head


CHUNKED = begun(b"Transfer-Encoding: chunked\r\n\r\n")
ANSWERS = {
    "endless json": forever(CHUNKED, b"10000\r\n" + b"[1,[" * 16384 + b"\r\n"),
    "endless whitespace": forever(CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n"),
    "deep json": answer(b"[" * 1_000_000 + b"]" * 1_000_000),
    "a drop at a time": forever(CHUNKED, b"1\r\n[\r\n", 0.2),
    "headers by drops": forever(begun(b"X: "), b"x", 0.2),
    "endless headers": forever(begun(b""), b"X-%s: 1\r\n" % (b"x" * 1000) * 60),
    "endless header": forever(begun(b"X: "), b"x" * 65536),
    "endless 1xx": forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2000),
    "1xx by drops": forever(b"", b"HTTP/1.1 102 Processing\r\n\r\n", 0.2),
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nxxxx",
    "cut body": begun(b"Content-Length: 1000\r\n\r\n") + b'{"items": [',
    "cut chunk": CHUNKED + b"ffff\r\n{",
    "negative length": begun(b"Content-Length: -1\r\n\r\n{}"),
    "huge length": begun(b"Content-Length: 99999999999999999999\r\n\r\n{}"),
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "300": answer(b"{}", "300 Multiple Choices", more="Location: https://example.com/\r\n"),
    "999": answer(b"{}", "999 Odd"),
    "http/0.9": b"hello\r\n",
    "not utf-8": answer(b'{"id": "\xff\xfe", "items": [{"id": "\xc3"}], "result": "\xff"}'),
    "nul": answer(b'{"id": "a\\u0000b", "state": "started\\u0000", "items": [{"id": "a\\u0000"}], "url": "https://a\\u0000"}'),
    "numbers": answer(b'{"id": 5, "items": 5, "contexts": 5, "size": 1e999, "state": {}, "labels": [], "nextCursor": 7}'),
    "strange list": answer(b'{"items": [null, 1, "x", [], {}, {"id": []}, {"id": "../../x"}, {"id": "a/b", "state": "started"}]}'),
    "null": answer(b"null"),
    "string": answer(b'"\\ud800"'),
    "nan": answer(b'{"id": NaN, "items": Infinity}'),
    "twice": answer(b'{"id": "a", "id": "b/../c", "items": [], "items": 1}'),
    "empty": answer(b""),
}


@pytest.fixture
def front(stack):
    yield stack.front
    stack.front.rules.clear()


@pytest.fixture
def shared(stack, client):
    """each(work, items): calls work(session, sandbox's id, item) for every item, some at a time, each with a session alone."""
    sessions = queue.Queue()
    for i in range(SESSIONS):
        name = f"s{i}"
        client.open(name)
        (row,) = stack.sql("SELECT handle FROM runtimes WHERE name = ?", name)
        sessions.put((name, row[0]))

    def alone(work, item):
        session = sessions.get()
        try:
            return work(*session, item)
        finally:
            sessions.put(session)

    def each(work, items):
        with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
            for done in [pool.submit(alone, work, item) for item in items]:
                done.result()
    return each


def ended_in_time(client, method, path, body=None, json_body=None):
    began = time.monotonic()
    got = client.request(method, path, body=body, json_body=json_body, timeout=BOUND + 30)
    took = time.monotonic() - began
    assert took < BOUND, (method, path, took, got)
    return got


def named(got):
    """An error with a name, or an execution that ended with a reason."""
    if got.status == 200 and "reason" in got.json():
        return True
    return got.status in (502, 503, 504) and got.code in NAMED


def test_nonsense_about_a_sandbox(stack, client, front, shared):
    def one(session, ident, name):
        path = f"/v1/sessions/{session}"
        client.run(session, "x = 41")
        client.put(path + "/files/f", b"f")
        with front.rule("*", f"^/(api/sandbox|toolbox)/{ident}", ANSWERS[name]):
            got = [ended_in_time(client, *call) for call in (
                ("POST", path + "/exec", None, {"code": "x", "timeout": TIMEOUT}), ("GET", path + "/files/f"),
                ("GET", path + "/files?recursive=true"), ("PUT", path + "/files/g", b"g"), ("DELETE", path + "/files/f"))]
        if name == "null" and got[2].status == 200:  # is an empty list to the programs of the other side
            assert got.pop(2).json()["files"] == []
        assert all(map(named, got)), (name, got)
        assert client.run(session, "print(x)")["stdout"] == "41\n", name
        assert client.get(path + "/files/f").body == b"f", name

    shared(one, ANSWERS)
    assert len(stack.daytona.sandboxes()) == SESSIONS


def test_nonsense_of_the_api(stack, client, front):
    for method in ("GET", "POST"):
        for name, what in ANSWERS.items():
            with front.rule(method, r"^/api/sandbox(\?|$)", what):
                got = ended_in_time(client, "POST", "/v1/sessions", None, {"session_id": "new"})
                assert named(got), (method, name, got)
                assert client.get("/v1/sessions/new").status == 404
    assert all(s["labels"]["docsgpt_session_id"] for s in stack.daytona.sandboxes())


def test_lists_that_are_not_what_was_asked_for(stack, client, front):
    """Neither another's sandbox nor a list that was cut short is taken for the answer."""
    fake, auth = stack.daytona, {"Authorization": "Bearer " + stack.daytona.key}
    others = [fake.call("POST", "/api/sandbox", {"labels": labels}, auth)[1]["id"]
              for labels in ({"husk_deployment": "another", "docsgpt_session_id": "0" * 16}, {})]
    client.open("l")
    client.run("l", "x = 41")

    def all_of_them(_head, client_socket):
        client_socket.sendall(answer(json.dumps(fake.call("GET", "/api/sandbox?limit=200", headers=auth)[1]).encode()))

    def again_and_again(_head, client_socket):
        client_socket.sendall(answer(b'{"items": [], "nextCursor": "1"}'))

    with front.rule("GET", r"^/api/sandbox\?", all_of_them) as met:
        client.open("m")
        assert client.run("m", "print('x' in globals())")["stdout"] == "False\n"
        wait_until(lambda: len(met) > 30, 60, "passes of the reaper", step=0.3)  # longer than an orphan is waited for
        assert client.run("l", "print(x)")["stdout"] == "41\n"
    for what in (again_and_again, answer(json.dumps({"items": [], "nextCursor": "x" * 5000}).encode())):
        with front.rule("GET", r"^/api/sandbox\?", what):
            got = client.post("/v1/sessions", {"session_id": "new"})
            assert (got.status, got.code) == (502, "gateway_error"), got
    assert {s["id"] for s in fake.sandboxes()} > set(others)
    for ident in others:
        fake.call("DELETE", "/api/sandbox/" + ident, headers=auth)
    for name in "lm":
        client.delete("/v1/sessions/" + name)


def test_a_list_that_names_one_twice(stack, client, front):
    """As pages do that shift while they are read: it is one sandbox, and not one too many of its session."""
    fake, auth = stack.daytona, {"Authorization": "Bearer " + stack.daytona.key}

    def twice(_head, client_socket):
        items = fake.call("GET", "/api/sandbox?limit=200", headers=auth)[1]["items"]
        client_socket.sendall(answer(json.dumps({"items": items + items}).encode()))

    client.open("t", ttl=1)
    client.put("/v1/sessions/t/files/f", b"kept")
    wait_until(lambda: client.get("/v1/sessions/t").status == 404, 20, "its expiry")
    wait_until(lambda: fake.sandboxes("stopped"), 20, "a stopped sandbox")
    with front.rule("GET", r"^/api/sandbox\?", twice):
        assert client.open("t", ttl=300)["files_kept"] is True
        assert client.get("/v1/sessions/t/files/f").body == b"kept"
        # nor does an orphan live on
        labels = {**fake.sandboxes()[0]["labels"], "docsgpt_session_id": "0" * 16}
        orphan = fake.call("POST", "/api/sandbox", {"labels": labels}, auth)[1]["id"]
        wait_until(lambda: orphan not in {s["id"] for s in fake.sandboxes()}, 60, "the orphan's end", step=0.3)
    client.delete("/v1/sessions/t")


def test_lists_of_files_that_lead_out(stack, client, front):
    """A name that no folder has is neither shown nor followed, and nothing is kept under it."""
    client.open("out")
    for name, folder, path in (("..", True, None), (".", True, None), ("", False, None), ("..", False, None),
                               ("x", False, "/home/daytona/docsgpt-sandbox/../../../etc/hostname"),
                               ("x", False, "/home/daytona/docsgpt-sandbox//x")):
        entry = {"name": name, "isDir": folder, "size": 3, "modTime": "2026-11-30T10:00:00Z", **({"path": path} if path else {})}
        with front.rule("GET", r"/files\?path=", answer(json.dumps([entry]).encode())) as met:
            got = client.get("/v1/sessions/out/files?recursive=true")
            assert (got.status, got.json()["files"], len(met)) == (200, [], 1), (entry, got)
            run = client.post("/v1/exec", {"session_id": "out", "code": "1", "outputs": ["**"]}).json()
            assert run["status"] == "ok" and run["artifacts"] == [] and run["artifacts_left_out"]["count"] == 0, (entry, run)
    client.delete("/v1/sessions/out")


def test_a_sandbox_that_is_another_s(stack, client, front):
    """What a creation is answered with has to have the labels that were asked for."""
    fake, auth = stack.daytona, {"Authorization": "Bearer " + stack.daytona.key}
    client.open("mine")
    other = fake.sandboxes()[0]
    with front.rule("POST", r"^/api/sandbox$", answer(json.dumps(other).encode())):
        got = client.post("/v1/sessions", {"session_id": "new"})
        assert (got.status, got.code) == (502, "gateway_error"), got
    assert client.run("mine", "print(1)")["stdout"] == "1\n"
    client.delete("/v1/sessions/mine")


# the interpreter's socket

def told(**members):
    return json.dumps(members).encode()


def says(*frames, end=True):
    def run(client):
        for one in frames:
            client.sendall(one)
        if end:
            client.sendall(frame(told(type="control", text="completed")) + close(1000))
            client.settimeout(2)
            with contextlib.suppress(OSError):
                while client.recv(65536):  # what is not read makes the end a reset
                    pass
    return run


def pieces(payload, n, *between):
    """A message in frames of n bytes, others between."""
    parts = [payload[i:i + n] for i in range(0, len(payload), n)]
    for i, part in enumerate(parts):
        yield frame(part, 0 if i else 1, i == len(parts) - 1)
        yield from between


def flood(one, first=b""):
    def run(client):
        client.sendall(first)
        while True:
            client.sendall(one)
    return run


def silence(client):
    time.sleep(30)


def reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


OUT = told(type="stdout", text="grüße\n")
SOCKETS = {
    # what is well formed, however it comes
    "fragments": (says(*pieces(OUT, 3)), {"completed"}, "grüße\n"),
    "fragments with pings": (says(*pieces(OUT, 1, frame(b"p", 9), frame(b"", 10))), {"completed"}, "grüße\n"),
    "pings and pongs": (says(frame(b"p", 9), frame(OUT), frame(b"", 9), frame(b"q",10)), {"completed"}, "grüße\n"),
    "binary": (says(frame(OUT, 2)), {"completed"}, None),
    "empty frames": (says(frame(b"", 1, False), frame(b"", 0, False), frame(OUT, 0)), {"completed"}, "grüße\n"),
    "strange messages": (says(*map(frame, (
        b"", b"{", b"[]", b"null", b"7", b'"x"', b'{"type": 5}', b'{"type": "stdout", "text": 5}', b'{"type": "stdout"}',
        b'{"type": "control", "text": 1}', b'{"type": "control"}', b'{"type": "none"}', b"[" * 5000,
        b'{"type": "error", "name": []}', OUT))), {"completed", "exception"}, None),
    "not utf-8": (says(frame(b'{"type": "stdout", "text": "a\xff\xc3"}'), frame(OUT)), {"completed"}, None),
    "more behind the end": (says(frame(OUT), frame(told(type="control", text="completed")), frame(OUT)),
                            {"completed"}, "grüße\n"),
    # what is not
    "masked": (says(frame(OUT, masked=True)), None, None),
    "reserved opcode": (says(frame(OUT, 3)), None, None),
    "fragmented ping": (says(frame(b"x", 9, False)), None, None),
    "large ping": (says(frame(b"x" * 1000, 9)), None, None),
    "huge length": (says(frame(b"x", length=(1 << 63) - 1), end=False), None, None),
    "negative length": (says(frame(b"x", length=(1 << 64) - 1), end=False), None, None),
    "continuation of nothing": (says(frame(OUT, 0)), None, None),
    "a message in a message": (says(frame(b"{", 1, False), frame(OUT)), None, None),
    "no frames": (says(b"\0" * 100000, end=False), None, None),
    "pings": (flood(frame(b"x" * 100, 9) * 600), {"timeout"}, None),
    "output": (flood(frame(told(type="stdout", text="y" * 60000))), {"output_limit", "timeout"}, None),
    "a message without an end": (flood(frame(b"x" * 65536, 0, False), frame(b'{"type": "stdout", "text": "', 1, False)), {"timeout"}, None),
    "tiny messages": (flood(frame(b"{}") * 10000), {"timeout", "output_limit"}, None),
    "silence": (silence, {"timeout"}, None),
    "reset": (reset, None, None),
    "end": (says(end=False), None, None),
    "no code": (says(frame(b"", CLOSE), end=False), None, None),
    "short code": (says(frame(b"\x03", CLOSE), end=False), None, None),
    "code with a reason that is not utf-8": (says(close(1000, b"\xff\xfe"), end=False), None, None),
    **{f"code {code}": (says(close(code), end=False), None, None)
       for code in (0, 999, 1000, 1001, 1002, 1005, 1006, 1008, 1009, 1011, 1012, 3000, 4008, 4999, 65535)},
}


def test_strange_sockets(client, front, shared):
    def one(session, ident, name):
        script, reasons, out = SOCKETS[name]
        path = f"/v1/sessions/{session}"
        client.put(path + "/files/f", b"f")
        with front.rule("GET", f"{ident}/process/interpreter/execute", socket_of(script)):
            got = ended_in_time(client, "POST", path + "/exec", None, {"code": "1", "timeout": TIMEOUT})
        assert got.status == 200 and named(got), (name, got)
        assert got.json()["reason"] in (reasons or {"gateway_lost", "kernel_died", "timeout", "completed"}), (name, got)
        assert out is None or got.json()["stdout"] == out, (name, got)
        assert client.run(session, "print(1)")["stdout"] == "1\n", name
        assert client.get(path + "/files/f").body == b"f", name

    shared(one, SOCKETS)


UPGRADES = {
    "no upgrade": answer(b"{}"), "404": answer(b"", "404 Not Found"),
    "redirect": answer(b"", "302 Found", more="Location: https://127.0.0.1:1/\r\n"),
    "401": answer(b"", "401 Unauthorized", more='WWW-Authenticate: Basic realm="x"\r\n'), "500": answer(b"", "500 Oops"),
    "wrong key": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Accept: AAAA\r\n\r\n",
    "no key": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "h2": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    "nothing": lambda head, client: time.sleep(30), "closed": lambda head, client: None,
    "headers by drops": forever(b"HTTP/1.1 101 Switching Protocols\r\nX: ", b"x", 0.2),
    "endless header": forever(b"HTTP/1.1 101 Switching Protocols\r\nX: ", b"x" * 65536),
    "garbage": b"\0" * 10000,
}


def test_strange_upgrades(client, front, shared):
    def one(session, ident, name):
        client.run(session, "x = 41")
        with front.rule("GET", f"{ident}/process/interpreter/execute", UPGRADES[name]):
            got = ended_in_time(client, "POST", f"/v1/sessions/{session}/exec", None, {"code": "1", "timeout": TIMEOUT})
        assert named(got), (name, got)
        assert client.run(session, "print(x)")["stdout"] == "41\n", name

    shared(one, UPGRADES)
