"""deployment/quickstart with programs that are built: settings of one's own, and an nginx whose master was killed."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

SOURCE = os.environ["HUSK_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "support"))
import build_directory  # noqa: E402


class Quickstart:
    """One home of its own, on a free port; its build is the tests'."""

    def __init__(self, top):
        build_directory.use()
        self.home = os.path.join(top, "home")
        os.makedirs(self.home)
        os.symlink(os.environ["HUSK_BUILD"], os.path.join(self.home, "build"))
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]

    def run(self, word, status=0):
        done = subprocess.run([os.path.join(SOURCE, "deployment", "quickstart"), word], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "HUSK_HOME": self.home, "HUSK_PORT": str(self.port), "HUSK_ISOLATION": "none"})
        assert done.returncode == status, done
        return done.stdout + done.stderr

    def local(self, text):
        with open(os.path.join(self.home, "local.conf"), "w") as f:
            f.write(text)

    def read(self, name):
        with open(os.path.join(self.home, name)) as f:
            return f.read().strip()

    def nginx_conf(self):
        return self.read("run-web/nginx.conf" if os.getuid() == 0 else "nginx/nginx.conf")

    def pids(self):
        return dict(re.findall(r"^(\w+): running \(pid (\d+)\)$", self.run("status"), re.M))

    def healthy(self):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5) as answer:
            return answer.status == 200
        return False

    def exec_workers(self):
        huskctl = re.search(r"^huskctl: (.*)$", self.run("status"), re.M)[1].split()
        shown = subprocess.run([*huskctl, "status"], capture_output=True, text=True, timeout=30, check=True).stdout
        return len(re.findall(r"^exec +\d+ (?:idle|working)", shown, re.M))


def wait_until(test, what):
    end = time.monotonic() + 30
    while not test():
        assert time.monotonic() < end, what
        time.sleep(0.2)


def test_settings_of_ones_own_and_a_killed_nginx():
    top = tempfile.mkdtemp(prefix="husk-quick-", dir="/tmp")
    os.chmod(top, 0o755)
    try:
        quick = Quickstart(top)
        try:
            local_conf(quick)
            killed_nginx(quick)
        finally:
            quick.run("down")
        assert not quick.healthy() and not processes_of(quick.home), processes_of(quick.home)
    finally:
        shutil.rmtree(top, ignore_errors=True)


def local_conf(quick):
    quick.run("up")
    before = quick.pids()
    assert set(before) == {"gateway", "master", "nginx"} and quick.healthy()
    quick.local("SANDBOX_MAX_SESSIONS=3\nSANDBOX_RATE_PER_SECOND=50\n")
    quick.run("up")
    # workers and nginx took them, and what need not end did not
    wait_until(lambda: quick.exec_workers() == 3 + 2, "the workers of the new settings")
    assert quick.healthy() and "limit_req" in quick.nginx_conf()
    after = quick.pids()
    assert after["master"] == before["master"] and after["gateway"] == before["gateway"]
    settings = quick.read("husk.conf")
    quick.local("SANDBOX_MAX_SESSIONS=many\n")
    said = quick.run("up", status=1)
    assert "SANDBOX_MAX_SESSIONS" in said and f"mend {quick.home}/local.conf" in said, said
    assert quick.read("husk.conf") == settings and quick.pids() == after and quick.healthy()
    os.unlink(os.path.join(quick.home, "local.conf"))


def killed_nginx(quick):
    """Its workers outlive it, serve on and hold the port."""
    before = quick.pids()["nginx"]
    os.kill(int(before), signal.SIGKILL)
    assert quick.healthy()
    assert "nginx: not running" in quick.run("status", status=3)
    quick.run("up")
    after = quick.pids()["nginx"]
    assert after != before and quick.healthy()
    strangers = [pid for pid in processes_of(quick.home) if parent(pid) != int(after) and pid != int(after) and "nginx" in name(pid)]
    assert not strangers, strangers


def name(pid):
    with open(f"/proc/{pid}/comm") as f:
        return f.read()


def parent(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def processes_of(home):
    """Pids of what has a file of this home open or among its arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline") as f:
                names = [f.read()]
            names += [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            if any(home in each for each in names):
                found.append(int(pid))
    return found
