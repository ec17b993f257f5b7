"""The two containers of docker-compose.yaml without an engine: their files, users, mounts and capabilities, on an overlay
of this machine. Runs in namespaces of its own (check_containers.py): containers.py COMPOSE.json PROGRAMS RUNNER FOLDER.

What it does of a Dockerfile is its last stage: RUN without apt, COPY (--from=build: PROGRAMS, a package's files;
--from=packages: RUNNER, an installed runner), ENV, USER, HEALTHCHECK, ENTRYPOINT.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

SOURCE = os.environ["HUSK_SOURCE"]
BASE = sys.argv[4]


def run(*argv, **options):
    return subprocess.run(argv, check=True, **options)


class Container:
    """One service of the project, built when made."""

    def __init__(self, name, service, programs, runner):
        self.name, self.service = name, service
        self.root = os.path.join(BASE, name, "root")
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
        self.user, self.healthcheck, self.entrypoint = "0:0", [], []
        for folder in ("upper", "work", "root"):
            os.makedirs(os.path.join(BASE, name, folder))
        run("mount", "-t", "overlay", "-o", f"lowerdir=/,upperdir={BASE}/{name}/upper,workdir={BASE}/{name}/work", "overlay", self.root)
        # as a base image has it
        for path in ("etc/husk", "opt/husk", "run", "usr/share/husk", "var/lib/husk", "var/lib/husk-gateway", "var/lib/husk-keeper"):
            shutil.rmtree(os.path.join(self.root, path), ignore_errors=True)
        for user in ("husk", "husk-kernel", "husk-web"):
            self.inside("sh", "-c", f"userdel {user} 2>/dev/null; groupdel {user} 2>/dev/null; groupdel husk-files 2>/dev/null; true")
        self.build(os.path.join(SOURCE, "deployment", name, "Dockerfile"), programs, runner)
        if not os.path.exists(self.root + "/usr/bin/tini"):
            with open(self.root + "/usr/bin/tini", "w") as f:
                f.write(TINI)
            os.chmod(self.root + "/usr/bin/tini", 0o755)
        if "beside" in service:
            shutil.copytree(service["beside"], os.path.join(self.root, "etc/husk/nginx"))
        with open(os.path.join(self.root, "etc/hosts"), "w") as f:
            f.write("127.0.0.1 localhost husk sandbox\n")
        self.env.update({k: v for k, v in service["environment"].items() if v is not None})
        self.user = service.get("user", self.user)
        self.mounts()

    def inside(self, *argv, **options):
        return run("chroot", self.root, *argv, **options)

    def build(self, dockerfile, programs, runner):
        with open(dockerfile) as f:
            text = re.sub(r"\\\n", " ", f.read())
        for line in text[text.rindex("\nFROM "):].splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "RUN":
                for part in rest.split("&&"):
                    if not re.match(r"\s*(apt-get|rm) ", part):
                        self.inside("sh", "-ec", part)
            elif word == "COPY":
                self.copy(rest.split(), programs, runner)
            elif word == "ENV":
                self.env.update(p.split("=", 1) for p in shlex.split(rest))
            elif word == "USER":
                self.user = rest
            elif word == "HEALTHCHECK":
                self.healthcheck = json.loads(rest[rest.index("["):])
            elif word == "ENTRYPOINT":
                self.entrypoint = json.loads(rest)

    def copy(self, words, programs, runner):
        to = self.root + words[-1]
        if words[0] == "--from=packages":
            os.makedirs(to)
            run("mount", "--bind", runner, to)
        elif words[0] == "--from=build":
            names = words[1:-1] if words[1] != "/out/" else ["/out/usr/sbin/husk-keeper", "/out/usr/sbin/husk-launch"]
            for name in names:
                shutil.copy2(programs + name.removeprefix("/out"), to)
        else:
            for name in words[:-1]:
                run("cp", "-r", os.path.join(SOURCE, name) + ("/." if name.endswith("/") else ""), to)

    def mounts(self):
        """A read-only root; volumes begin as what the image has there."""
        for mount in self.service["volumes"]:
            volume, to = os.path.join(BASE, "volumes", mount["source"]), self.root + mount["target"]
            os.makedirs(to, exist_ok=True)
            if not os.path.isdir(volume):
                os.makedirs(os.path.dirname(volume), exist_ok=True)
                run("cp", "-a", to, volume)
            mount["path"] = volume
        for folder in ("proc", "dev", "sys"):
            os.makedirs(os.path.join(self.root, folder), exist_ok=True)
        for tmpfs in self.service["tmpfs"]:
            os.makedirs(self.root + tmpfs.split(":")[0], exist_ok=True)
        run("mount", "-o", "remount,ro", self.root)
        for mount in self.service["volumes"]:
            run("mount", "--bind", mount["path"], self.root + mount["target"])
        for tmpfs in self.service["tmpfs"]:
            path, options = tmpfs.split(":")
            # an engine's own default is mode 1777
            run("mount", "-t", "tmpfs", "-o", "nosuid,nodev,noexec," + ("" if "mode=" in options else "mode=1777,") + options, "tmpfs", self.root + path)
        run("mount", "--rbind", "/dev", self.root + "/dev")

    def argv(self, argv, env):
        uid, gid = self.user.split(":")
        added = [c.lower() for c in self.service.get("cap_add", [])]
        bounding = ",".join(["-all"] + ["+" + c for c in added])
        words = ["chroot", self.root, "setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", "--inh-caps", "-all",
                 "--bounding-set", bounding, "--no-new-privs", "env", "-i", *(f"{k}={v}" for k, v in env.items()), *argv]
        return words

    def start(self):
        """In a process namespace of its own."""
        script = f'mount -t proc proc "{self.root}/proc" && exec "$@"'
        with open(os.path.join(BASE, self.name + ".log"), "wb") as log:
            self.process = subprocess.Popen(["unshare", "-mpf", "--kill-child", "sh", "-ec", script, "sh", *self.argv(self.entrypoint, self.env)],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while subprocess.run(self.argv(self.healthcheck, self.env), capture_output=True).returncode != 0:
            assert self.process.poll() is None and time.monotonic() < end, f"{self.name} is not healthy: {self.log()}"
            time.sleep(0.5)

    def exec(self, *argv):
        return subprocess.run(self.argv(argv, self.env), check=True, capture_output=True, text=True).stdout

    def log(self):
        with open(os.path.join(BASE, self.name + ".log")) as f:
            return f.read()[-4000:]

    def stop(self):
        inner = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        if inner:
            os.kill(int(inner[0]), 15)
        return self.process.wait(60)


TINI = """#!/bin/sh
# stands in for tini where that is not installed
if [ "$1" = -- ]; then shift; fi
exec 3<&0
"$@" <&3 3<&- &
child=$!
trap 'kill -TERM $child' TERM INT
while :; do
    wait $child
    status=$?
    kill -0 $child 2>/dev/null || exit $status
done
"""
CELL = """
import glob, json, os
import docx, matplotlib, openpyxl, pandas, pptx, reportlab
seen = []
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        seen.append(open(path, "rb").read())
    except OSError:
        pass
pandas.DataFrame({"a": [1]}).to_csv("made.csv")
print(json.dumps({"environ": sorted(os.environ), "uid": os.getuid(), "leaks": sum(b"thetoken" in s for s in seen), "processes": len(seen)}))
import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.show()
"""


def call(key, method, path, body=None):
    words = ["curl", "-s", "-w", "\n%{http_code}", "-X", method, "-H", f"Authorization: Bearer {key}", "-H", "X-Husk-User: me",
             "-H", "Content-Type: application/json", "http://127.0.0.1:8080" + path]
    if body is not None:
        words += ["--data-binary", body if isinstance(body, str) else json.dumps(body)]
    text, status = run(*words, capture_output=True, text=True).stdout.rsplit("\n", 1)
    return int(status), text


def answered(path):
    """The gateway's status for one that has no token."""
    return int(run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://127.0.0.1:8888" + path, capture_output=True, text=True).stdout)


def use(key):
    """What a caller sees; printed as a line of JSON."""
    found = {}
    found["ready"], ready = call(key, "GET", "/readyz")
    found["opened"], session = call(key, "POST", "/v1/sessions", {"session_id": "s"})
    assert found["opened"] == 201, session
    found["isolation"] = json.loads(session)["isolation"]
    found["put"] = call(key, "PUT", "/v1/sessions/s/files/in.txt", "given")[0]
    result = json.loads(call(key, "POST", "/v1/sessions/s/exec", {"code": CELL + "print(open('in.txt').read())"})[1])
    assert result.get("status") == "ok", result
    lines = result["stdout"].splitlines()
    found["cell"], found["read"], found["plots"] = json.loads(lines[0]), lines[1], len(result["plots"])
    found["got"] = call(key, "GET", "/v1/sessions/s/files/made.csv")[1]
    document = run("curl", "-s", "-H", f"Authorization: Bearer {key}", "-H", "X-Husk-User: me", "-F", "file=@-;filename=d.csv",
                   "http://127.0.0.1:8080/v1/extract", capture_output=True, text=True, input="Name,Sum\na,12\n").stdout
    found["tables"] = json.loads(document).get("tables")
    found["closed"] = call(key, "DELETE", "/v1/sessions/s")[0]
    return found


def main():
    project, programs, runner = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
    run("ip", "link", "set", "lo", "up")
    run("mount", "-t", "tmpfs", "tmpfs", BASE)
    containers = [Container(name, project["services"][name], programs, runner) for name in ("sandbox", "husk")]
    for container in containers:
        container.start()
    sandbox, husk = containers
    try:
        key = re.search(r"husk_[A-Za-z0-9_-]+", husk.exec("huskctl", "key", "create", "--owner", "me"))[0]
        found = use(key)
        found["without a token"] = {path: answered(path) for path in ("/api/kernels", "/api/swagger.json")}
    except BaseException:
        print(husk.log(), sandbox.log(), sep="\n", file=sys.stderr)
        raise
    found["ends"] = [husk.stop(), sandbox.stop()]
    print(json.dumps(found))


main()
