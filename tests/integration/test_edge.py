"""The edge: keys and scopes, malformed requests, nginx's own errors, request ids, secrets in logs."""
import json
import os
import socket
import stat

import pytest

SETTINGS = {"SANDBOX_CORS_ORIGINS": "https://app.example", "SANDBOX_MAX_INPUT_BYTES": 1 << 20}


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b'"x"', b"null", b'{"code": "1",}', b"{'code': '1'}", b'{"code": "1"} x', b'{"code": 1}',
    b'{"code": null}', b'{"code": "1", "code": "2"}', b'{"code": "1", "extra": 1}', b'{"code": "\\uZZZZ"}', b'{"code": "\xff"}',
    b'{"code": "1", "timeout": NaN}', b'{"code": "1", "timeout": 1e999}', b'{"code": "1", "on_disconnect": "maybe"}',
    b"[" * 100_000, b'{"code"}', b'{"timeout": 1}',
])
def test_malformed_bodies_run_nothing(client, session, body):
    answer = client.request("POST", f"/v1/sessions/{session}/exec", body=body, headers={"Content-Type": "application/json"})
    assert answer.status in (400, 422), answer
    assert client.get(f"/v1/sessions/{session}/executions").json()["executions"] == []


def test_what_is_wrong_is_named(client):
    assert "colour" in client.post("/v1/sessions", {"session_id": "x", "colour": 1}).json()["detail"]
    assert "ttl" in client.post("/v1/sessions", {"session_id": "x", "ttl": "30"}).json()["detail"]
    assert client.request("POST", "/v1/sessions", body=b"{}", headers={"Content-Type": "text/plain"}).status == 415
    assert client.request("POST", "/v1/nothing", body=b"{}").code == "not_found"
    refused = client.request("PUT", "/v1/sessions", body=b"{}")
    assert refused.code == "method_not_allowed" and "POST" in refused.headers["allow"]
    assert client.post("/v1/sessions", {"session_id": "abc\0def"}).status == 400


def test_keys_are_needed_and_revoked_at_once(stack, client):
    nobody = stack.client(None)
    refused = nobody.get("/v1/sessions")
    assert refused.code == "unauthorized" and refused.headers["www-authenticate"].startswith("Bearer")
    assert stack.client("husk_nonsense").get("/v1/sessions").status == 401
    assert nobody.get("/v1/sessions?token=" + client.key).status in (400, 401)
    assert client.get("/v1/sessions?token=x").status == 400
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert nobody.get(path).status == 200
    key = stack.key("leaver")
    assert stack.client(key).get("/v1/sessions").status == 200
    (row,) = [k for k in json.loads(stack.ctl("key", "list", "--json"))["keys"] if k["owner"] == "leaver"]
    stack.ctl("key", "revoke", row["key_id"])
    for _ in range(8):
        assert stack.client(key).get("/v1/sessions").status == 401


def test_scopes(stack, client, session):
    reader = stack.client(stack.key("tester", "read"))
    assert reader.get(f"/v1/sessions/{session}").status == 200
    assert reader.post(f"/v1/sessions/{session}/exec", {"code": "1"}).code == "forbidden"
    assert reader.delete(f"/v1/sessions/{session}").status == 403
    assert client.get("/v1/keys").status == 403
    admin = stack.client(stack.key("boss", "admin"))
    assert admin.get("/v1/keys").status == 200
    assert session in [s["session_id"] for s in admin.get("/v1/sessions").json()["sessions"]]


def test_request_ids(client):
    answer = client.get("/v1/sessions", headers={"X-Request-Id": "mine-1"})
    assert len(answer.headers["x-request-id"]) == 32 and answer.headers["x-request-id"] != "mine-1"
    problem = client.get("/v1/sessions/none")
    assert problem.json()["request_id"] == problem.headers["x-request-id"]


def raw(client, data):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(client.socket_path)
        s.sendall(data)
        out = b""
        while chunk := s.recv(65536):
            out += chunk
        return out


@pytest.mark.parametrize("request_bytes,status", [
    (b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n", b"413"),
    (b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\nConnection: close\r\n\r\n", b"400"),
    (b"GET /healthz HTTP/1.1\r\nHost: x\r\nBad Header\x01: y\r\nConnection: close\r\n\r\n", b""),
    (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70000 + b"\r\nConnection: close\r\n\r\n", b"4"),
    (b"NONSENSE\r\n\r\n", b"400"),
])
def test_errors_that_nginx_makes_are_problems_too(client, request_bytes, status):
    answer = raw(client, request_bytes)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b" ")[1].startswith(status), answer[:300]
    if not head.split(b" ")[1].startswith(b"2"):
        assert b"application/problem+json" in head, answer[:500]
        assert set(json.loads(body)) >= {"status", "title", "code", "request_id"}


def test_headers_over_the_limit_are_named(client):
    answer = raw(client, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70000 + b"\r\nConnection: close\r\n\r\n")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "headers_too_large"


def test_cors_only_for_the_configured_origin(client):
    allowed = client.request("OPTIONS", "/v1/sessions", headers={
        "Origin": "https://app.example", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type"})
    assert allowed.status == 204 and allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert "POST" in allowed.headers["access-control-allow-methods"]
    other = client.get("/v1/sessions", headers={"Origin": "https://evil.example"})
    assert other.status == 200 and "access-control-allow-origin" not in other.headers
    assert client.get("/v1/sessions", headers={"Origin": "https://app.example"}).headers["vary"].lower().find("origin") >= 0


def test_secrets_are_in_no_log_argument_or_environment_of_others(stack, client, session):
    client.run(session, "print(1)")
    client.get("/v1/sessions?token=" + client.key)
    secrets = (client.key.encode(), stack.token.encode())
    for name in os.listdir(stack.dir):
        if name.endswith(".log"):
            data = open(stack.path(name), "rb").read()
            assert not any(s in data for s in secrets), name
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            argv = open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            continue
        assert not any(s in argv for s in secrets), argv
    assert client.key not in str(stack.sql("SELECT * FROM keys"))


def test_sockets_and_database_are_out_of_a_kernels_reach(stack, client, session):
    if os.getuid() != 0:
        pytest.skip("as an ordinary user kernels share the service's user: quickstart says so")
    mode = os.stat(stack.path("r", "exec.sock")).st_mode
    assert stat.S_IMODE(mode) & 0o007 == 0
    code = (f"import socket\nfor p in ({stack.path('r', 'exec.sock')!r}, {stack.path('s', 'husk.db')!r}, {stack.path('husk.conf')!r}):\n"
            "  try:\n    open(p) if not p.endswith('sock') else socket.socket(socket.AF_UNIX).connect(p); print('reached', p)\n"
            "  except OSError as e: print(type(e).__name__)")
    assert client.run(session, code)["stdout"] == "PermissionError\n" * 3


def test_metrics_and_openapi(client, session):
    client.run(session, "1")
    # the test's socket is local: nginx lets it in
    metrics = client.get("/metrics", check=False)
    assert metrics.status == 200 and b"husk_executions_total" in metrics.body
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
