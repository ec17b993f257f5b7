"""Files over HTTP: names, ranges, conditions, digests, containment, broken uploads."""
import base64
import concurrent.futures
import hashlib
import os
import socket
import time

import pytest

from client import files_url as url

# in a sandbox a file may be as large as the disk, which need not all be there
SETTINGS = {"SANDBOX_MAX_FILE_BYTES": 3 << 30, "SANDBOX_DISK": 4 << 30, "SANDBOX_DISK_SPARSE": "true"}


def test_round_trip_and_shared_with_the_kernel(client, session):
    made = client.put(url(session, "in/data.csv"), b"a,b\n1,2\n")
    assert made.status == 201 and made.json()["path"] == "in/data.csv" and made.json()["size"] == 8
    assert client.run(session, "print(open('in/data.csv').read())")["stdout"] == "a,b\n1,2\n\n"
    client.run(session, "open('in/out.txt', 'w').write('from the kernel')")
    got = client.get(url(session, "in/out.txt"))
    assert got.body == b"from the kernel" and got.headers["x-content-type-options"] == "nosniff"
    head = client.request("HEAD", url(session, "in/out.txt"))
    assert head.headers["content-length"] == "15" and head.body == b""
    assert client.put(url(session, "in/data.csv"), b"new").status == 200
    assert client.run(session, "open('in/data.csv', 'a').write('+')")["status"] == "ok"
    assert client.get(url(session, "in/data.csv")).body == b"new+"
    assert client.delete(url(session, "in/data.csv")).status == 204
    assert client.get(url(session, "in/data.csv")).code == "file_not_found"


@pytest.mark.parametrize("encoded,name", [
    ("a+b.txt", "a+b.txt"), ("a%2Bb.txt", "a+b.txt"), ("a%20b", "a b"), ("100%25.txt", "100%.txt"),
    ("%252e%252e%252fx", "%2e%2e%2fx"), ("a%3Fb", "a?b"), ("a%23b", "a#b"), ("%C3%BC", "ü"), ("x%2Fy", "x/y"),
])
def test_names_are_decoded_exactly_once(client, shared_session, encoded, name):
    assert client.put(url(shared_session, encoded), b"1").status == 201
    listed = [f["path"] for f in client.get(url(shared_session) + "?recursive=true").json()["files"] if f["type"] == "file"]
    assert listed == [name]
    assert client.get(url(shared_session, encoded)).body == b"1"


@pytest.mark.parametrize("path", [
    "../x", "..%2f..%2fetc/passwd", "%c0%ae%c0%ae/x", "a//b", "./a", "a/./b", "a/", "/etc/passwd", "a%00b", "x" * 4096, "a/../b",
    "%2e%2e/x", "a%zz", "a%0ab",
])
def test_paths_that_lead_out_or_are_malformed(client, shared_session, path):
    before = client.file_names(shared_session)
    answer = client.put(url(shared_session) + "/" + path, b"1")
    if path.startswith("%c0"):
        assert answer.status in (201, 400)  # bytes that are no UTF-8 are a name like any other, never ".."
    else:
        assert 400 <= answer.status < 500, answer
        assert client.file_names(shared_session) == before


def test_links_and_special_files_lead_nowhere(client, session):
    code = ("import os, socket\nos.symlink('/tmp', 'up'); os.symlink('/etc/passwd', 'pw'); os.symlink('loop', 'loop')\n"
            "os.symlink('ok.txt', 'inside'); open('ok.txt', 'w').write('fine'); os.mkfifo('fifo'); os.mkdir('d')\n"
            "s = socket.socket(socket.AF_UNIX); s.bind('sock')")
    assert client.run(session, code)["status"] == "ok"
    assert client.put(url(session, "up/new/f"), b"x").status in (400, 403, 404, 409)
    for path in ("pw", "loop", "fifo", "sock", "d"):
        began = time.monotonic()
        assert 400 <= client.get(url(session, path)).status < 500, path
        assert time.monotonic() - began < 5
    assert client.get(url(session, "inside")).body == b"fine"
    assert client.put(url(session, "pw"), b"x").status in (200, 201, 400, 409)
    assert b"root:" in open("/etc/passwd", "rb").read()
    assert not os.path.exists("/tmp/new")


def test_ranges(client, shared_session):
    client.put(url(shared_session, "r"), bytes(range(100)))
    part = client.get(url(shared_session, "r"), headers={"Range": "bytes=10-19"})
    assert part.status == 206 and part.body == bytes(range(10, 20)) and part.headers["content-range"] == "bytes 10-19/100"
    assert client.get(url(shared_session, "r"), headers={"Range": "bytes=-5"}).body == bytes(range(95, 100))
    refused = client.get(url(shared_session, "r"), headers={"Range": "bytes=200-"})
    assert refused.status == 416 and refused.headers["content-range"] == "bytes */100"
    several = client.get(url(shared_session, "r"), headers={"Range": "bytes=0-1,50-51"})
    assert several.status == 206 and several.headers["content-type"].startswith("multipart/byteranges; boundary=")
    assert several.body.count(b"Content-Range: bytes ") == 2 and int(several.headers["content-length"]) == len(several.body)
    assert client.get(url(shared_session, "r"), headers={"Range": "lines=1-2"}).status == 200


def test_conditions(client, shared_session):
    client.put(url(shared_session, "c"), b"one")
    weak = client.get(url(shared_session, "c")).headers["etag"]
    assert weak.startswith("W/")
    time.sleep(2.2)
    etag = client.get(url(shared_session, "c")).headers["etag"]
    assert not etag.startswith("W/")
    assert client.get(url(shared_session, "c"), headers={"If-None-Match": etag}).status == 304
    assert client.put(url(shared_session, "c"), b"two", headers={"If-None-Match": "*"}).code == "precondition_failed"
    assert client.put(url(shared_session, "c"), b"two", headers={"If-Match": '"other"'}).status == 412
    assert client.get(url(shared_session, "c")).body == b"one"
    assert client.get(url(shared_session, "c"), headers={"Range": "bytes=0-0", "If-Range": etag}).status == 206
    assert client.get(url(shared_session, "c"), headers={"Range": "bytes=0-0", "If-Range": '"other"'}).status == 200
    assert client.put(url(shared_session, "c"), b"two", headers={"If-Match": etag}).status == 200
    assert client.get(url(shared_session, "c")).body == b"two"


def test_digests(client, shared_session):
    digest = "sha-256=:" + base64.b64encode(hashlib.sha256(b"data").digest()).decode() + ":"
    assert client.put(url(shared_session, "d"), b"data", headers={"Repr-Digest": digest}).status == 201
    assert client.put(url(shared_session, "d"), b"DATA", headers={"Repr-Digest": digest}).code == "digest_mismatch"
    got = client.get(url(shared_session, "d"), headers={"Want-Repr-Digest": "sha-256=1"})
    assert got.body == b"data" and got.headers["repr-digest"] == digest


@pytest.mark.parametrize("name", ["x.html", "x.svg", "x.js", 'quo"te.txt', "grüße.pdf"])
def test_nothing_is_served_for_a_browser_to_run(client, shared_session, name):
    import urllib.parse
    client.put(url(shared_session, urllib.parse.quote(name)), b"<script>alert(1)</script>", headers={"Content-Type": "text/html"})
    got = client.get(url(shared_session, urllib.parse.quote(name)))
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-type"] not in ("text/html", "image/svg+xml", "text/javascript")
    if not name.isascii():
        assert "filename*=UTF-8''gr%C3%BC%C3%9Fe.pdf" in got.headers["content-disposition"]


def raw(client, text, body=b"", close_after=None):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(client.socket_path)
    s.sendall(text.encode() + body)
    if close_after is not None:
        time.sleep(close_after)
        s.close()
        return b""
    data = b""
    while chunk := s.recv(65536):
        data += chunk
    s.close()
    return data


def test_a_cut_upload_changes_nothing(client, session):
    client.put(url(session, "f"), b"old")
    head = (f"PUT {url(session, 'f')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n"
            "Content-Length: 10000000\r\n\r\n")
    raw(client, head, b"n" * 1_000_000, close_after=0.3)
    time.sleep(0.7)
    assert client.get(url(session, "f")).body == b"old"
    assert client.file_names(session) == ["f"]
    assert client.run(session, "import os; print(os.listdir('.'))")["stdout"] == "['f']\n"


def test_uploads_that_trickle_do_not_hold_all_workers(client, session):
    client.put(f"/v1/sessions/{session}/files/f", b"here")
    slow = []
    try:
        for i in range(10):  # more than there are workers for files
            peer = socket.socket(socket.AF_UNIX)
            slow.append(peer)
            peer.connect(client.socket_path)
            peer.sendall(f"PUT /v1/sessions/{session}/files/slow{i} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n"
                         f"Authorization: Bearer {client.key}\r\n\r\nabc".encode())
        time.sleep(0.5)
        began = time.monotonic()
        assert client.get(f"/v1/sessions/{session}/files/f").body == b"here"
        assert time.monotonic() - began < 35
    finally:
        for peer in slow:
            peer.close()
    assert [f["path"] for f in client.get(f"/v1/sessions/{session}/files").json()["files"]] == ["f"]


def test_chunked_uploads_arrive_whole_or_are_refused(client, session):
    body = os.urandom(300_000)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 9999]), body[i:i + 9999]) for i in range(0, len(body), 9999)) + b"0\r\n\r\n"
    head = (f"PUT {url(session, 'chunked')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n"
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
    answer = raw(client, head, chunks)
    if answer.startswith(b"HTTP/1.1 201"):
        assert client.get(url(session, "chunked")).body == body
    else:
        assert answer.startswith(b"HTTP/1.1 411"), answer[:200]
        assert client.get(url(session, "chunked")).status == 404


def test_empty_files(client, shared_session):
    assert client.put(url(shared_session, "empty"), b"").status == 201
    assert client.get(url(shared_session, "empty")).body == b""


def test_folders(client, session):
    for path in ("a/1", "a/2", "b/c/3", ".hidden"):
        client.put(url(session, path), b"x")
    assert client.file_names(session, "") == [".hidden", "a", "b"]
    assert client.file_names(session, "?recursive=true&glob=**/[12]") == ["a/1", "a/2"]
    page = client.get(url(session) + "?recursive=true&limit=2").json()
    rest = client.get(url(session) + "?recursive=true&limit=100&cursor=" + page["next_cursor"]).json()
    together = [f["path"] for f in page["files"] + rest["files"]]
    assert together == sorted(together) and len(set(together)) == len(together) == 7
    assert client.delete(url(session, "a")).code == "folder_not_empty"
    assert client.delete(url(session, "a") + "?recursive=true").status == 204
    assert "a/1" not in client.file_names(session)


def test_names_that_are_no_utf8_are_listed_and_fetched(client, session):
    client.run(session, "open(b'bad\\xff', 'w').write('x')")
    (entry,) = client.get(url(session)).json()["files"]
    assert base64.b64decode(entry["path_base64"]) == b"bad\xff"
    assert client.get(url(session, "bad%FF")).body == b"x"


def test_sizes_beyond_2_gib(client, session):
    client.run(session, "open('sparse', 'wb').truncate(3 << 30)")
    (entry,) = client.get(url(session)).json()["files"]
    assert entry["size"] == 3 << 30
    got = client.get(url(session, "sparse"), headers={"Range": f"bytes={(3 << 30) - 2}-"})
    assert got.body == b"\0\0"


def test_too_large_is_refused_with_the_limit(client, session):
    head = (f"PUT {url(session, 'big')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n"
            f"Content-Length: {(3 << 30) + 1}\r\nConnection: close\r\n\r\n")
    answer = raw(client, head)
    assert answer.startswith(b"HTTP/1.1 413") and b"application/problem+json" in answer


@pytest.mark.parametrize("code", ["shutil.rmtree(here, ignore_errors=True)", "os.chmod(here, 0)",
                                  "shutil.rmtree(here, ignore_errors=True); os.symlink('/', here)"])
def test_a_workspace_without_its_folder(client, session, code):
    client.run(session, "import os, shutil; here = os.getcwd(); " + code)
    assert client.run(session, "print(1)")["stdout"] == "1\n"
    for _ in range(2):
        assert client.put(url(session, "a"), b"x").status < 500
        assert client.get(url(session, "a")).status < 500
        assert client.get(url(session)).status < 500
        assert "etc" not in client.get(url(session)).text
    assert client.delete(f"/v1/sessions/{session}").status == 204
    assert os.path.isdir("/etc")


def test_a_file_that_is_replaced_while_others_write_or_read_it(client, session):
    bodies = [bytes([65 + i]) * 300_000 for i in range(6)]
    client.put(url(session, "f"), bodies[0])
    with concurrent.futures.ThreadPoolExecutor(7) as pool:
        cell = pool.submit(client.run, session, "import time\nf = open('f')\ntime.sleep(1)\nprint(set(f.read()), end='')")
        time.sleep(0.3)
        assert {a.status for a in pool.map(lambda b: client.put(url(session, "f"), b), bodies)} == {200}
        assert cell.result()["stdout"] == "{'A'}"  # what it had opened stays what it was
    assert client.get(url(session, "f")).body in bodies
    assert client.file_names(session) == ["f"]
    assert client.run(session, "print(len(open('f').read()))")["stdout"] == "300000\n"


def test_what_a_cell_made_unreadable_is_said(client, session):
    client.run(session, "import os; open('s', 'w').write('x'); os.chmod('s', 0)")
    assert client.get(url(session, "s")).status in (403, 200)  # 200: as one user there is nothing to keep out


def test_large_files_in_constant_memory(stack, client, session):
    body = os.urandom(1 << 20) * 48
    assert client.put(url(session, "large"), body).status == 201
    got = client.get(url(session, "large"))
    assert hashlib.sha256(got.body).digest() == hashlib.sha256(body).digest()
    for pid in stack.workers("bulk"):
        peak = next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM"))
        if "asan" not in os.readlink(f"/proc/{pid}/exe") and "ASAN_OPTIONS" not in os.environ:
            assert int(peak.split()[1]) < 40_000


def test_a_download_that_is_left_early_hurts_nobody(stack, client, session):
    client.put(url(session, "big"), b"x" * (8 << 20))
    before = stack.workers("bulk")
    for _ in range(30):
        connection, response = client.start("GET", url(session, "big"))
        response.read(1000)
        connection.close()
    assert client.get(url(session, "big")).status == 200
    assert stack.workers("bulk") == before
    assert client.get(f"/v1/sessions/{session}").json()["state"] == "ready"
