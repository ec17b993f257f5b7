"""TLS and the ways to authenticate in front of the service: the files of nginx/examples as they stand."""
import base64
import http.server
import json
import os
import socket
import ssl
import subprocess
import threading

import pytest

from authority import Authority
from stack import SOURCE, free_port

ORIGIN = "https://app.example"
SETTINGS = {"SANDBOX_LISTEN": f"127.0.0.1:{free_port()}", "SANDBOX_AUTH": "proxy", "SANDBOX_CORS_ORIGINS": ORIGIN}
EXAMPLES = os.path.join(SOURCE, "nginx", "examples")
AUTH_ADDRESS = "http://127.0.0.1:4180/"


def example(name):
    with open(os.path.join(EXAMPLES, name)) as f:
        return f.read()


def configure(stack):
    ours = stack.authority = Authority(stack.path("ca"), "ours")
    stack.stranger = Authority(stack.path("ca2"), "stranger")
    server = ours.issue("server", "/CN=husk.test", "subjectAltName=IP:127.0.0.1\n")
    os.makedirs(stack.path("tls"))
    for name in (".pem", ".key"):
        stack.for_nginx(stack.path("tls", "server" + name), open(server + name).read())
    stack.settings["SANDBOX_TLS_CERTIFICATE"] = stack.path("tls", "server.pem")
    stack.settings["SANDBOX_TLS_CERTIFICATE_KEY"] = stack.path("tls", "server.key")
    stack.tls = trusting(ours)
    hashed = {user: subprocess.run(["openssl", "passwd", "-apr1", password], check=True, stdout=subprocess.PIPE, text=True)
              .stdout for user, password in (("alice", "wonder"), ("bob", "builder"))}
    stack.web_files = {
        "husk-auth.conf": example("husk-auth-basic.conf"),
        "husk-users": "".join(f"{user}:{value}" for user, value in hashed.items()),
        "husk-client-ca.pem": open(ours.certificate).read(),
    }


def trusting(authority, certificate=None, version=None):
    context = ssl.create_default_context(cafile=authority.certificate)
    if certificate:
        context.load_cert_chain(certificate + ".pem", certificate + ".key")
    if version:
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
    return context


def restart_nginx(stack, auth):
    stack.stop_process("nginx")
    stack.web_files["husk-auth.conf"] = auth
    stack.start_nginx()


def basic(user, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


# TLS

@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3(stack, version):
    answer = stack.client(None, tls=trusting(stack.authority, version=version)).get("/healthz")
    assert answer.status == 200
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_nothing_older(stack, version):
    with pytest.raises(ssl.SSLError) as refused:
        stack.client(None, tls=trusting(stack.authority, version=version)).get("/healthz")
    assert "ALERT" in str(refused.value).upper(), "the server refuses it, not our own library: " + str(refused.value)


def test_hsts_on_every_kind_of_answer(stack):
    client = stack.client(None)
    for answer in (client.get("/v1/sessions"), client.get("/nothing", headers=basic("alice", "wonder")),
                   client.request("POST", "/v1/sessions", headers={"Content-Length": "9999999999", **basic("alice", "wonder")}),
                   client.get("/healthz", headers={"X": "y" * 70000})):
        assert answer.status >= 400 and answer.headers["strict-transport-security"], answer


def test_a_certificate_of_another_authority_is_not_believed(stack):
    with pytest.raises(ssl.SSLCertVerificationError):
        stack.client(None, tls=trusting(stack.stranger)).get("/healthz")


def test_plain_http_to_the_tls_port_is_told_so(stack):
    with socket.create_connection(stack.address, timeout=10) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while chunk := s.recv(65536):
            answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in head, answer
    assert json.loads(body)["code"] == "bad_tls"


# what every way to authenticate has to keep

CLAIMS = ("X-Husk-User", "X_Husk_User", "Husk-User", "HUSK_USER", "Remote-User", "X-User")


def keeps_apart(alice, bob, alices_name, bobs_name):
    """Both may call; alice's session is open afterwards."""
    assert alice.open("same")["owner"] == alices_name
    assert alice.put("/v1/sessions/same/files/a.txt", b"alice's").status == 201
    assert bob.get("/v1/sessions/same").status == 404, "another's session"
    assert bob.open("same")["owner"] == bobs_name
    assert bob.get("/v1/sessions/same/files/a.txt").status == 404, "another's file"
    assert [s["owner"] for s in bob.get("/v1/sessions").json()["sessions"]] == [bobs_name]
    for claim in CLAIMS:
        mine = alice.get("/v1/sessions/same", headers={claim: bobs_name})
        assert mine.json()["owner"] == alices_name, claim
    for client in (alice, bob):
        assert client.get("/v1/keys").status == 403, "a user of the front end is no administrator"
    assert bob.delete("/v1/sessions/same").status == 204
    assert alice.get("/v1/sessions/same").status == 200


def keeps_out(nobody, somebody):
    """nobody is a client that may not call, somebody the name of one that may and has the session "same"."""
    for claim in CLAIMS:
        refused = nobody.get("/v1/sessions/same", headers={claim: somebody})
        assert refused.status == 401 and refused.code == "unauthorized", claim
    assert nobody.get("/v1/sessions").headers["www-authenticate"]
    assert nobody.get("/healthz").status == 200 and nobody.get("/readyz").status == 200
    assert nobody.request("TRACE", "/v1/sessions").status in (401, 405)


def test_basic_auth(stack):
    alice, bob = (stack.client(None, headers=basic(*who)) for who in (("alice", "wonder"), ("bob", "builder")))
    keeps_apart(alice, bob, "alice", "bob")
    for nobody in (stack.client(None), stack.client(None, headers=basic("alice", "builder")),
                   stack.client(None, headers=basic("eve", "wonder")), stack.client("husk_x")):
        keeps_out(nobody, "alice")
    assert alice.delete("/v1/sessions/same").status == 204
    assert alice.request("TRACE", "/v1/sessions").headers["allow"] == "GET, HEAD, POST"
    refused = stack.client(None).get("/v1/sessions")
    assert refused.headers["www-authenticate"] == 'Basic realm="husk"'


def test_a_preflight_needs_no_password(stack):
    preflight = stack.client(None).request("OPTIONS", "/v1/sessions", headers={
        "Origin": ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"})
    assert preflight.status == 204 and preflight.headers["access-control-allow-origin"] == ORIGIN


def test_client_certificates(stack):
    restart_nginx(stack, example("husk-auth-certificate.conf"))
    alice, bob = (stack.client(None, tls=trusting(stack.authority, stack.authority.issue(name, f"/O=Example/CN={name}")))
                  for name in ("alice", "bob"))
    keeps_apart(alice, bob, "CN=alice,O=Example", "CN=bob,O=Example")
    for nobody in (stack.client(None), stack.client(None, headers=basic("alice", "wonder"))):
        keeps_out(nobody, "CN=alice,O=Example")
    assert alice.delete("/v1/sessions/same").status == 204
    forged = stack.stranger.issue("alice", "/O=Example/CN=alice")
    refused = stack.client(None, tls=trusting(stack.authority, forged)).get("/v1/sessions")
    assert refused.status == 400 and refused.code == "bad_tls"


class Service(http.server.BaseHTTPRequestHandler):
    """Knows two tokens; the other answers by name."""

    def do_GET(self):
        token = self.headers.get("Authorization", "")
        self.server.seen.append((self.headers.get("X-Original-Method"), self.headers.get("X-Original-URI")))
        user = {"Bearer of-alice": "alice", "Bearer of-bob": "bob", "Bearer of-none": ""}.get(token)
        self.send_response(200 if user is not None else 403 if token == "Bearer banned" else 401)
        if user:
            self.send_header("X-User", user)
        if user is None:
            self.send_header("WWW-Authenticate", 'Bearer realm="sso"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def test_auth_request(stack):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    text = example("husk-auth-request.conf")
    assert text.count(AUTH_ADDRESS) == 1
    restart_nginx(stack, text.replace(AUTH_ADDRESS, f"http://127.0.0.1:{server.server_port}/"))
    alice, bob = stack.client("of-alice"), stack.client("of-bob")
    keeps_apart(alice, bob, "alice", "bob")
    for nobody in (stack.client(None), stack.client("stolen"), stack.client("of-none")):
        keeps_out(nobody, "alice")
    assert alice.delete("/v1/sessions/same").status == 204
    assert ("GET", "/v1/sessions/same") in server.seen
    assert stack.client("stolen").get("/v1/sessions").headers["www-authenticate"] == 'Bearer realm="sso"'
    assert stack.client("banned").get("/v1/sessions").code == "forbidden"
    server.shutdown()
    server.server_close()
    away = alice.get("/v1/sessions")
    assert away.status == 500 and away.code == "internal", "without the service nobody comes in"
