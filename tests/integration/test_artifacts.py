"""One-call runs and what they keep: inputs, outputs, capture, versions, references, quotas, the sweep."""
import base64
import concurrent.futures
import hashlib
import os
import time

import pytest

from stack import wait_until

SETTINGS = {"SANDBOX_MAX_INPUT_BYTES": 1 << 20, "ARTIFACT_MAX_BYTES": 1 << 20, "ARTIFACT_MAX_COUNT_PER_USER": 120,
            "ARTIFACT_MAX_TOTAL_BYTES_PER_USER": 5 << 19}


def once(client, code, timeout=20, headers=None, **members):
    return client.post("/v1/exec", {"code": code, "timeout": timeout, **members}, headers=headers, timeout=timeout + 60)


def ran(client, code, **members):
    answer = once(client, code, **members)
    assert answer.status == 200, answer
    return answer.json()


def inline(path, data):
    return {"path": path, "content_base64": base64.b64encode(data).decode()}


def content(client, artifact, version=None, **kw):
    version = version or artifact["version"]
    return client.get(f"/v1/artifacts/{artifact['artifact_id']}/versions/{version}/content", **kw)


def test_a_call_of_its_own(client):
    r = ran(client, "print(sum(map(int, open('inputs/n.txt'))))", inputs=[inline("inputs/n.txt", b"1\n2\n")])
    assert r["stdout"] == "3\n" and r["status"] == "ok"
    assert r["inputs_loaded"] == [{"path": "inputs/n.txt", "size": 4, "sha256": hashlib.sha256(b"1\n2\n").hexdigest()}]
    assert r["artifacts"] == [] and r["artifacts_left_out"] == {"count": 0, "files": []}
    assert set(r["session"]) == {"session_id", "owner"}
    assert client.get("/v1/sessions/" + r["session"]["session_id"]).code == "session_not_found"


@pytest.mark.parametrize("members", [
    {"inputs": [inline("\ud800", b"x")]}, {"outputs": ["a\udfff"]}, {"conversation_id": "talk \ud800"}, {"\ud800": 1}])
def test_half_a_surrogate_pair_is_no_text(client, members):
    """It has no UTF-8: U+FFFD in its place would make two names one."""
    answer = once(client, "1", **members)
    assert answer.status == 400 and answer.code == "invalid_json", answer
    assert "half of a surrogate pair, \\ud" in answer.json()["detail"], answer


@pytest.mark.parametrize("members", [{"persist": True}, {"ttl": 300}])
def test_a_session_that_is_left_open(client, members):
    name = "left-" + next(iter(members))
    r = ran(client, "x = 7", session_id=name, **members)
    assert r["session"]["state"] == "ready"
    again = ran(client, "print(x)", session_id=name)  # it was there: it stays
    assert again["stdout"] == "7\n" and again["session"]["state"] == "ready"
    assert client.delete("/v1/sessions/" + name).status == 204


def test_capture_finds_what_changed_and_only_that(client):
    code = ("import os\nfor d in ('inputs', 'tmp', 'd', '.cache', 'd/.x', 'd/tmp'): os.makedirs(d, exist_ok=True)\n"
            "for f in ('new', 'd/deep.csv', 'inputs/i', 'tmp/t', '.dot', '.cache/c', 'd/.x/y', 'd/tmp/kept'): open(f, 'w').write(f)\n"
            "os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo')\n"
            "open('old', 'a').write('+')\n")
    r = ran(client, code, capture=True, inputs=[inline("old", b"o"), inline("same", b"s")])
    assert [a["path"] for a in r["artifacts"]] == ["d/deep.csv", "d/tmp/kept", "new", "old"]
    assert [a["ref"] for a in r["artifacts"]] == ["A1", "A2", "A3", "A4"]
    assert all(a["execution_id"] == r["execution_id"] and a["version"] == 1 for a in r["artifacts"])
    assert r["artifacts"][0]["mime_type"].startswith("text/csv")
    got = content(client, r["artifacts"][3])
    assert got.body == b"o+" and got.headers["etag"] == f'"{hashlib.sha256(b"o+").hexdigest()}"'
    digest = base64.b64encode(hashlib.sha256(b"o+").digest()).decode()
    assert got.headers["repr-digest"] == f"sha-256=:{digest}:"
    assert got.headers["content-disposition"].startswith("attachment")
    assert content(client, r["artifacts"][3], headers={"Range": "bytes=1-"}).body == b"+"
    assert content(client, r["artifacts"][3], headers={"If-None-Match": got.headers["etag"]}).status == 304


@pytest.mark.parametrize("code,reason", [("open('f', 'w').write('1'); 1/0", "exception"),
                                         ("open('f', 'w').write('1'); import time; time.sleep(60)", "timeout"),
                                         ("open('f', 'w').write('1'); import os; os._exit(1)", "kernel_died")])
def test_capture_after_a_failure(client, code, reason):
    r = ran(client, code, timeout=2 if reason == "timeout" else 20, capture=True)
    assert r["reason"] == reason and [a["path"] for a in r["artifacts"]] == ["f"]


def test_same_size_and_time_is_seen_by_the_file_systems_evidence(client):
    code = ("import os\nst = os.stat('f')\nopen('f', 'w').write('b')\nos.utime('f', ns=(st.st_atime_ns, st.st_mtime_ns))")
    r = ran(client, code, capture=True, inputs=[inline("f", b"a")])
    assert [a["path"] for a in r["artifacts"]] == ["f"] and content(client, r["artifacts"][0]).body == b"b"


def test_outputs_are_patterns(client):
    r = ran(client, "import os; os.mkdir('o'); open('o/a.csv', 'w'); open('o/b.txt', 'w'); open('inputs/kept', 'w').write('i')",
            outputs=["**/*.csv", "inputs/kept"], inputs=[inline("inputs/x", b"")])
    assert [a["path"] for a in r["artifacts"]] == ["inputs/kept", "o/a.csv"]
    assert r["artifacts"][1]["size"] == 0 and content(client, r["artifacts"][1]).body == b""


def test_at_most_64_and_the_rest_is_said(client):
    r = ran(client, "for i in range(70): open(f'f{i:02}', 'w').write(str(i))\nopen('a-big', 'wb').write(bytes((1 << 20) + 1))", capture=True)
    assert len(r["artifacts"]) == 64 and r["artifacts_left_out"]["count"] == 7
    left = {f["path"]: f["reason"] for f in r["artifacts_left_out"]["files"]}
    assert left == {"a-big": "too_large", **{f"f{i}": "too_many" for i in range(64, 70)}}


def test_versions_and_stable_references(client):
    where = {"conversation_id": "versions"}
    first = ran(client, "open('a', 'w').write('1'); open('b', 'w').write('1')", capture=True, **where)["artifacts"]
    same = ran(client, "open('a', 'w').write('1')", capture=True, **where)["artifacts"]
    assert same == first[:1]  # the same content is the same version
    second = ran(client, "open('a', 'w').write('22')", capture=True, **where)["artifacts"][0]
    assert (second["artifact_id"], second["ref"], second["version"]) == (first[0]["artifact_id"], "A1", 2)
    assert content(client, second, 1).body == b"1" and content(client, second).body == b"22"
    versions = client.get(f"/v1/artifacts/{second['artifact_id']}/versions").json()["versions"]
    assert [v["version"] for v in versions] == [2, 1]
    assert client.delete("/v1/artifacts/" + first[1]["artifact_id"]).status == 204
    third = ran(client, "open('c', 'w').write('1')", capture=True, **where)["artifacts"][0]
    assert third["ref"] == "A3"
    listed = client.get("/v1/artifacts?conversation_id=versions").json()["artifacts"]
    assert [(a["ref"], a["version"]) for a in listed] == [("A3", 1), ("A1", 2)]
    assert content(client, third).body == b"1"  # shared with what was deleted
    page = client.get("/v1/artifacts?conversation_id=versions&limit=1").json()
    rest = client.get("/v1/artifacts?conversation_id=versions&limit=1&cursor=" + page["next_cursor"]).json()
    assert [a["ref"] for a in page["artifacts"] + rest["artifacts"]] == ["A3", "A1"] and rest["next_cursor"] is None


def test_artifacts_as_inputs(client):
    kept = ran(client, "open('t', 'w').write('kept')", capture=True, conversation_id="in")["artifacts"][0]
    by_ref = ran(client, "print(open('got').read())", conversation_id="in", inputs=[{"path": "got", "artifact": "A1"}])
    by_id = ran(client, "print(open('got').read())", inputs=[{"path": "got", "artifact": kept["artifact_id"]}])
    assert by_ref["stdout"] == by_id["stdout"] == "kept\n"
    assert by_ref["inputs_loaded"][0]["sha256"] == kept["sha256"] and by_ref["inputs_loaded"][0]["artifact"] == "A1"
    # a certain version, by reference and by id
    ran(client, "open('t', 'w').write('newer')", capture=True, conversation_id="in")
    for which in ("A1", kept["artifact_id"]):
        r = ran(client, "print(open('x').read(), open('y').read())", conversation_id="in",
                inputs=[{"path": "x", "artifact": which, "version": 1}, {"path": "y", "artifact": which}])
        assert r["stdout"] == "kept newer\n" and [i["version"] for i in r["inputs_loaded"]] == [1, 2]
    before = len(client.get("/v1/sessions").json()["sessions"])
    assert once(client, "1", conversation_id="in", inputs=[{"path": "x", "artifact": "A1", "version": 3}]).code == "artifact_not_found"
    assert once(client, "1", inputs=[{"path": "x", "artifact": "A1", "version": 0}]).code == "bad_value"
    assert once(client, "1", inputs=[{"path": "x", "content_base64": "", "version": 1}]).code == "bad_value"
    assert once(client, "1", inputs=[{"path": "x", "artifact": "A1"}]).code == "artifact_not_found"
    assert len(client.get("/v1/sessions").json()["sessions"]) == before


def test_what_is_refused(client):
    before = len(client.get("/v1/sessions").json()["sessions"])
    big = inline("x", bytes((1 << 20) - 10))
    assert once(client, "1", inputs=[big, inline("y", bytes(20))]).code == "inputs_too_large"
    assert once(client, "1", inputs=[inline("../x", b"")]).code == "bad_path"
    assert once(client, "1", inputs=[{"path": "x"}]).code == "bad_value"
    assert once(client, "1", inputs=[{"path": "x", "content_base64": "?"}]).code == "bad_value"
    assert once(client, "1", inputs=[{"path": "x", "content_base64": "", "mode": 1}]).code == "unknown_member"
    assert once(client, "1", outputs=[""]).code == "bad_value"
    assert once(client, "1", capture=1).code == "wrong_type"
    assert once(client, "1", headers={"Idempotency-Key": "k"}).code == "bad_header"
    assert len(client.get("/v1/sessions").json()["sessions"]) == before


def test_the_largest_inputs_go_through(client):
    r = ran(client, "import os; print(os.path.getsize('x'))", inputs=[inline("x", bytes(1 << 20))])
    assert r["stdout"] == f"{1 << 20}\n"


def test_idempotency(client):
    call = {"conversation_id": "idem", "capture": True, "headers": {"Idempotency-Key": "one"}}
    first = once(client, "open('i', 'w').write('1')", **call)
    again = once(client, "open('i', 'w').write('1')", **call)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json() and len(first.json()["artifacts"]) == 1
    assert once(client, "open('i', 'w').write('1')", outputs=["x"], **call).code == "idempotency_mismatch"


def test_as_a_stream(client):
    events = [e for e in client.stream("POST", "/v1/exec", {"code": "print('hi'); open('s', 'w').close()", "capture": True}) if e[0]]
    assert [e[0] for e in events] == ["execution", "stdout", "result"]
    result = events[-1][2]
    assert [a["path"] for a in result["artifacts"]] == ["s"]
    assert client.get("/v1/sessions/" + result["session"]["session_id"]).code == "session_not_found"


def test_another_owner_sees_nothing(stack, client):
    kept = ran(client, "open('p', 'w').write('mine')", capture=True, conversation_id="private")["artifacts"][0]
    other = stack.client(stack.key("someone-else", "execute"))
    assert other.get("/v1/artifacts").json()["artifacts"] == []
    for path in ("", "/versions", "/versions/1/content"):
        assert other.get("/v1/artifacts/" + kept["artifact_id"] + path).code == "artifact_not_found"
    assert other.delete("/v1/artifacts/" + kept["artifact_id"]).code == "artifact_not_found"
    assert once(other, "1", inputs=[{"path": "x", "artifact": kept["artifact_id"]}]).code == "artifact_not_found"
    assert content(client, kept).body == b"mine"


def test_calls_at_once_keep_apart(client):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda i: ran(client, f"open('n', 'w').write('{i}')", capture=True), range(3)))
    for i, r in enumerate(results):
        assert [(a["path"], a["ref"]) for a in r["artifacts"]] == [("n", "A1")]
        assert content(client, r["artifacts"][0]).body == str(i).encode()


def test_runs_at_once_in_one_conversation(stack, client):
    """Each reads its own inputs, and none of them ends the session under another, or under whoever opened it meanwhile."""
    slow = "import time; time.sleep(1.5); print(open('inputs/n').read())"
    quick = "print(open('inputs/n').read())"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, more in (("both", {}), ("kept", {"persist": True})):
            first = pool.submit(ran, client, slow, conversation_id=name, inputs=[inline("inputs/n", b"1")])
            wait_until(lambda: stack.sql("SELECT 1 FROM sessions WHERE state = 'busy' AND name = ?", "c-" + name), 20, "a run")
            second = pool.submit(ran, client, quick, conversation_id=name, inputs=[inline("inputs/n", b"2")], **more)
            assert (first.result()["stdout"], second.result()["stdout"]) == ("1\n", "2\n")
            assert client.get("/v1/sessions/c-" + name).status == (200 if more else 404)
        client.delete("/v1/sessions/c-kept")

        first = pool.submit(ran, client, "x = 7\n" + slow, conversation_id="opened", inputs=[inline("inputs/n", b"1")])
        wait_until(lambda: stack.sql("SELECT 1 FROM sessions WHERE state = 'busy' AND name = 'c-opened'"), 20, "a run")
        opened = client.post("/v1/sessions", {"conversation_id": "opened"})
        assert opened.status == 200 and opened.json()["ttl"] == 1200.0
        assert first.result()["stdout"] == "1\n"
        assert client.run("c-opened", "print(x)")["stdout"] == "7\n"
        client.delete("/v1/sessions/c-opened")


def test_inputs_that_do_not_fit_leave_nothing(client):
    before = len(client.get("/v1/sessions").json()["sessions"])
    assert once(client, "1", inputs=[inline("a", b"1"), inline("a/b", b"2")]).code == "not_a_folder"
    assert len(client.get("/v1/sessions").json()["sessions"]) == before


def test_names_are_safe_in_a_download(client):
    names = ['a"b\\.html', "ü€.svg", "semi;colon.txt"]
    r = ran(client, f"for n in {names!r} + ['x\\r\\nX-Evil: 1']: open(n, 'w').write('<script>')", capture=True)
    kept = r["artifacts"]
    assert [f["reason"] for f in r["artifacts_left_out"]["files"]] == ["unreadable"]
    assert sorted(a["path"] for a in kept) == sorted(names)
    for a in kept:
        got = content(client, a)
        assert got.status == 200 and got.body == b"<script>" and "x-evil" not in got.headers
        assert got.headers["content-disposition"].startswith("attachment") and got.headers["x-content-type-options"] == "nosniff"
        assert "html" not in got.headers["content-type"] and "svg" not in got.headers["content-type"]


def test_quotas_are_of_an_owner_and_say_which(stack):
    """Versions count, each with its own size; deleting makes room; another owner has a quota of its own."""
    many, large = (stack.client(stack.key(owner)) for owner in ("many", "large"))
    code = "for i in range(50): open(f'f{i:02}', 'w').write('%d')"
    results = [ran(many, code % i, capture=True, conversation_id="m") for i in range(3)]
    assert [len(r["artifacts"]) for r in results] == [50, 50, 20]
    assert results[2]["artifacts_left_out"]["count"] == 30
    assert {f["reason"] for f in results[2]["artifacts_left_out"]["files"]} == {"quota_count"}
    assert results[2]["status"] == "ok"
    many.delete("/v1/artifacts/" + results[0]["artifacts"][-1]["artifact_id"])  # two versions of it
    r = ran(many, "for i in range(3): open(f'g{i}', 'w')", capture=True, conversation_id="m")
    assert [a["path"] for a in r["artifacts"]] == ["g0", "g1"] and r["artifacts_left_out"]["files"] == [{"path": "g2", "reason": "quota_count"}]
    # the same content twice counts twice: what others keep shows nowhere
    r = ran(large, "for i in range(3): open(f'{i}', 'wb').write(bytes(1 << 20))", capture=True)
    assert [a["path"] for a in r["artifacts"]] == ["0", "1"] and r["artifacts_left_out"]["files"] == [{"path": "2", "reason": "quota_bytes"}]
    assert stack.sql("SELECT versions, bytes FROM artifact_usage WHERE owner = 'large'") == [(2, 2 << 20)]
    # what the quota left out takes no room either, or runs without end would fill the disk
    r = ran(large, "for i in range(3): open(f'{i}', 'wb').write(bytes([i + 1]) * (1 << 20))", capture=True)
    assert r["artifacts"] == [] and r["artifacts_left_out"]["count"] == 3
    named = {sha[2:] for sha, in stack.sql("SELECT sha256 FROM artifact_versions")}
    assert blobs(stack) <= named


def test_contents_shared_by_owners_show_nothing_of_one_another(stack, client):
    data = os.urandom(16).hex()
    digest = hashlib.sha256(data.encode()).hexdigest()
    other = stack.client(stack.key("sharer"))
    mine, theirs = (ran(c, f"open('w', 'w').write('{data}')", capture=True)["artifacts"][0] for c in (client, other))
    assert mine["sha256"] == theirs["sha256"] == digest and mine["artifact_id"] != theirs["artifact_id"]
    assert (theirs["ref"], theirs["version"]) == ("A1", 1)  # as for whoever is the first to have it
    assert client.delete("/v1/artifacts/" + mine["artifact_id"]).status == 204
    assert content(other, theirs).body == data.encode() and digest[2:] in blobs(stack)
    assert other.delete("/v1/artifacts/" + theirs["artifact_id"]).status == 204
    assert digest[2:] not in blobs(stack)


def blobs(stack):
    return {f for _, _, names in os.walk(os.path.join(stack.state, "artifacts")) for f in names}


def test_contents_are_shared_removed_and_swept(stack, client):
    data = os.urandom(16).hex()
    digest = hashlib.sha256(data.encode()).hexdigest()
    two = ran(client, f"for f in 'uv': open(f, 'w').write('{data}')", capture=True)["artifacts"]
    assert [a["sha256"] for a in two] == [digest] * 2 and digest[2:] in blobs(stack)
    client.delete("/v1/artifacts/" + two[0]["artifact_id"])
    assert digest[2:] in blobs(stack)
    client.delete("/v1/artifacts/" + two[1]["artifact_id"])
    assert digest[2:] not in blobs(stack)
    # what a crash leaves: content without a row, and a file that was being written
    folder = os.path.join(stack.state, "artifacts")
    os.makedirs(os.path.join(folder, "00"), exist_ok=True)
    old, new = os.path.join(folder, "00", "0" * 62), os.path.join(folder, "00", "1" * 62)
    written = os.path.join(folder, ".tmp-0")
    for path in (old, new, written):
        open(path, "w").close()
    if os.geteuid() == 0:
        os.chown(os.path.dirname(old), os.stat(folder).st_uid, -1)
    for path in (old, written):
        os.utime(path, (time.time() - 7200,) * 2)
    stack.sweep()
    assert not os.path.exists(old) and not os.path.exists(written) and os.path.exists(new)
