"""A whole Husk of its own for a test: gateway, master, workers, reaper, nginx, in a private directory.

As root every part runs as the user it has in production (deployment/make-users), else all as ourselves.
HUSK_TEST_ISOLATION (none, host, rootless, container) says in which tier kernels run: with another than none a
husk-keeper of the stack's own makes their sandboxes. Tier rootless has one ordinary user for everything.
Nothing listens on a fixed port: nginx on a unix socket (or, with SANDBOX_LISTEN, on 127.0.0.1 and a port of
free_port()), the gateway on a port the kernel chose.
"""
import contextlib
import ctypes
import fcntl
import grp
import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

from client import Client

SOURCE = os.environ.get("HUSK_SOURCE", os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
BUILD = os.environ.get("HUSK_BUILD", os.getcwd())
ROOT = os.getuid() == 0
PROGRAMS = ("husk-master", "husk-worker", "husk-reaper", "huskctl")
ISOLATION = os.environ.get("HUSK_TEST_ISOLATION", "none")
# What a plain container leaves root.
CONTAINER_CAPABILITIES = "-all,+" + ",+".join(
    "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write "
    "setfcap".split())


def wait_until(test, seconds=30, what="condition", step=0.05):
    """Polls until test() is true and returns its value; fails by name otherwise."""
    end = time.monotonic() + seconds
    while True:
        value = test()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(step)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


GATEWAY_KINDS = {"server-2": "server", "kernel-gateway-3": "kernel-gateway", "enterprise-gateway-3": "enterprise-gateway"}


def gateway_choice(name=""):
    """The environment that picks the gateway.

    `name`, else HUSK_TEST_GATEWAY, is one that install-gateway installs (once; hash-locked), or runner-docling, the
    runner with document extraction; else HUSK_GATEWAY and HUSK_GATEWAY_PYTHON count, or it is Debian's jupyter-server.
    """
    name = name or os.environ.get("HUSK_TEST_GATEWAY", "")
    if not name:
        return {k: os.environ[k] for k in ("HUSK_GATEWAY", "HUSK_GATEWAY_PYTHON") if k in os.environ}
    # Below /var/cache another user can reach it, which a build directory is not good for.
    base = "/var/cache/husk/gateways" if ROOT else os.path.join(BUILD, "gateways")
    os.makedirs(base, mode=0o755, exist_ok=True)
    with open(os.path.join(base, name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = os.path.join(SOURCE, "deployment", "sandbox")
        if name == "runner-docling":
            subprocess.run([os.path.join(folder, "install-runner"), os.path.join(base, name)], check=True, timeout=600,
                           umask=0o022, env={**os.environ, "INSTALL_DOCLING": "true"})
            python = os.path.join(base, name, "bin", "python")
            return {"HUSK_GATEWAY": "kernel-gateway", "HUSK_GATEWAY_PYTHON": python, "HUSK_KERNEL_PYTHON": python}
        subprocess.run([os.path.join(folder, "install-gateway"), name, os.path.join(base, name)],
                       check=True, timeout=600, umask=0o022)
    return {"HUSK_GATEWAY": GATEWAY_KINDS[name], "HUSK_GATEWAY_PYTHON": os.path.join(base, name, "bin", "python")}


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


class Stack:
    """settings: SANDBOX_* values over the test's defaults. The gateway can be stopped and started alone."""

    def __init__(self, **settings):
        self.dir = tempfile.mkdtemp(prefix="husk-", dir="/tmp")
        os.chmod(self.dir, 0o711)
        self.state, self.run = self.path("s"), self.path("r")
        self.tls = None  # an ssl.SSLContext where nginx speaks TLS
        self.gateway_of = None  # another stack whose gateway this one uses
        self.gateway = ""  # for gateway_choice
        self.kernel_names = ""  # kernelspecs the gateway offers, if not the usual one
        self.web_files = {}  # what lies beside nginx's configuration, by name
        self.token = "gw-" + os.urandom(12).hex()
        self.gateway_port = free_port()
        self.processes = {}
        self.settings = {
            "SANDBOX_STATE_DIR": self.state,
            "SANDBOX_RUNTIME_DIR": self.run,
            "SANDBOX_GATEWAY_URL": f"http://127.0.0.1:{self.gateway_port}",
            "SANDBOX_GATEWAY_AUTH_TOKEN": self.token,
            "SANDBOX_LISTEN": "unix:" + self.path("web", "http.sock"),
            "SANDBOX_MAX_SESSIONS": "8",
            "SANDBOX_POOL_SIZE": "0",
            "SANDBOX_WORKERS_EXEC": "6",
            "SANDBOX_LOG_LEVEL": "debug",
            "SANDBOX_DRAIN_TIMEOUT": "20",
        }
        self.isolation = settings.get("SANDBOX_ISOLATION", ISOLATION)
        self.one_user = ROOT and self.isolation == "rootless"
        self.settings.update(SANDBOX_ISOLATION=self.isolation, SANDBOX_ISOLATION_MIN=self.isolation)
        self.settings["SANDBOX_EGRESS"] = "open" if self.isolation == "none" else "none"
        if self.sandboxed:
            self.settings.update(SANDBOX_KEEPER_DIR=self.path("kp"), SANDBOX_DISK="64MiB")
        if self.one_user or not ROOT:
            self.settings["SANDBOX_GATEWAY_USER"] = ""
        else:
            self.settings.update(SANDBOX_USER="husk", SANDBOX_GROUP="husk-web")
        self.settings.update({k: str(v) for k, v in settings.items()})

    @property
    def sandboxed(self):
        return self.isolation != "none"

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    # users and directories

    def _as(self, user):
        """Popen arguments that run a program as a user of production."""
        if not ROOT:
            return {}
        if self.one_user:
            entry = pwd.getpwnam("husk")
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [entry.pw_gid]}
        entry = pwd.getpwnam(user)
        groups = [g.gr_gid for g in grp.getgrall() if user in g.gr_mem] + [entry.pw_gid]
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}

    def _directory(self, path, user, group, mode):
        os.makedirs(path, exist_ok=True)
        if self.one_user:
            user = group = "husk"
        if ROOT:
            os.chown(path, pwd.getpwnam(user).pw_uid, grp.getgrnam(group).gr_gid)
        os.chmod(path, mode if ROOT and not self.one_user else 0o700)

    def prepare(self):
        self._directory(self.state, "husk", "husk", 0o711)
        self._directory(self.path("s", "workspaces"), "husk", "husk-files", 0o2751)
        self._directory(self.run, "husk", "husk-web", 0o2750)
        self._directory(self.path("g"), "husk-kernel", "husk-kernel", 0o700)
        self._directory(self.path("k"), "husk-kernel", "husk-kernel", 0o700)
        self._directory(self.path("web"), "husk-web", "husk-web", 0o711)
        os.makedirs(self.path("bin"), exist_ok=True)
        if self.sandboxed:
            self._directory(self.path("kp"), "root", "root", 0o711)
            self._directory(self.path("s-keeper"), "root", "root", 0o700)
        for program in PROGRAMS + (("husk-keeper", "husk-launch") if self.sandboxed else ()):
            shutil.copy2(os.path.join(BUILD, program), self.path("bin", program))
        shutil.copytree(os.path.join(SOURCE, "deployment", "sandbox"), self.path("sandbox"))
        self.write_conf()

    def write_conf(self):
        conf = self.path("husk.conf")
        with open(conf, "w") as f:
            f.writelines(f"{k}={v}\n" for k, v in self.settings.items())
        if ROOT:
            os.chown(conf, pwd.getpwnam("husk").pw_uid, 0)
        os.chmod(conf, 0o600)

    # processes

    def _spawn(self, name, argv, user=None, env=None, log=None):
        if self.one_user:
            user = "husk"
        with open(self.path((log or name) + ".log"), "ab") as out:
            self.processes[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                preexec_fn=None if user and ROOT else _die_with_parent,
                env=env or {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **_sanitizer_environment()},
                cwd="/", **(self._as(user) if user else {}))
        return self.processes[name]

    def start_keeper(self):
        argv = [self.path("bin", "husk-keeper"), "--config", self.path("husk.conf"),
                "--library", self.path("sandbox", "inside")]
        if ROOT and self.isolation == "container":
            argv = ["setpriv", "--bounding-set", CONTAINER_CAPABILITIES, "--inh-caps", "-all", *argv]
        self._spawn("keeper", argv)
        wait_until(self._keeper_answers, 30, "the keeper")

    def _keeper_answers(self):
        if self.processes["keeper"].poll() is not None:
            raise AssertionError("the keeper ended: " + self.log("keeper")[-2000:])
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            return s.connect_ex(self.path("kp", "files.sock")) == 0

    def start_gateway(self):
        env = {
            "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "SANDBOX_GATEWAY_AUTH_TOKEN": self.token,
            "HUSK_GATEWAY_PORT": str(self.gateway_port), "HUSK_GATEWAY_STATE": self.path("g"),
            "JUPYTER_RUNTIME_DIR": self.path("k"), "HUSK_TRASH": self.path("s", "workspaces", ".trash"),
        }
        if self.sandboxed:
            env.update(HUSK_LAUNCH=self.path("bin", "husk-launch"), HUSK_KEEPER_DIR=self.path("kp"))
        env["HUSK_KERNEL_NAMES"] = self.kernel_names
        env.update(gateway_choice(self.gateway))
        self._spawn("gateway", [self.path("sandbox", "gateway-launch.sh")], "husk-kernel", env)
        wait_until(self.gateway_answers, 60, "the gateway")

    def gateway_request(self, method, path, body=None, timeout=10):
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway_port, timeout=timeout)
        try:
            connection.request(method, path, body, {"Authorization": "token " + self.token})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def gateway_answers(self):
        if self.processes["gateway"].poll() is not None:
            raise AssertionError("the gateway ended: " + self.log("gateway")[-2000:])
        with contextlib.suppress(OSError):
            return self.gateway_request("GET", "/api")[0] == 200
        return False

    def kernels(self):
        """Ids of the kernels at the gateway."""
        # Debian's gateway fails to list while one of its kernels is half made
        status, body = wait_until(self._listed, 10, "the gateway's list of kernels")
        return sorted(k["id"] for k in json.loads(body))

    def _listed(self):
        status, body = self.gateway_request("GET", "/api/kernels")
        return (status, body) if status == 200 else None

    def ctl(self, *args, check=True, **kw):
        """Runs huskctl as the service's user; returns its standard output."""
        done = subprocess.run([self.path("bin", "huskctl"), "--config", self.path("husk.conf"), *args],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/", timeout=60,
                              env={"PATH": os.environ["PATH"], **_sanitizer_environment()},
                              **self._as("husk"), **kw)
        if check:
            assert done.returncode == 0, (args, done.returncode, done.stdout, done.stderr)
            return done.stdout
        return done

    def sweep(self, **settings):
        """One pass of the reaper, now; settings are set for it alone."""
        subprocess.run([self.path("bin", "husk-reaper"), "--config", self.path("husk.conf"), "--once"], check=True,
                       timeout=120, stderr=open(self.path("reaper-once.log"), "ab"), cwd="/",
                       env={"PATH": os.environ["PATH"], **_sanitizer_environment(), **settings}, **self._as("husk"))

    def start_master(self):
        self._spawn("master", [self.path("bin", "husk-master"), "--config", self.path("husk.conf")])
        wait_until(self._workers_ready, 30, "the workers")

    def _workers_ready(self):
        if self.processes["master"].poll() is not None:
            raise AssertionError("husk-master ended: " + self.log("master")[-3000:])
        return all(self._connects(lane) for lane in ("exec", "api", "bulk", "ctl"))

    def _connects(self, lane):
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(self.path("r", lane + ".sock"))
                return True
            except OSError:
                return False

    @property
    def address(self):
        """Where nginx listens: a unix socket's path or (host, port)."""
        listen = self.settings["SANDBOX_LISTEN"]
        if listen.startswith("unix:"):
            return listen[len("unix:"):]
        host, port = listen.rsplit(":", 1)
        return host, int(port)

    def for_nginx(self, path, text):
        """Writes a file that nginx alone can read."""
        with open(path, "w") as f:
            f.write(text)
        if ROOT:
            os.chown(path, pwd.getpwnam("husk" if self.one_user else "husk-web").pw_uid, -1)
        os.chmod(path, 0o600)
        return path

    def start_nginx(self):
        for name, text in self.web_files.items():
            self.for_nginx(self.path("web", name), text)
        conf = self.for_nginx(self.path("web", "nginx.conf"), self.ctl("config", "--nginx"))
        nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin")
        self._spawn("nginx", [nginx, "-p", self.path("web"), "-e", "stderr", "-c", conf, "-g", "daemon off;"], "husk-web")
        wait_until(self._nginx_answers, 20, "nginx")

    def _nginx_answers(self):
        if self.processes["nginx"].poll() is not None:
            raise AssertionError("nginx ended: " + self.log("nginx")[-2000:])
        with contextlib.suppress(OSError):
            return self.client(None).get("/healthz", check=False).status == 200
        return False

    def start(self):
        self.prepare()
        if self.sandboxed:
            self.start_keeper()
        if self.gateway_of is None:
            self.start_gateway()
        self.ctl("db", "migrate")
        self.start_master()
        self.start_nginx()
        wait_until(lambda: self.client(None).get("/readyz").status == 200, 30, "readyz")
        return self

    def stop_process(self, name, sig=signal.SIGTERM, seconds=30):
        process = self.processes.pop(name, None)
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(sig)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{name} did not end within {seconds} s of signal {sig}")

    def stop(self):
        try:
            for name in ("nginx", "master", "gateway", "keeper"):
                self.stop_process(name)
        finally:
            for process in self.processes.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if "HUSK_KEEP" in os.environ:
                print("kept:", self.dir)
            else:
                shutil.rmtree(self.dir, ignore_errors=True)

    # looking in

    def key(self, owner="tester", scope="execute", *more):
        return self.ctl("key", "create", "--owner", owner, "--scope", scope, "--quiet", *more).strip()

    def client(self, key="new", **kw):
        if key == "new":
            key = self.key()
        return Client(self.address, key, **{"tls": self.tls, **kw})

    def log(self, name):
        try:
            with open(self.path(name + ".log"), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def sql(self, query, *args):
        """Rows of a query on the live database, read as an operator would."""
        database = sqlite3.connect(f"file:{self.path('s', 'husk.db')}?mode=ro", uri=True, timeout=10)
        try:
            return database.execute(query, args).fetchall()
        finally:
            database.close()

    def host_pid(self, pid):
        """The pid out here of a process that calls itself `pid` in a session; of several the youngest."""
        if not self.sandboxed or self.isolation == "container":
            return pid
        parents, candidates = {}, []
        for other in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                with open(f"/proc/{other}/status") as f:
                    status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
            except OSError:
                continue
            parents[other] = int(status["PPid"])
            if status.get("NSpid", "").split()[-1:] == [str(pid)] and len(status["NSpid"].split()) > 1:
                candidates.append(other)
        ours = []
        for candidate in candidates:
            up = candidate
            while up > 1 and up != self.processes["keeper"].pid:
                up = parents.get(up, 0)
            if up > 1:
                ours.append(candidate)
        return max(ours)

    def workers(self, lane=None):
        """pids of live workers, by lane."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    env = dict(e.split(b"=", 1) for e in f.read().split(b"\0") if b"=" in e)
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    argv = f.read().split(b"\0")
            except OSError:
                continue
            if argv[0].endswith(b"husk-worker") and self.dir.encode() in b" ".join(argv):
                if lane is None or env.get(b"HUSK_LANE") == lane.encode():
                    found.append(int(pid))
        return sorted(found)


def _sanitizer_environment():
    return {k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")}
