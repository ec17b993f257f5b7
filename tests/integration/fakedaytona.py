"""Runs tests/support/fake_daytona, the stand-in for Daytona, and steers it."""
import json
import os
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request

from authority import Authority
from stack import SOURCE, Stack


class FakeDaytona:
    """The stand-in with TLS under an authority of its own. url: the API's base; ca: the authority's certificate."""

    def __init__(self, directory, key="dtn_" + os.urandom(12).hex()):
        self.key = key
        self.authority = Authority(os.path.join(directory, "daytona-ca"), "daytona-ca")
        self.ca = self.authority.certificate
        self.certificate = self.authority.issue("daytona", "/CN=127.0.0.1", "subjectAltName=IP:127.0.0.1\n")
        self.stranger = Authority(os.path.join(directory, "stranger-ca"), "stranger-ca")
        self.strange = self.stranger.issue("stranger", "/CN=127.0.0.1", "subjectAltName=IP:127.0.0.1\n")
        # its own folder: sandboxes see it under other paths, whatever the permissions above it
        self.directory = tempfile.mkdtemp(prefix="fake-daytona-", dir="/tmp")
        self.log_path = os.path.join(directory, "fake-daytona.log")
        self.process = None
        self.port = 0
        self.start()

    def start(self):
        argv = [os.path.join(SOURCE, "tests", "support", "fake_daytona"), "--port", str(self.port), "--dir", self.directory,
                "--cert", self.certificate + ".pem", "--key-file", self.certificate + ".key",
                "--other-cert", self.strange + ".pem", "--other-key-file", self.strange + ".key"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env={"PATH": os.environ["PATH"], "FAKE_DAYTONA_KEY": self.key})
        line = self.process.stdout.readline()
        assert line, "fake_daytona did not start: " + self.log()
        self.port = int(line)

    def stop(self):
        if self.process is not None:
            self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.process = None

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}/api"

    def call(self, method, path, body=None, headers=None, timeout=60):
        """(status, parsed answer) of a call to the stand-in."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data,
                                         {"Content-Type": "application/json", **(headers or {})}, method=method)
        trusting = ssl.create_default_context(cafile=self.ca)
        trusting.load_verify_locations(self.stranger.certificate)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting))
        try:
            with opener.open(request, timeout=timeout) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def control(self, **members):
        """Steers the stand-in (fake_daytona says how); returns what it knows."""
        status, answer = self.call("POST", "/_control", members)
        assert status == 200, answer
        return answer

    def set(self, **switches):
        return self.control(set=switches)

    def reset(self):
        """Every switch off, the record of calls empty."""
        return self.control(reset=True, forget=True)

    def seen(self):
        return self.call("GET", "/_control")[1]

    def count(self, kind):
        """How many calls of a kind since the last reset."""
        return self.seen()["counts"].get(kind, 0)

    def sandboxes(self, *states):
        """Those in one of the states; without any, those that are not destroyed (one put into that state is still shown)."""
        return [s for s in self.seen()["sandboxes"] if (s["state"] in states if states else s["state"] != "destroyed")]


class MixedStack(Stack):
    """A stack with both backends: the gateway's, and Daytona, played by the stand-in."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.daytona = FakeDaytona(self.dir)
        self.settings.update(DAYTONA_API_URL=self.daytona.url, DAYTONA_API_KEY=self.daytona.key, DAYTONA_CA_FILE=self.daytona.ca)

    def stop(self):
        try:
            super().stop()
        finally:
            self.daytona.stop()


class DaytonaStack(MixedStack):
    """A stack whose only backend is Daytona; there is no gateway."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.token = self.daytona.key
        del self.settings["SANDBOX_GATEWAY_URL"], self.settings["SANDBOX_GATEWAY_AUTH_TOKEN"]  # that backend is not set up
        self.settings["SANDBOX_BACKEND"] = "daytona"
        self.settings.update({k: str(v) for k, v in settings.items()})

    def start_gateway(self):
        pass
