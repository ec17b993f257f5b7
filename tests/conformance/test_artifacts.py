"""One-call runs and what they keep of the files they made. Versions, quotas and owners, which no backend has a part in, are
in tests/integration/test_artifacts.py.
"""
import base64
import hashlib

import pytest


def ran(client, code, timeout=20, **members):
    answer = client.post("/v1/exec", {"code": code, "timeout": timeout, **members}, timeout=timeout + 60)
    assert answer.status == 200, answer
    return answer.json()


def inline(path, data):
    return {"path": path, "content_base64": base64.b64encode(data).decode()}


def content(client, artifact):
    return client.get(f"/v1/artifacts/{artifact['artifact_id']}/versions/{artifact['version']}/content").body


def test_what_a_run_changed_and_only_that(client):
    code = ("import os\nfor d in ('inputs', 'tmp', 'd', '.cache', 'd/.x', 'd/tmp'): os.makedirs(d, exist_ok=True)\n"
            "for f in ('new', 'd/deep.csv', 'inputs/i', 'tmp/t', '.dot', '.cache/c', 'd/.x/y', 'd/tmp/kept', 'grüße'): open(f, 'w').write(f)\n"
            "os.mkfifo('fifo')\nopen('old', 'a').write('+')\nprint('done')")
    r = ran(client, code, capture=True, inputs=[inline("old", b"o"), inline("same", b"s")])
    assert r["stdout"] == "done\n"
    assert [a["path"] for a in r["artifacts"]] == ["d/deep.csv", "d/tmp/kept", "grüße", "new", "old"]
    assert [a["ref"] for a in r["artifacts"]] == ["A1", "A2", "A3", "A4", "A5"]
    assert r["artifacts_left_out"] == {"count": 0, "files": []}
    old = r["artifacts"][4]
    assert content(client, old) == b"o+" and old["sha256"] == hashlib.sha256(b"o+").hexdigest() and old["size"] == 2
    assert client.get("/v1/sessions/" + r["session"]["session_id"]).code == "session_not_found"


def test_patterns_name_what_is_kept_changed_or_not(client, fresh):
    client.put(f"/v1/sessions/{fresh}/files/o/before.csv", b"1")
    r = ran(client, "open('o/b.txt', 'w'); open('o/empty.csv', 'w'); x = 1", session_id=fresh, outputs=["**/*.csv"])
    assert [a["path"] for a in r["artifacts"]] == ["o/before.csv", "o/empty.csv"]
    assert [content(client, a) for a in r["artifacts"]] == [b"1", b""]
    assert ran(client, "x += 1; x", session_id=fresh, capture=True)["artifacts"] == []  # the state stays, nothing was changed
    assert client.run(fresh, "print(x)")["stdout"] == "2\n"


@pytest.mark.parametrize("code,reason", [("open('f', 'w').write('1'); 1/0", "exception"),
                                         ("open('f', 'w').write('1'); import time; time.sleep(60)", "timeout"),
                                         ("open('f', 'w').write('1')\nwhile True:\n try:\n  while True: pass\n except BaseException: pass", "timeout"),
                                         ("open('f', 'w').write('1'); import os; os._exit(1)", "kernel_died")],
                         ids=["exception", "timeout", "stubborn", "died"])
def test_also_after_a_failure(client, code, reason):
    r = ran(client, code, timeout=2 if reason == "timeout" else 20, capture=True)
    assert r["reason"] == reason and [a["path"] for a in r["artifacts"]] == ["f"] and content(client, r["artifacts"][0]) == b"1"


def test_at_most_64_and_what_is_left_out_is_said(client):
    r = ran(client, "for i in range(70): open(f'f{i:02}', 'w').write(str(i))\nopen('a-big', 'wb').write(bytes((1 << 20) + 1))\n"
                    "open('b-largest', 'wb').write(bytes(1 << 20))", capture=True)
    assert len(r["artifacts"]) == 64 and r["artifacts"][0]["size"] == 1 << 20 and r["artifacts_left_out"]["count"] == 8
    left = {f["path"]: f["reason"] for f in r["artifacts_left_out"]["files"]}
    assert left == {"a-big": "too_large", **{f"f{i}": "too_many" for i in range(63, 70)}}


def test_what_was_kept_goes_into_the_next_run(client):
    where = {"conversation_id": "artifacts in"}
    first = ran(client, "open('t', 'wb').write(bytes(range(256)) * 1000)", capture=True, **where)["artifacts"][0]
    again = ran(client, "data = open('in/got', 'rb').read(); print(len(data)); open('t', 'w').write('2')", capture=True,
                inputs=[{"path": "in/got", "artifact": "A1"}], **where)
    assert again["stdout"] == "256000\n" and again["inputs_loaded"][0]["sha256"] == first["sha256"]
    assert [(a["path"], a["ref"], a["version"]) for a in again["artifacts"]] == [("t", "A1", 2)]


def test_a_time_set_back(client, differs):
    code = ("import os\nst = os.stat('f')\nopen('f', 'w').write('b')\nos.utime('f', ns=(st.st_atime_ns, st.st_mtime_ns))")
    r = ran(client, code, capture=True, inputs=[inline("f", b"a")])
    assert [a["path"] for a in r["artifacts"]] == ([] if differs("evidence") else ["f"])
    r = ran(client, code, outputs=["f"], inputs=[inline("f", b"a")])
    assert content(client, r["artifacts"][0]) == b"b"


def test_as_a_stream(client):
    events = [e for e in client.stream("POST", "/v1/exec", {"code": "print('hi'); open('s', 'w').close()", "capture": True}) if e[0]]
    assert [e[0] for e in events] == ["execution", "stdout", "result"] and [a["path"] for a in events[-1][2]["artifacts"]] == ["s"]
