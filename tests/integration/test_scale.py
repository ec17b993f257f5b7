"""Several nodes behind nginx's consistent hash, all kernels at one gateway: docs/scale.md, on one machine."""
import base64
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
import http.server

import pytest

from client import Client
from documents import Terminal, blocks
from stack import SOURCE, Stack, free_port, wait_until

os.environ.setdefault("HUSK_TEST_GATEWAY", "enterprise-gateway-3")
NODES = 2
# what docs/scale.md gives a node, and the gateway of both
NODE_SETTINGS, GATEWAY_ENVIRONMENT = (dict(line.split("=", 1) for line in block.splitlines())
                                      for block in blocks("scale.md", "") if re.fullmatch(r"(\w+=.*\n)+", block))
NAMES = GATEWAY_ENVIRONMENT["HUSK_KERNEL_NAMES"].strip('"').split()
USERS = {"Authorization": "Basic " + base64.b64encode(b"ann:secret").decode()}


class Front:
    """nginx with nginx/examples/husk-shard.conf before the given ports of 127.0.0.1."""

    def __init__(self, ports):
        self.dir = tempfile.mkdtemp(prefix="husk-front-", dir="/tmp")
        self.port = free_port()
        with open(os.path.join(SOURCE, "nginx", "examples", "husk-shard.conf")) as f:
            text = f.read()
        nodes = "\n".join(f"        server 127.0.0.1:{port} max_fails=0;" for port in ports)
        text, n = re.subn(r"        server husk-0.*\n        server husk-1.*", nodes, text)
        assert n == 1
        text = text.replace("listen 8080;", f"listen 127.0.0.1:{self.port};")
        with open(os.path.join(self.dir, "nginx.conf"), "w") as f:
            f.write(text)
        with open(os.path.join(self.dir, "husk-users"), "w") as f:
            hashed = subprocess.run(["openssl", "passwd", "-apr1", "secret"], check=True, capture_output=True, text=True).stdout
            f.write("ann:" + hashed)
        # nginx's own workers run as another user when root starts it
        os.chmod(self.dir, 0o755)
        nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin")
        self.process = subprocess.Popen([nginx, "-p", self.dir, "-e", "stderr", "-c", os.path.join(self.dir, "nginx.conf"),
                                         "-g", "daemon off;"], stdin=subprocess.DEVNULL, cwd="/")
        wait_until(self._answers, 20, "the front")

    def _answers(self):
        with contextlib.suppress(OSError):
            return self.client().get("/v1/sessions", check=False, headers=USERS).status == 400

    def client(self):
        return Client(("127.0.0.1", self.port), None)

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        shutil.rmtree(self.dir)


@pytest.fixture(scope="module")
def nodes():
    made = []
    try:
        for i in range(NODES):
            node = Stack(SANDBOX_LISTEN=f"127.0.0.1:{free_port()}", SANDBOX_MAX_SESSIONS=4, SANDBOX_WORKERS_EXEC=3,
                         **{key: re.sub("-0$", f"-{i}", value) for key, value in NODE_SETTINGS.items()},
                         **({"SANDBOX_GATEWAY_URL": made[0].settings["SANDBOX_GATEWAY_URL"],
                             "SANDBOX_GATEWAY_AUTH_TOKEN": made[0].token} if i else {}))
            with open(os.path.join(SOURCE, "nginx", "examples", "husk-auth-shard.conf")) as f:
                node.web_files["husk-auth.conf"] = f.read()
            if i:
                node.gateway_of = made[0]
            else:
                node.kernel_names = " ".join(NAMES)
            made.append(node)
            node.start()
        yield made
    finally:
        for node in reversed(made):
            node.stop()


@pytest.fixture(scope="module")
def front(nodes):
    made = Front([node.address[1] for node in nodes])
    yield made
    made.stop()


def call(front, method, path, body=None, shard=None):
    headers = {**USERS, **({"X-Husk-Shard": shard} if shard else {})}
    return front.client().request(method, path, json_body=body, headers=headers, check=False)


def home(nodes, name):
    """Which node has the session."""
    found = [i for i, node in enumerate(nodes) if re.search(rf"\b{name}\b", node.ctl("session", "list"))]
    assert len(found) == 1, (name, found)
    return found[0]


def open_on_both(nodes, front, prefix):
    """Opens two sessions on each node: which names those are depends on the nodes' ports."""
    where = {}
    for i in range(40):
        name = f"{prefix}-{i}"
        assert call(front, "POST", "/v1/sessions", {"session_id": name}, shard=name).status == 201
        node = home(nodes, name)
        if list(where.values()).count(node) < 2:
            where[name] = node
        else:
            assert call(front, "DELETE", f"/v1/sessions/{name}").status == 204
        if len(where) == 2 * NODES:
            return where
    raise AssertionError(f"40 names are all on one node: {where}")


def test_sessions_spread_and_stay(nodes, front):
    where = open_on_both(nodes, front, "scale")
    names = list(where)
    for name in names:
        answer = call(front, "POST", f"/v1/sessions/{name}/exec", {"code": f"x = {name!r}; print(x)"})
        assert answer.status == 200 and answer.json()["stdout"] == name + "\n", answer
        assert call(front, "POST", f"/v1/sessions/{name}/exec", {"code": "print(x)"}).json()["stdout"] == name + "\n"
        assert home(nodes, name) == where[name]
    # each node's sweep leaves the other's kernels alone
    before = nodes[0].kernels()
    assert len(before) == len(names)
    for node in nodes:
        node.sweep()
    assert nodes[0].kernels() == before
    for name in names:
        assert call(front, "DELETE", f"/v1/sessions/{name}").status == 204
    assert nodes[0].kernels() == []


def test_the_commands_work_as_written(nodes, tmp_path):
    """docs/scale.md's front, a session, a conversation and a call without a name."""
    os.chmod(tmp_path, 0o755)
    for above in tmp_path.parents[:2]:
        os.chmod(above, 0o755)
    addresses = {f"HUSK_NODE_{i}": "%s:%d" % node.address for i, node in enumerate(nodes)}
    terminal = Terminal(tmp_path, tmp_path / "shell-state", HUSK_SHARE=SOURCE, HUSK_FRONT=f"127.0.0.1:{free_port()}", **addresses)
    found = blocks("scale.md")
    assert len(found) >= 3
    try:
        for block in found:
            terminal.run(block)
    finally:
        terminal.run('nginx -p "$PWD" -e stderr -c nginx.conf -s quit')


def test_a_call_without_a_name_is_refused(front):
    for method, path in (("GET", "/v1/sessions"), ("POST", "/v1/sessions"), ("POST", "/v1/exec"), ("GET", "/v1/artifacts")):
        answer = call(front, method, path, {} if method == "POST" else None)
        assert answer.status == 400 and answer.code == "shard_missing", answer
    assert front.client().get("/v1/sessions/x", check=False).status == 401
    assert call(front, "GET", "/healthz").status == 200


def test_a_node_that_is_down_keeps_its_sessions(nodes, front):
    where = open_on_both(nodes, front, "down")
    names = list(where)
    nodes[1].stop_process("nginx")
    try:
        for name in names:
            answer = call(front, "POST", f"/v1/sessions/{name}/exec", {"code": "print(1)"})
            if where[name] == 0:
                assert answer.status == 200, answer
            else:
                assert answer.status == 503 and answer.code == "node_unavailable", answer
    finally:
        nodes[1].start_nginx()
    for name in names:
        assert call(front, "POST", f"/v1/sessions/{name}/exec", {"code": "print(1)"}).json()["stdout"] == "1\n"
        assert call(front, "DELETE", f"/v1/sessions/{name}").status == 204


class Echo(http.server.BaseHTTPRequestHandler):
    """Says which of the stand-ins it is."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = str(self.server.server_port).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def test_what_a_new_node_moves():
    """docs/scale.md's calculation: with n nodes each has 1/n of the names, and the next one takes 1/(n+1) of them."""
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) for _ in range(4)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    ports = [server.server_port for server in servers]
    names = [f"s-{i}" for i in range(600)]
    try:
        seen = []
        for n in (3, 4):
            front = Front(ports[:n])
            seen.append({name: int(call(front, "GET", f"/v1/sessions/{name}").body) for name in names})
            front.stop()
        for n, homes in zip((3, 4), seen):
            print(n, "nodes:", sorted(list(homes.values()).count(port) for port in ports[:n]))
            for port in ports[:n]:
                share = list(homes.values()).count(port) / len(names)
                assert 0.5 / n < share < 2 / n, (n, share)
        moved = [name for name in names if seen[0][name] != seen[1][name]]
        print(len(moved), "names moved")
        assert 0.5 / 4 < len(moved) / len(names) < 2 / 4, len(moved)
        # those that moved went to the new node and nowhere else
        assert {seen[1][name] for name in moved} == {ports[3]}
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
