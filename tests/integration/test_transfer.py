"""Files with SANDBOX_TRANSFER=kernel: the service and its kernels share no file system."""
import base64
import hashlib
import os
import shutil
import threading
import time

import pytest

from client import files_url as url
from stack import wait_until
from test_files import raw

SETTINGS = {"SANDBOX_TRANSFER": "kernel", "SANDBOX_TURN_WAIT": "1s"}
LIMIT = 10 << 20


@pytest.fixture(scope="module", autouse=True)
def nothing_shared(stack):
    """Where workspaces would be is no folder: whoever went there would notice."""
    shutil.rmtree(stack.path("s", "workspaces"))
    with open(stack.path("s", "workspaces"), "w"):
        pass


def test_round_trip_and_shared_with_the_kernel(client, session):
    made = client.put(url(session, "in/data.csv"), b"a,b\n1,2\n")
    assert made.status == 201 and made.json()["path"] == "in/data.csv" and made.json()["size"] == 8
    assert client.run(session, "print(open('in/data.csv').read())")["stdout"] == "a,b\n1,2\n\n"
    client.run(session, "open('in/out.txt', 'w').write('from the kernel')")
    assert client.get(url(session, "in/out.txt")).body == b"from the kernel"
    head = client.request("HEAD", url(session, "in/out.txt"))
    assert head.headers["content-length"] == "15" and head.body == b""
    assert client.put(url(session, "in/data.csv"), b"new").status == 200
    assert client.get(url(session, "in/data.csv")).body == b"new"
    assert client.delete(url(session, "in/data.csv")).status == 204
    assert client.get(url(session, "in/data.csv")).code == "file_not_found"


@pytest.mark.parametrize("size", [0, 1, 256, 46079, 46080, 46081, 393216, 393217])
def test_every_byte_value_at_the_edges_of_the_parts(client, shared_session, size):
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    assert client.put(url(shared_session, "b"), body).status == 201
    assert client.get(url(shared_session, "b")).body == body
    digest = client.run(shared_session, "import hashlib; print(hashlib.sha256(open('b', 'rb').read()).hexdigest())")["stdout"]
    assert digest.strip() == hashlib.sha256(body).hexdigest()


def test_8_mib_both_ways(client, session):
    body = os.urandom(8 << 20)
    assert client.put(url(session, "big"), body).status == 201
    assert client.get(url(session, "big")).body == body
    assert client.file_names(session) == ["big"]


def test_one_call(client):
    def names():
        return [s["session_id"] for s in client.get("/v1/sessions").json()["sessions"]]

    before = names()
    body = {"code": "print(open('in/x').read())", "inputs": [{"path": "in/x", "content_base64": "YWJj"}]}
    answer = client.post("/v1/exec", body)
    assert answer.status == 200 and answer.json()["stdout"] == "abc\n", answer
    for keep in ({"capture": True}, {"outputs": ["x"]}):
        refused = client.post("/v1/exec", {**body, **keep})
        assert refused.status == 501 and refused.code == "not_implemented"
    assert names() == before


def test_the_limit(client, session):
    head = (f"PUT {url(session, 'big')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n"
            f"Content-Length: {LIMIT + 1}\r\nConnection: close\r\n\r\n")
    answer = raw(client, head)
    assert answer.startswith(b"HTTP/1.1 413") and b"application/problem+json" in answer
    client.run(session, f"open('sparse', 'wb').truncate({LIMIT + 1})")
    assert client.get(url(session, "sparse")).code == "file_too_large"


@pytest.mark.parametrize("encoded,name", [("a%20b", "a b"), ("100%25.txt", "100%.txt"), ("%C3%BC'\"%5C", "ü'\"\\"), ("x%2Fy", "x/y")])
def test_names(client, shared_session, encoded, name):
    assert client.put(url(shared_session, encoded), b"1").status == 201
    assert [p for p in client.file_names(shared_session) if p != "x"] == [name]
    assert client.get(url(shared_session, encoded)).body == b"1"


def test_names_that_are_no_utf8(client, session):
    client.run(session, "open(b'bad\\xff', 'w').write('x')")
    (entry,) = client.get(url(session)).json()["files"]
    assert base64.b64decode(entry["path_base64"]) == b"bad\xff"
    assert client.get(url(session, "bad%FF")).body == b"x"


def test_paths_that_lead_out(client, session):
    code = ("import os, socket\nos.symlink('/tmp', 'up'); os.symlink('/etc/passwd', 'pw'); os.symlink('loop', 'loop')\n"
            "os.symlink('ok.txt', 'inside'); open('ok.txt', 'w').write('fine'); os.mkfifo('fifo'); os.mkdir('d')\n"
            "s = socket.socket(socket.AF_UNIX); s.bind('sock')")
    assert client.run(session, code)["status"] == "ok"
    assert client.put(url(session, "up/new/f"), b"x").code == "outside_workspace"
    assert client.put(url(session, "ok.txt/f"), b"x").code == "not_a_folder"
    assert client.put(url(session, "d"), b"x").code == "not_a_folder"
    for path, why in (("pw", "outside_workspace"), ("loop", "outside_workspace"), ("fifo", "not_a_file"), ("sock", "not_a_file"),
                      ("d", "not_a_file"), ("up/x", "file_not_found"), ("none/x", "file_not_found")):
        assert client.get(url(session, path)).code == why, path
    assert client.get(url(session, "inside")).body == b"fine"
    assert client.delete(url(session, "up/x")).status in (400, 404)
    assert not os.path.exists("/tmp/new")


def test_ranges_conditions_and_digests(client, shared_session):
    digest = "sha-256=:" + base64.b64encode(hashlib.sha256(bytes(range(100))).digest()).decode() + ":"
    assert client.put(url(shared_session, "r"), bytes(range(100)), headers={"Repr-Digest": digest}).status == 201
    part = client.get(url(shared_session, "r"), headers={"Range": "bytes=10-19"})
    assert part.status == 206 and part.body == bytes(range(10, 20)) and part.headers["content-range"] == "bytes 10-19/100"
    assert client.get(url(shared_session, "r"), headers={"Range": "bytes=200-"}).status == 416
    assert client.get(url(shared_session, "r"), headers={"Want-Repr-Digest": "sha-256=1"}).headers["repr-digest"] == digest
    assert client.put(url(shared_session, "r"), b"DATA", headers={"Repr-Digest": digest}).code == "digest_mismatch"
    time.sleep(2.2)
    etag = client.get(url(shared_session, "r")).headers["etag"]
    assert not etag.startswith("W/")
    assert client.get(url(shared_session, "r"), headers={"If-None-Match": etag}).status == 304
    assert client.put(url(shared_session, "r"), b"two", headers={"If-None-Match": "*"}).code == "precondition_failed"
    assert client.put(url(shared_session, "r"), b"two", headers={"If-Match": '"other"'}).status == 412
    assert client.put(url(shared_session, "r"), b"two", headers={"If-Match": etag}).status == 200
    assert client.get(url(shared_session, "r")).body == b"two"


def test_folders(client, session):
    for path in ("a/1", "a/2", "b/c/3", ".hidden"):
        client.put(url(session, path), b"x")
    assert client.file_names(session, "") == [".hidden", "a", "b"]
    assert client.file_names(session, "?recursive=true&glob=**/[12]") == ["a/1", "a/2"]
    assert client.file_names(session, "?path=b&recursive=true&glob=c/*") == ["b/c/3"]
    assert client.get(url(session) + "?path=none").code == "file_not_found"
    assert client.get(url(session) + "?path=a/1").code == "not_a_folder"
    page = client.get(url(session) + "?recursive=true&limit=2").json()
    rest = client.get(url(session) + "?recursive=true&limit=100&cursor=" + page["next_cursor"]).json()
    together = [f["path"] for f in page["files"] + rest["files"]]
    assert together == sorted(together) and len(together) == 7 and rest["next_cursor"] is None
    assert client.delete(url(session, "a")).code == "folder_not_empty"
    assert client.delete(url(session, "a") + "?recursive=true").status == 204
    assert "a/1" not in client.file_names(session)


def test_many_files(client, session):
    client.run(session, "for i in range(3000): open(f'file-number-{i:05}', 'w')")
    page, seen = client.get(url(session) + "?limit=1000").json(), []
    seen += [f["path"] for f in page["files"]]
    while page["next_cursor"]:
        page = client.get(url(session) + "?limit=1000&cursor=" + page["next_cursor"]).json()
        seen += [f["path"] for f in page["files"]]
    assert seen == [f"file-number-{i:05}" for i in range(3000)]


def test_shadowed_names_do_no_harm(client, session):
    code = ("import builtins\nfor name in ('hashlib', 'base64', 'binascii', 'posix', 'stat'):\n"
            "    open(name + '.py', 'w').write('raise SystemExit')\n"
            "print = open = exec = eval = len = str = bytes = repr = type = __import__ = globals = getattr = object = None\n"
            "os = sys = base64 = binascii = hashlib = posix = answer = get = run = 'mine'\n"
            "builtins.print = None")
    assert client.run(session, code)["status"] == "ok"
    body = os.urandom(100_000)
    assert client.put(url(session, "f"), body).status == 201
    assert client.get(url(session, "f")).body == body
    assert len(client.file_names(session)) == 6
    assert client.delete(url(session, "f")).status == 204
    left = client.run(session, "(os, sys, answer, [n for n in list(locals()) if 'husk' in n.lower()])")
    assert left["results"][0]["data"]["text/plain"] == "('mine', 'mine', 'mine', [])"


@pytest.mark.parametrize("harm", [
    "binascii.b2a_base64 = lambda data, newline=True: old(data[:-1], newline=newline)",
    "binascii.b2a_base64 = lambda data, newline=True: old(data[::-1], newline=newline)",
    "binascii.b2a_base64 = lambda data, newline=True: b'!'",
    "binascii.b2a_base64 = None",
    "hashlib.sha256 = hashlib.sha1",
    "sys.modules['binascii'] = sys.modules['hashlib'] = None",
    "get_ipython().display_formatter.formatters['text/plain'].for_type(str, lambda s, p, c: p.text('no'))",
    "get_ipython().user_expressions = lambda expressions: {}",
])
def test_what_changes_the_bytes_is_noticed(client, session, harm):
    body = os.urandom(70_000)
    assert client.put(url(session, "f"), body).status == 201
    client.run(session, "import binascii, hashlib, sys; old = binascii.b2a_base64\n" + harm)
    assert client.get(url(session, "f")).code in ("transfer_failed", "file_busy")
    if "b2a" not in harm:
        assert client.put(url(session, "f"), b"other").code == "transfer_failed"
        assert client.run(session, "import os; print(os.path.getsize('f'))")["stdout"] == "70000\n"


def test_a_cut_upload_changes_nothing(client, session):
    client.put(url(session, "f"), b"old")
    head = (f"PUT {url(session, 'f')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n"
            "Content-Length: 9000000\r\n\r\n")
    raw(client, head, b"n" * 1_000_000, close_after=0.3)
    time.sleep(0.7)
    assert client.get(url(session, "f")).body == b"old"
    assert client.run(session, "import os; print(os.listdir('.'))")["stdout"] == "['f']\n"


def test_a_busy_session_is_said_to_be(client, session):
    run = threading.Thread(target=client.run, args=(session, "import time; time.sleep(6)"))
    run.start()
    wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["state"] == "busy", what="busy")
    began = time.monotonic()
    assert client.put(url(session, "f"), b"x").code == "session_busy"
    assert client.get(url(session)).code == "session_busy"
    assert time.monotonic() - began < 5
    run.join()
    assert client.put(url(session, "f"), b"x").status == 201


SUICIDE = """
import os, threading, time
def wait():
    incoming = os.path.join(os.path.dirname(os.getcwd()), 'incoming')
    while True:
        time.sleep(0.001)
        for name in os.listdir(incoming):
            if os.path.getsize(os.path.join(incoming, name)) > 0:
                os.kill(os.getpid(), 9)
threading.Thread(target=wait, daemon=True).start()
"""


def test_a_kernel_that_dies_while_a_file_comes(client, session):
    body = os.urandom(4 << 20)
    client.run(session, SUICIDE)
    put = client.put(url(session, "f"), body)
    got = client.get(url(session, "f"))
    if put.status == 201:
        assert got.body == body
    else:
        assert put.status >= 400 and got.code == "file_not_found"
    result = client.run(session, "print(1)")
    assert result["stdout"] == "1\n" and result["session"]["state_lost"] is True


def test_a_kernel_that_dies_while_a_file_goes(client, session):
    body = os.urandom(8 << 20)
    assert client.put(url(session, "f"), body).status == 201
    client.run(session, "import os, threading; threading.Timer(0.3, os.kill, (os.getpid(), 9)).start()")
    got = client.get(url(session, "f"))
    if got.status == 200:
        assert got.body == body
    else:
        assert got.code in ("file_not_found", "runtime_gone", "transfer_failed", "gateway_unavailable")
    assert client.run(session, "print(1)")["stdout"] == "1\n"


def test_files_end_with_their_kernel(stack, client, session):
    folder = client.run(session, "import os; print(os.getcwd())")["stdout"].strip()
    client.put(url(session, "f"), b"x")
    assert os.getuid() != 0 or os.path.exists(os.path.join(folder, "f"))
    assert client.post(f"/v1/sessions/{session}/restart").status == 200
    assert client.get(url(session, "f")).code == "file_not_found"
    wait_until(lambda: not os.path.exists(os.path.dirname(folder)), 20, "the folder's end")
    folder = client.run(session, "import os; print(os.getcwd())")["stdout"].strip()
    client.run(session, "import os\nif os.fork() == 0: raise SystemExit")
    assert client.put(url(session, "g"), b"x").status == 201
    client.delete(f"/v1/sessions/{session}")
    wait_until(lambda: not os.path.exists(os.path.dirname(folder)), 20, "the folder's end")
    assert client.open(session)["files_kept"] is False
    assert client.file_names(session) == []


def test_a_folder_that_was_removed_is_made_again(client, session):
    client.run(session, "import os, shutil; shutil.rmtree(os.path.dirname(os.getcwd()))")
    assert client.put(url(session, "a"), b"x").status == 201
    assert client.get(url(session, "a")).body == b"x"


def test_the_operator_is_told_where_files_are(stack, client, session):
    assert "workspace:  in the kernel\n" in stack.ctl("session", "show", "--owner", "tester", session)
