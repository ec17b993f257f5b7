"""Keys: scopes, expiry, revocation seen by every worker at once, last use noted at most once a minute."""
import concurrent.futures
import datetime
import subprocess
import time
import uuid

import pytest

SCOPED = (("GET", "/v1/sessions", "read"), ("GET", "/v1/sessions/none", "read"), ("GET", "/v1/sessions/none/files", "read"),
          ("GET", "/v1/sessions/none/files/a", "read"), ("HEAD", "/v1/sessions/none/files/a", "read"),
          ("GET", "/v1/sessions/none/executions", "read"), ("GET", "/v1/executions?request_id=x", "read"),
          ("GET", "/v1/executions/none/events", "read"), ("POST", "/v1/sessions", "execute"),
          ("PATCH", "/v1/sessions/none", "execute"), ("DELETE", "/v1/sessions/none", "execute"),
          ("POST", "/v1/sessions/none/exec", "execute"), ("POST", "/v1/sessions/none/interrupt", "execute"),
          ("POST", "/v1/sessions/none/restart", "execute"), ("PUT", "/v1/sessions/none/files/a", "execute"),
          ("DELETE", "/v1/sessions/none/files/a", "execute"), ("GET", "/v1/keys", "admin"), ("POST", "/v1/keys", "admin"),
          ("DELETE", "/v1/keys/none", "admin"))
ORDER = ("read", "execute", "admin")
# one call for each lane that needs a key: api, exec, ctl, bulk
LANES = (("GET", "/v1/sessions"), ("POST", "/v1/sessions/none/exec"), ("POST", "/v1/sessions/none/interrupt"),
         ("GET", "/v1/sessions/none/files/a"))


def call(client, method, path):
    return client.request(method, path, body=b'{"nonsense": 1}' if method in ("POST", "PATCH", "PUT") else None,
                          headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("scope", ORDER)
def test_what_a_scope_allows(stack, scope):
    client = stack.client(stack.key("scoped", scope))
    for method, path, needed in SCOPED:
        answer = call(client, method, path)
        if ORDER.index(scope) >= ORDER.index(needed):
            assert answer.status not in (401, 403), (scope, method, path, answer)
        else:
            assert answer.status == 403, (scope, method, path, answer)
            assert method == "HEAD" or answer.code == "forbidden"


@pytest.fixture(scope="module")
def admin(stack):
    return stack.client(stack.key("boss", "admin"))


def make(admin, **members):
    answer = admin.post("/v1/keys", {"owner": "worker", "scopes": ["execute"], **members})
    assert answer.status == 201, answer
    return answer.json()


def test_a_key_expires(stack, admin):
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1.5)
    made = make(admin, expires_at=end.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
    client = stack.client(made["token"])
    assert client.get("/v1/sessions").status == 200
    time.sleep(1.6)
    for method, path in LANES * 3:
        refused = call(client, method, path)
        assert refused.status == 401 and refused.code == "key_expired", (method, path)
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]


def test_revocation_is_seen_by_all_workers_at_once(stack, admin):
    made = make(admin)
    client = stack.client(made["token"])
    for method, path in LANES:
        assert call(client, method, path).status != 401
    assert admin.delete("/v1/keys/" + made["key_id"]).status == 204
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda at: call(client, *at), LANES * 15))
    assert {a.status for a in answers} == {401} and {a.code for a in answers} == {"key_revoked"}


def last_used(stack, key_id):
    ((value,),) = stack.sql("SELECT last_used_at FROM keys WHERE key_id = ?", key_id)
    return value


def test_last_use_is_noted_once_a_minute(stack, admin):
    made = make(admin)
    client = stack.client(made["token"])
    before = time.time() * 1000
    assert client.get("/v1/sessions").status == 200
    first = last_used(stack, made["key_id"])
    assert before - 1000 < first < before + 20000
    time.sleep(0.01)
    for _ in range(20):
        assert client.get("/v1/sessions").status == 200
    assert last_used(stack, made["key_id"]) == first, "each request would be a write"
    subprocess.run(["/usr/bin/python3", "-c", "import sqlite3, sys; d = sqlite3.connect(sys.argv[1], timeout=10); "
                    "d.execute('UPDATE keys SET last_used_at = last_used_at - 61000 WHERE key_id = ?', sys.argv[2:]); d.commit()",
                    stack.path("s", "husk.db"), made["key_id"]], check=True, timeout=30, cwd="/", **stack._as("husk"))
    assert client.get("/v1/sessions").status == 200
    assert last_used(stack, made["key_id"]) >= first
    (listed,) = [k for k in admin.get("/v1/keys").json()["keys"] if k["key_id"] == made["key_id"]]
    assert listed["last_used_at"] is not None and "token" not in listed


def test_nonsense_for_a_key(stack, admin):
    token = make(admin)["token"]
    swapped = token[:-1] + ("0" if token[-1] != "0" else "1")
    for header in ("", "Bearer", "Bearer ", "Bearer " + token[:-1], "Bearer " + swapped, "Bearer " + token + "0", "Basic " + token,
                   token, "Bearer husk_" + "0" * 16 + "_" + "0" * 48, "Bearer " + "x" * 4000, "Bearer \xff" + token[1:]):
        answer = stack.client(None).get("/v1/sessions", headers={"Authorization": header})
        assert answer.status == 401 and answer.code == "unauthorized", header
    assert stack.client(None).get("/v1/sessions", headers={"Authorization": "bearer  " + token}).status == 200


def test_an_owner_sees_his_own_only(stack, admin):
    name = "o-" + uuid.uuid4().hex[:8]
    one, other = stack.client(stack.key("one")), stack.client(stack.key("other"))
    one.open(name)
    assert other.get("/v1/sessions/" + name).code == "session_not_found"
    assert other.delete("/v1/sessions/" + name).status == 404
    assert name in [s["session_id"] for s in admin.get("/v1/sessions").json()["sessions"]]
    assert one.delete("/v1/sessions/" + name).status == 204
