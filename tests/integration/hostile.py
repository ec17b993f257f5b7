"""A server in front of the stand-in for Daytona that answers chosen calls with bytes of a test's own, and passes on the rest."""
import base64
import contextlib
import hashlib
import re
import select
import socket
import ssl
import struct
import threading

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HEAD = 65536  # bytes of a request's head
CLOSE = 8


def answer(body=b"", status="200 OK", media="application/json", more=""):
    """An HTTP answer that is whole."""
    return (f"HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n{more}\r\n").encode() + body


def frame(payload=b"", opcode=1, final=True, masked=False, length=None):
    """A WebSocket frame of a server's; masked and length: what no server should do."""
    n = len(payload) if length is None else length
    size = bytes([n]) if n < 126 else b"\x7e" + struct.pack(">H", n) if n < 65536 else b"\x7f" + struct.pack(">Q", n)
    if masked:
        size, payload = bytes([size[0] | 0x80]) + size[1:] + b"\x01\x02\x03\x04", bytes(
            b ^ (i % 4 + 1) for i, b in enumerate(payload))
    return bytes([(0x80 if final else 0) | opcode]) + size + payload


def close(code, reason=b""):
    return frame(struct.pack(">H", code) + reason, CLOSE)


class Hostile:
    """TLS on a port of its own. rules: [(method, pattern of the path, what)]; the first that fits answers. `what` is the
    answer's bytes, or a function of (head, socket) that does as it likes with the connection, which is closed after."""

    def __init__(self, target, certificate):
        self.target, self.rules = target, []
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(certificate + ".pem", certificate + ".key")
        self.forward = ssl.create_default_context()
        self.forward.check_hostname, self.forward.verify_mode = False, ssl.CERT_NONE
        self.met = []  # what a rule answered: (method, path)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self.listener.close()

    @contextlib.contextmanager
    def rule(self, method, pattern, what):
        """Has it in force meanwhile."""
        mine = (method, re.compile(pattern), what)
        self.rules.insert(0, mine)
        self.met.clear()
        try:
            yield self.met
        finally:
            self.rules.remove(mine)

    def _accept(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain):
        with contextlib.suppress(OSError, ValueError), plain:
            plain.settimeout(60)
            with self.tls.wrap_socket(plain, server_side=True) as client:
                while self._one(client):
                    pass

    def _one(self, client):
        """Answers one request; whether another may follow."""
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(HEAD)
            if not piece or len(head) > HEAD:
                return False
            head += piece
        head, _, rest = head.partition(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        found = next((what for m, p, what in self.rules if m in (method, "*") and p.search(path)), None)
        if found is None:
            self._pass_on(client, head, rest)
            return False
        self.met.append((method, path))
        match = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        left = int(match.group(1)) - len(rest) if match else 0
        while left > 0 and (piece := client.recv(min(left, HEAD))):
            left -= len(piece)
        if callable(found):
            found(head, client)
            return False
        client.sendall(found)
        return False

    def _pass_on(self, client, head, rest):
        """One request a connection, so that each is looked at."""
        if b"upgrade: websocket" not in head.lower():
            head += b"\r\nConnection: close"
        with socket.create_connection(("127.0.0.1", self.target), 10) as plain, self.forward.wrap_socket(plain) as server:
            server.sendall(head + b"\r\n\r\n" + rest)
            pair = {client: server, server: client}
            while True:
                ready = [s for s in pair if s.pending()] or select.select(list(pair), [], [], 60)[0]
                for one in ready:
                    one.settimeout(0)  # what is readable may be TLS's own
                    with contextlib.suppress(ssl.SSLWantReadError):
                        piece = one.recv(65536)
                        if not piece:
                            return
                        pair[one].settimeout(60)
                        pair[one].sendall(piece)


def socket_of(script):
    """A rule's answer to the interpreter's upgrade: the socket is opened, the request read, then script(send) is run."""
    def upgraded(head, client):
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", head).group(1)
        client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
                       + base64.b64encode(hashlib.sha1(key + MAGIC).digest()) + b"\r\n\r\n")
        client.recv(65536)  # the beginning of the request will do
        script(client)
    return upgraded
