"""A small HTTP client for nginx's socket or port, which sends exactly what it is told to."""
import http.client
import json
import socket

import contract


class UnixConnection(http.client.HTTPConnection):
    """http.client over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__("husk.test", timeout=timeout)
        self.unix_path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.unix_path)


def connect(address, timeout, tls=None):
    """A connection to a unix socket's path or a (host, port); tls: an ssl.SSLContext."""
    if isinstance(address, str):
        return UnixConnection(address, timeout)
    if tls is None:
        return http.client.HTTPConnection(*address, timeout=timeout)
    return http.client.HTTPSConnection(*address, timeout=timeout, context=tls)


class Answer:
    """Status, headers (lower case) and body of an answer."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {k.lower(): v for k, v in headers}
        self.body = body

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body, parse_constant=self._no_constant)

    @staticmethod
    def _no_constant(name):
        raise ValueError(f"{name} in an answer")

    @property
    def code(self):
        """The stable code of a problem answer."""
        assert self.headers.get("content-type") == "application/problem+json", (self.status, self.headers, self.body)
        return self.json()["code"]

    def __repr__(self):
        return f"<{self.status} {self.body[:500]!r}>"


def files_url(session_id, path=""):
    """Of a session's files, or of one of them: a path that is percent-encoded already."""
    return f"/v1/sessions/{session_id}/files" + ("/" + path if path else "")


class Client:
    """Calls with one key; every answer is held against openapi.json."""

    def __init__(self, address, key=None, timeout=90, tls=None, headers=None):
        self.address = address
        self.key = key
        self.timeout = timeout
        self.tls = tls
        self.headers = headers or {}

    @property
    def socket_path(self):
        """Where to connect for a test that writes its own bytes."""
        assert isinstance(self.address, str), "this stack listens on a port"
        return self.address

    def connection(self, timeout=None):
        return connect(self.address, timeout or self.timeout, self.tls)

    def start(self, method, path, body=None, headers=None, json_body=None, timeout=None):
        """Sends a request and returns (connection, response) with the body unread."""
        headers = {**self.headers, **(headers or {})}
        if self.key and "Authorization" not in headers:
            headers["Authorization"] = "Bearer " + self.key
        if json_body is not None:
            body = json.dumps(json_body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection = self.connection(timeout)
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None and "Content-Length" not in headers and "Transfer-Encoding" not in headers:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        if body:
            try:
                connection.send(body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # answered early; the answer is still to be read
        return connection, connection.getresponse()

    def request(self, method, path, body=None, headers=None, json_body=None, timeout=None, check=True):
        connection, response = self.start(method, path, body, headers, json_body, timeout)
        try:
            answer = Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()
        if check:
            contract.check(method, path, answer)
        return answer

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def put(self, path, body, **kw):
        return self.request("PUT", path, body=body, **kw)

    def post(self, path, json_body=None, **kw):
        return self.request("POST", path, json_body=json_body, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)

    def patch(self, path, json_body, **kw):
        return self.request("PATCH", path, json_body=json_body, **kw)

    # what tests do all the time

    def open(self, session_id, **members):
        answer = self.post("/v1/sessions", {"session_id": session_id, **members})
        assert answer.status in (200, 201), answer
        return answer.json()

    def run(self, session_id, code, timeout=30, **members):
        """Runs code and returns the result object."""
        answer = self.post(f"/v1/sessions/{session_id}/exec", {"code": code, "timeout": timeout, **members},
                           timeout=timeout + 60)
        assert answer.status == 200, answer
        return answer.json()

    def file_names(self, session_id, query="?recursive=true"):
        return [f["path"] for f in self.get(files_url(session_id) + query).json()["files"]]

    def stream(self, method, path, json_body=None, headers=None, timeout=None):
        """Yields (event, id, data) of an event stream; comments as (None, None, text)."""
        headers = {"Accept": "text/event-stream", **(headers or {})}
        connection, response = self.start(method, path, headers=headers, json_body=json_body, timeout=timeout)
        try:
            if response.status != 200:
                raise AssertionError(Answer(response.status, response.getheaders(), response.read()))
            event, ident, data = None, None, []
            for line in response:
                line = line.decode().rstrip("\n")
                if line == "":
                    if data:
                        yield event, ident, json.loads("\n".join(data))
                    event, ident, data = None, None, []
                elif line.startswith(":"):
                    yield None, None, line[1:].strip()
                else:
                    field, _, value = line.partition(":")
                    value = value[1:] if value.startswith(" ") else value
                    if field == "event":
                        event = value
                    elif field == "id":
                        ident = int(value)
                    elif field == "data":
                        data.append(value)
        finally:
            connection.close()
