"""Files: round trips, names, lists, ranges, conditions, what is large, what leads out."""
import base64
import hashlib
import os
import socket
import time
import urllib.parse

import pytest

from client import files_url as url

MEMORY = 40_000  # KiB a worker that moves a large file may have needed


def test_round_trip_and_shared_with_the_code(client, session):
    made = client.put(url(session, "in/data.csv"), b"a,b\n1,2\n")
    assert made.status == 201 and made.json()["path"] == "in/data.csv" and made.json()["size"] == 8
    assert client.run(session, "print(open('in/data.csv').read())")["stdout"] == "a,b\n1,2\n\n"
    client.run(session, "open('in/out.txt', 'w').write('from the code')")
    assert client.get(url(session, "in/out.txt")).body == b"from the code"
    head = client.request("HEAD", url(session, "in/out.txt"))
    assert head.headers["content-length"] == "13" and head.body == b""
    assert client.put(url(session, "in/data.csv"), b"new").status == 200
    assert client.run(session, "open('in/data.csv', 'a').write('+')")["status"] == "ok"
    assert client.get(url(session, "in/data.csv")).body == b"new+"
    assert client.delete(url(session, "in/data.csv")).status == 204
    assert client.get(url(session, "in/data.csv")).code == "file_not_found"
    assert client.delete(url(session, "in/data.csv")).code == "file_not_found"
    assert client.put(url(session, "empty"), b"").status == 201 and client.get(url(session, "empty")).body == b""


def test_names(client, session):
    wanted = {"a+b.txt": "a+b.txt", "a%20b": "a b", "100%25.txt": "100%.txt", "%252e%252e%252fx": "%2e%2e%2fx", "a%3Fb": "a?b",
              "a%23b": "a#b", "gr%C3%BC%C3%9Fe": "grüße", "x%2Fy": "x/y", "%F0%9F%98%80": "\U0001f600", "quo%22te'": "quo\"te'",
              "back%5Cslash": "back\\slash", "a%26b=c": "a&b=c"}
    for encoded, name in wanted.items():
        assert client.put(url(session, encoded), name.encode()).status == 201, name
        assert client.get(url(session, encoded)).body == name.encode(), name
    listed = [f["path"] for f in client.get(url(session) + "?recursive=true").json()["files"] if f["type"] == "file"]
    assert listed == sorted(wanted.values(), key=str.encode)
    found = client.run(session, "import os; print(sorted(os.listdir('.')))")["stdout"]
    assert found == repr(sorted({n.split("/")[0] for n in wanted.values()})) + "\n"


@pytest.mark.parametrize("path", ["../x", "..%2f..%2fetc/passwd", "a//b", "./a", "a/./b", "a/", "/etc/passwd", "a%00b", "x" * 4096,
                                  "a/../b", "a%zz", "a%0ab"],
                         ids=lambda path: urllib.parse.quote(path[:20], safe=""))
def test_paths_that_lead_out_or_are_malformed(client, session, path):
    assert 400 <= client.put(url(session) + "/" + path, b"1").status < 500
    assert 400 <= client.get(url(session) + "/" + path).status < 500
    assert client.file_names(session) == []


def test_links_and_special_files(client, fresh, differs):
    code = ("import os\nos.symlink('/tmp', 'up'); os.symlink('/etc/passwd', 'pw'); os.symlink('loop', 'loop')\n"
            "os.symlink('ok.txt', 'inside'); open('ok.txt', 'w').write('fine'); os.mkfifo('fifo'); os.mkdir('d')")
    assert client.run(fresh, code)["status"] == "ok"
    for path in ("loop", "fifo", "d", "up/x"):
        began = time.monotonic()
        assert 400 <= client.get(url(fresh, path)).status < 500, path
        assert time.monotonic() - began < 5
    assert client.get(url(fresh, "inside")).body == b"fine"
    assert client.get(url(fresh, "ok.txt/x")).code == "file_not_found"
    assert client.put(url(fresh, "ok.txt/x"), b"x").code == "not_a_folder"
    assert client.put(url(fresh, "d"), b"x").code == "not_a_folder"
    assert client.get(url(fresh, "d")).code == "not_a_file"
    types = {f["path"]: f["type"] for f in client.get(url(fresh)).json()["files"]}
    assert (types["d"], types["ok.txt"], types["fifo"]) == ("directory", "file", "other")
    if differs("links"):
        assert (types["inside"], types["up"]) == ("file", "directory") and "loop" not in types
        return
    assert (types["inside"], types["up"], types["loop"], types["pw"]) == ("symlink",) * 4
    assert 400 <= client.put(url(fresh, "up/new/f"), b"x").status < 500
    assert 400 <= client.get(url(fresh, "pw")).status < 500
    assert client.run(fresh, "print(os.path.exists('/tmp/new'))")["stdout"] == "False\n"


def test_lists(client, session):
    for path in ("a/1", "a/2", "b/c/3", ".hidden"):
        client.put(url(session, path), b"x")
    assert client.file_names(session, "") == [".hidden", "a", "b"]
    assert client.file_names(session, "?recursive=true&glob=**/[12]") == ["a/1", "a/2"]
    assert client.file_names(session, "?path=b&recursive=true&glob=c/*") == ["b/c/3"]
    assert client.get(url(session) + "?path=none").code == "file_not_found"
    page = client.get(url(session) + "?recursive=true&limit=2").json()
    rest = client.get(url(session) + "?recursive=true&limit=100&cursor=" + page["next_cursor"]).json()
    together = [f["path"] for f in page["files"] + rest["files"]]
    assert together == sorted(together) and len(together) == 7 and rest["next_cursor"] is None
    entry = next(f for f in page["files"] + rest["files"] if f["path"] == "a/1")
    assert (entry["type"], entry["size"]) == ("file", 1) and entry["mtime"].endswith("Z")
    assert client.delete(url(session, "a")).code == "folder_not_empty"
    assert client.delete(url(session, "a") + "?recursive=true").status == 204
    assert "a/1" not in client.file_names(session)


def test_ranges(client, session):
    client.put(url(session, "r"), bytes(range(100)))
    part = client.get(url(session, "r"), headers={"Range": "bytes=10-19"})
    assert part.status == 206 and part.body == bytes(range(10, 20)) and part.headers["content-range"] == "bytes 10-19/100"
    assert client.get(url(session, "r"), headers={"Range": "bytes=-5"}).body == bytes(range(95, 100))
    refused = client.get(url(session, "r"), headers={"Range": "bytes=200-"})
    assert refused.status == 416 and refused.headers["content-range"] == "bytes */100"
    several = client.get(url(session, "r"), headers={"Range": "bytes=0-1,50-51"})
    assert several.status == 206 and several.body.count(b"Content-Range: bytes ") == 2
    assert client.get(url(session, "r"), headers={"Range": "lines=1-2"}).status == 200


def test_conditions_and_digests(client, session):
    digest = "sha-256=:" + base64.b64encode(hashlib.sha256(b"one").digest()).decode() + ":"
    assert client.put(url(session, "c"), b"one", headers={"Repr-Digest": digest}).status == 201
    assert client.put(url(session, "c"), b"ONE", headers={"Repr-Digest": digest}).code == "digest_mismatch"
    assert client.get(url(session, "c"), headers={"Want-Repr-Digest": "sha-256=1"}).headers["repr-digest"] == digest
    time.sleep(2.2)
    etag = client.get(url(session, "c")).headers["etag"]
    assert client.get(url(session, "c"), headers={"If-None-Match": etag}).status == 304
    assert client.put(url(session, "c"), b"two", headers={"If-None-Match": "*"}).code == "precondition_failed"
    assert client.put(url(session, "c"), b"two", headers={"If-Match": '"other"'}).status == 412
    assert client.get(url(session, "c")).body == b"one"
    assert client.put(url(session, "c"), b"two", headers={"If-Match": etag}).status == 200
    assert client.get(url(session, "c")).body == b"two"


def test_a_cut_upload_changes_nothing(client, session):
    client.put(url(session, "f"), b"old")
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(client.socket_path)
        peer.sendall(f"PUT {url(session, 'f')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n"
                     "Content-Length: 9000000\r\n\r\n".encode() + b"n" * 1_000_000)
        time.sleep(0.3)
    time.sleep(0.7)
    assert client.get(url(session, "f")).body == b"old"
    assert client.run(session, "import os; print(os.listdir('.'))")["stdout"] == "['f']\n"


def test_the_limit(client, session):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(20)
        peer.connect(client.socket_path)
        peer.sendall(f"PUT {url(session, 'big')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\n"
                     f"Content-Length: {(64 << 20) + 1}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while b"}" not in answer and (piece := peer.recv(65536)):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 413") and b"application/problem+json" in answer


def test_large_files_in_constant_memory(stack, client, session):
    body = os.urandom(1 << 20) * 50
    digest = hashlib.sha256(body).hexdigest()
    assert client.put(url(session, "large"), body, timeout=120).status == 201
    code = "import hashlib; print(hashlib.sha256(open('large', 'rb').read()).hexdigest())"
    assert client.run(session, code)["stdout"].strip() == digest
    assert hashlib.sha256(client.get(url(session, "large"), timeout=120).body).hexdigest() == digest
    part = client.get(url(session, "large"), headers={"Range": f"bytes={(50 << 20) - 3}-"})
    assert part.status == 206 and part.body == body[-3:]
    for pid in stack.workers("bulk"):
        peak = next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM"))
        if "ASAN_OPTIONS" not in os.environ:
            assert int(peak.split()[1]) < MEMORY


def test_many_files(client, fresh):
    client.run(fresh, "for i in range(1500): open(f'file-number-{i:05}', 'w')")
    page, seen = client.get(url(fresh) + "?limit=1000").json(), []
    seen += page["files"]
    while page["next_cursor"]:
        page = client.get(url(fresh) + "?limit=1000&cursor=" + urllib.parse.quote(page["next_cursor"])).json()
        seen += page["files"]
    assert [f["path"] for f in seen] == [f"file-number-{i:05}" for i in range(1500)]


def test_a_workspace_without_its_folder(client, fresh):
    client.run(fresh, "import os, shutil; shutil.rmtree(os.getcwd(), ignore_errors=True)")
    assert client.run(fresh, "print(1)")["stdout"] == "1\n"
    assert client.put(url(fresh, "a"), b"x").status < 500
    assert client.get(url(fresh)).status < 500
