"""One tier under attack: the whole service, two sessions side by side, decoys around them. Run inside tests/isolation/box.

usage: tier.py TIER EGRESS RESULTS [CELL…]    with TIER none, host, rootless or container; writes RESULTS as JSON
"""
import contextlib
import ctypes
import glob
import json
import os
import resource
import socket
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "integration")]
TIER, EGRESS, RESULTS = sys.argv[1:4]
os.environ["HUSK_TEST_ISOLATION"] = TIER

import cells  # noqa: E402
import ordinary  # noqa: E402
import world as worlds  # noqa: E402
from stack import ROOT, Stack, wait_until  # noqa: E402

NONCE = os.urandom(6).hex()
LIMITS = {"SANDBOX_MEMORY": "640MiB", "SANDBOX_PIDS": "160", "SANDBOX_DISK": "64MiB", "SANDBOX_CPUS": "1"}
SECRET = "SECRET-" + NONCE
with open(os.path.join(HERE, "prelude.py")) as f:
    PRELUDE = f.read()


class Attack:
    def __init__(self):
        assert os.environ.get("HUSK_BOX") == os.readlink("/proc/self/ns/pid"), "not in a box of our own"
        self.world = worlds.World()
        settings = {"SANDBOX_EGRESS": EGRESS, **LIMITS}
        if EGRESS == "public":
            settings["SANDBOX_EGRESS_DNS"] = worlds.RESOLVER
        self.stack = Stack(**settings)
        self.names = 0
        self.results = {}

    # the two sessions

    def open(self):
        self.names += 1
        name = f"s{self.names}"
        self.client.open(name)
        return name

    def start(self):
        self.stack.start()
        self.client = self.stack.client(self.stack.key(), timeout=120)
        self.victim = self.open()
        self.client.put(f"/v1/sessions/{self.victim}/files/secret.txt", SECRET.encode())
        self.attacker = self.open()
        self.plant()

    def run(self, session, code, timeout=30):
        return self.client.run(session, code, timeout=timeout)

    def output(self, session, code, timeout=30):
        result = self.run(session, code, timeout)
        assert result["status"] == "ok", result
        return result["stdout"]

    def plant(self):
        """What the neighbour has lying about, as any session may, and what lies on the host."""
        port = self.output(self.victim, f"""
import os, socket, threading, ctypes, multiprocessing.shared_memory as sm
ctypes.CDLL(None).prctl(15, b"victim-{NONCE[:8]}", 0, 0, 0)
def serve(s):
    s.listen()
    def loop():
        while True: s.accept()[0].sendall(b"{SECRET}")
    threading.Thread(target=loop, daemon=True).start()
for place in ("/tmp/decoy-{NONCE}", "/dev/shm/decoy-{NONCE}.file", os.path.expanduser("~/decoy.txt"), "/var/tmp/decoy-{NONCE}", os.environ.get("TMPDIR", "/tmp") + "/decoy.txt"):
    try: open(place, "w").write("{SECRET}")
    except OSError: pass
sockets = []
for name in ("\\0decoy-{NONCE}", "/tmp/decoy-{NONCE}.sock"):
    try: s = socket.socket(socket.AF_UNIX); s.bind(name); serve(s); sockets.append(s)
    except OSError: pass
port = 0
try: s = socket.socket(); s.bind(("0.0.0.0", 0)); port = s.getsockname()[1]; serve(s); sockets.append(s)
except OSError: pass
decoy = sm.SharedMemory("decoy-{NONCE}", create=True, size=4096); decoy.buf[:6] = b"SECRET"
ctypes.CDLL(None).shmget(0x51b0000 + 1, 4096, 0o1666)
print(port)""")
        self.sib_port = int(port)
        libc = ctypes.CDLL(None)
        libc.shmget(0x51b0000, 4096, 0o1666)
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0host-decoy-" + NONCE)
        self.abstract.listen()

    def kernel_pids(self):
        """The victim's processes as the host sees them."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/comm") as f:
                    if f.read().strip() == f"victim-{NONCE[:8]}":
                        found.append(int(pid))
        assert found, "the victim is not found"
        return found

    def surroundings(self):
        """V: what an attacker who knows the machine well could know."""
        s, victims = self.stack, self.kernel_pids()
        home = self.output(self.victim, "import os; print(os.path.expanduser('~'))").strip()
        gateway = s.processes["gateway"].pid
        files = [f for f in glob.glob(s.path("k") + "/**/*", recursive=True) + glob.glob(s.path("g") + "/**/*", recursive=True)
                 if os.path.isfile(f)]
        zmq = []
        for f in glob.glob(s.path("k") + "/**/kernel-*.json", recursive=True):
            with open(f) as stream:
                c = json.load(stream)
            for what in ("shell", "iopub", "stdin", "control", "hb"):
                port = c[what + "_port"]
                zmq.append(f"{c['ip']}-{port}" if c.get("transport") == "ipc" else port)
        self.v = {
            "nonce": NONCE, "sib_pids": victims, "sib_uid": os.stat(f"/proc/{victims[0]}").st_uid,
            "sib_ws": [os.path.dirname(f) for f in glob.glob(s.dir + "/**/secret.txt", recursive=True)],
            "sib_homes": [home + "/decoy.txt", home + "/.ipython/**/*", s.path("k", "homes") + "/**/decoy.txt",
                          s.path("s-keeper", "homes") + "/**/decoy.txt"] if TIER in ("none", "container") else [],
            "sib_port": self.sib_port, "zmq": zmq, "connection_files": [f for f in files if f.endswith(".json")],
            "pids": sorted({gateway, os.getpid(), s.processes["master"].pid, *s.workers()[:2],
                            *([s.processes["keeper"].pid] if s.sandboxed else [])}),
            "gateway_port": s.gateway_port, "gateway_secret_hint": s.token[:7], "runtime": s.path("k"), "state": s.state,
            "keeper_state": s.path("s-keeper"), "keeper": s.path("kp"), "run": s.run, "db": s.path("s", "husk.db"),
            "conf": s.path("husk.conf"), "logs": [s.path(n + ".log") for n in ("master", "gateway", "keeper") if os.path.exists(s.path(n + ".log"))],
            "http": s.address, "kernels": s.kernels(), "public": worlds.PUBLIC, "public6": worlds.PUBLIC6,
            "public_host": worlds.PUBLIC_HOST, "lan_host": worlds.LAN_HOST, "denied": worlds.DENIED,
            "denied6": worlds.DENIED6, "resolver": worlds.RESOLVER, "listen_port": 18080,
            "internet": TIER != "container" or EGRESS != "none", "shm_host": 0x51b0000, "shm_sib": 0x51b0001,
        }
        for f in self.v["logs"]:
            os.chmod(f, 0o600)

    # looks from outside: each returns a complaint or None

    def check_sibling_lives(self, _):
        return None if self.kernel_pids() and self.output(self.victim, "print(40 + 2)", 20) == "42\n" else "the neighbour is gone"

    check_sibling_works = check_sibling_lives

    def check_told_as_oom(self, result):
        if TIER == "host" and result["reason"] not in ("oom", "timeout"):  # a machine under load does not come that far
            return f"the reason told is {result['reason']}"
        return self.check_sibling_works(result)

    def check_sibling_answers(self, _):
        began = time.monotonic()
        self.output(self.victim, "print(sum(range(10**6)))", 20)
        took = time.monotonic() - began
        return None if took < 5 else f"the neighbour's cell took {took:.1f} s"

    def check_page_cache(self, _):
        said = subprocess.run(["fincore", "-bnro", "RES", "/usr/lib/python3/dist-packages/pandas/core/frame.py"], capture_output=True, text=True)
        return None if int(said.stdout or 0) > 0 else "the file is read from the disk again"

    def check_usr_watch(self, _):
        self.output(self.victim, "import subprocess; subprocess.run(['/usr/bin/factor', '42'], capture_output=True).returncode")
        subprocess.run(["/usr/bin/tac", "/dev/null"], check=True)
        said = self.output(self.attacker, "seen = b''\ntry:\n while d := os.read(fd, 65536): seen += d\nexcept OSError: pass\n"
                           "print([n for n in (b'factor', b'tac') if n in seen])")
        return None if said == "[]\n" else "seen: " + said

    def check_device_watch(self, _):
        self.output(self.victim, "open('/dev/null', 'w').write('x')")
        with open("/dev/null", "w", encoding="ascii") as f:
            f.write("x")
        said = self.output(self.attacker, "try: print(len(os.read(fd, 65536)))\nexcept OSError as e: print(e.errno)")
        return None if said == "11\n" else f"{said.strip()} bytes of events"

    def check_sibling_terminal(self, _):
        said = self.output(self.victim, "import os, pty\ntry: [os.close(fd) for fd in pty.openpty()]; print('ok')\nexcept OSError as e: print(e)")
        return None if said == "ok\n" else "the neighbour gets no terminal: " + said

    def check_sibling_shm(self, _):
        said = self.output(self.victim, "f = open('/dev/shm/mine', 'wb', 0)\ntry: print(f.write(bytes(1 << 20)))\nexcept OSError as e: print(e)")
        self.output(self.attacker, "import glob, os; [h.close() for h in held]; [os.unlink(f) for f in glob.glob('/dev/shm/part*')]")
        return None if said == f"{1 << 20}\n" else "the neighbour gets no shared memory: " + said

    def check_gateway_goes_on(self, _):
        time.sleep(1)
        try:
            self.output(self.victim, "print(1)", 10)
            self.client.delete(f"/v1/sessions/{self.open()}")
        except (AssertionError, OSError) as e:
            return f"the neighbour's cell or another session: {e!r:.200}"
        return None

    def check_descriptors_pass(self, _):
        try:
            answer = self.client.get(f"/v1/sessions/{self.victim}/files/secret.txt", timeout=10)
            if answer.status != 200:
                return f"the neighbour's file: {answer.status}"
            if TIER == "rootless":  # where all are one user
                self.client.delete(f"/v1/sessions/{self.open()}")
                self.output(self.victim, "print(1)", 10)
        except (AssertionError, OSError) as e:
            return f"another session: {e!r:.200}"
        finally:
            self.output(self.attacker, "pairs.clear()")
        return None

    def check_sibling_inotify(self, _):
        said = self.output(self.victim, "import ctypes; print(ctypes.CDLL(None).inotify_init1(0) >= 0)")
        return None if said == "True\n" else "the neighbour gets no inotify instance"

    def check_listener(self, _):
        for address in ("127.0.0.1", worlds.PUBLIC_HOST):
            with contextlib.suppress(OSError):
                socket.create_connection((address, self.v["listen_port"]), 1).close()
                return f"{address} can be connected to"
        return None

    def check_downloads(self, _):
        for name in ("l1", "l2", "l3", "l4", "l5", "fifo"):
            answer = self.client.get(f"/v1/sessions/{self.attacker}/files/{name}", timeout=10)
            if answer.status == 200:
                return f"{name} was given out"
        return None

    def check_setuid_file(self, _):
        for path in glob.glob(self.stack.dir + "/**/sh", recursive=True):
            with contextlib.suppress(OSError):
                st = os.stat(path)
                if st.st_mode & 0o6000 and st.st_uid == 0:
                    return "a setuid file of root's"
        return None

    def check_hostname(self, _):
        return None if socket.gethostname() == self.hostname else "the machine has another name"

    def check_next_session(self, _):
        name = self.open()
        try:
            said = self.output(name, "import os, subprocess, sys; print(os.environ.get('EVIL'), subprocess.run([sys.executable, '-c',"
                               " 'import os; print(os.environ.get(\"EVIL\"))'], capture_output=True, text=True).stdout.strip())")
            return None if said == "None None\n" else "the next session ran it: " + said
        finally:
            self.client.delete(f"/v1/sessions/{name}")

    def check_leftovers(self, _):
        self.client.delete(f"/v1/sessions/{self.attacker}")
        self.attacker = self.open()
        said = self.output(self.attacker, f"import glob; print([f for d in ('/tmp', '/dev/shm', '/var/tmp') for f in glob.glob(d + '/left-{NONCE}')])")
        return None if said == "[]\n" else "still there: " + said

    def check_daemon_gone(self, _):
        self.client.delete(f"/v1/sessions/{self.attacker}")
        self.attacker = self.open()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            left = []
            for path in glob.glob("/proc/[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    with open(path) as f:
                        if f.read().startswith("sleep-" + NONCE):
                            left.append(path)
            if not left:
                return None
            time.sleep(0.2)
        for path in left:
            os.kill(int(path.split("/")[2]), 9)
        return "it lives on"

    def check_log_bounded(self, _):
        size = sum(map(os.path.getsize, self.v["logs"]))
        return None if size < 4 << 20 else f"the logs have grown to {size >> 20} MiB"

    def check_disk_goes_on(self, _):
        self.client.put(f"/v1/sessions/{self.victim}/files/after.bin", bytes(1 << 20))
        self.output(self.attacker, "import glob, os; [os.unlink(f) for f in glob.glob('fill*')]; open('again', 'wb').write(bytes(1 << 20))")
        return self.check_sibling_works(_)

    # cells

    def attack(self, cell):
        """(verdict, what was seen)"""
        if cell.exhausts and TIER == "none":
            return "not tried", "nothing bounds it in this tier"
        code = f"V = {self.v!r}\n{PRELUDE}\n{cell.code}\nsay('DONE')\n"
        result = self.run(self.attacker, code, cell.timeout)
        seen = [line for line in result["stdout"].splitlines() if line.startswith("PWN")]
        if not cell.may_die and not result["stdout"].rstrip().endswith("DONE"):
            return "broken", json.dumps({k: result[k] for k in ("reason", "error_name", "error_value", "stdout")})[-600:]
        if cell.check:
            complaint = getattr(self, "check_" + cell.check)(result)
            if complaint:
                seen.append(complaint)
        return ("not held", "; ".join(seen)[:400]) if seen else ("held", result["stdout"][-300:])

    def refresh(self):
        """A session that can be attacked from again, whatever the last cell did to it."""
        with contextlib.suppress(AssertionError, OSError):
            if self.run(self.attacker, "print(1)", 10)["stdout"] == "1\n":
                return
        self.client.delete(f"/v1/sessions/{self.attacker}", check=False)
        self.attacker = self.open()

    def attack_all(self, wanted):
        self.hostname = socket.gethostname()
        self.surroundings()
        for cell in cells.CELLS:
            if wanted and cell.name not in wanted:
                continue
            began = time.monotonic()
            try:
                verdict, seen = self.attack(cell)
                if cell.may_die or verdict == "broken":
                    self.refresh()
            except Exception:
                verdict, seen = "broken", traceback.format_exc()[-900:]
                self.refresh()
            self.results[cell.name] = {"verdict": verdict, "seen": seen, "seconds": round(time.monotonic() - began, 2)}

    def work_all(self, wanted):
        name = self.open()
        self.client.put(f"/v1/sessions/{name}/files/{ordinary.WHEEL}", ordinary.wheel())
        for what, code in ordinary.WORK.items():
            if wanted and "ordinary: " + what not in wanted:
                continue
            result = self.run(name, code, 60)
            ok = result["status"] == "ok"
            self.results["ordinary: " + what] = {
                "verdict": "works" if ok else "fails",
                "seen": "" if ok else json.dumps([result["reason"], result["error_name"], result["error_value"], result["stderr"][-300:], result["stdout"][-300:]])}
        self.client.delete(f"/v1/sessions/{name}")

    @staticmethod
    def reload_firewall():
        """What `systemctl reload nftables` begins with; the keeper has to miss its table at once."""
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        end = time.monotonic() + 10
        while subprocess.run(["nft", "list", "table", "inet", "husk"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            if time.monotonic() > end:
                raise AssertionError("the table of the keeper is not restored")
            time.sleep(0.02)

    def fill_conntrack(self):
        """The machine's table of connections, which all share: one session must leave room in it."""
        code = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); n = refused = 0\nfor port in range(1024, 13024):\n"
                f" try: s.sendto(b'x', ('{worlds.PUBLIC}', port)); n += 1\n except OSError: refused += 1\nprint(n, refused)")
        said = self.output(self.attacker, code)
        with open("/proc/sys/net/netfilter/nf_conntrack_count") as f:
            count = int(f.read())
        near = 'import socket; print(socket.create_connection(("%s", 80), 5).recv(64))' % worlds.PUBLIC
        if count > 5000 or worlds.ANSWER.decode() not in self.output(self.victim, near):
            return "not held", f"{count} connections; {said}"
        return "held", f"{count} connections; {said}"

    def fill_neighbours(self):
        """The machine's table of neighbours on its links, which all share: a sandbox asks for none."""
        code = ("import socket, struct\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); n = 0\nfor last in range(1, 101):\n"
                " try: s.sendmsg([b'x'], [(0, 8, struct.pack('iII', socket.if_nameindex()[-1][0], 0, 0))], 4, ('93.184.200.%d' % last, 9)); n += 1\n"
                " except OSError as e: print(e)\nprint(n, 'sent,', len(open('/proc/net/arp').readlines()) - 1, 'asked for')")
        said = self.output(self.attacker, code)
        return ("held" if int(said.split()[-3]) < 10 else "not held"), said

    def reach_all(self, wanted):
        """Egress public: the same boundary cells about the network, but for the internet, which has to be reached."""
        if TIER == "host":
            self.reload_firewall()
        network = ("host_loopback", "metadata", "private_networks", "gateway_api", "listening", "sibling_sockets", "husk_api", "fastcgi_sockets", "multicast")
        self.attack_all([n for n in network if not wanted or n in wanted])
        for label, code in (("tcp", 'connect(V["public"], 80)'), ("udp", 'ask(V["public"], 80)'), ("resolver", 'ask(V["resolver"], 53)')):
            result = self.run(self.attacker, f"V = {self.v!r}\n{PRELUDE}\nfor i in range(5):\n try: print({code}); break\n except OSError as e: print(e)", 30)
            ok = worlds.ANSWER.decode() in result["stdout"]
            self.results["reached: " + label] = {"verdict": "works" if ok else "fails", "seen": result["stdout"][-300:]}
        result = self.run(self.attacker, f"V = {self.v!r}\n{PRELUDE}\nattempt('other port', ask, V['resolver'], 80); say('DONE')")
        verdict, seen = self.fill_conntrack() if TIER == "host" else ("not tried", "a supervisor does not count them")
        self.results["connection_table"] = {"verdict": verdict, "seen": seen}
        verdict, seen = self.fill_neighbours() if TIER == "host" else ("not tried", "the host's interfaces")
        self.results["neighbour_table"] = {"verdict": verdict, "seen": seen}
        held = "PWN" not in result["stdout"] and "DONE" in result["stdout"]
        self.results["resolver_other_port"] = {"verdict": "held" if held else "not held", "seen": result["stdout"]}


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))  # as a login has it
    attack = Attack()
    try:
        began = time.monotonic()
        attack.start()
        attack.results["start"] = {"verdict": "works", "seen": "", "seconds": round(time.monotonic() - began, 2)}
        wanted = sys.argv[4:]
        if EGRESS == "public":
            attack.reach_all(wanted)
        else:
            attack.work_all(wanted)
            attack.attack_all(wanted)
    except BaseException:
        attack.results["start"] = {"verdict": "broken", "seen": traceback.format_exc()[-1500:] + "".join(
            f"\n--- {n}\n{attack.stack.log(n)[-1200:]}" for n in ("keeper", "gateway", "master"))}
    finally:
        with open(RESULTS, "w") as f:
            json.dump(attack.results, f)
        with contextlib.suppress(Exception):
            attack.stack.stop()
        attack.world.end()
        for left in glob.glob(f"/var/tmp/*-{NONCE}*"):  # the one folder of the machine's that sessions of tier none reach
            os.unlink(left)


if __name__ == "__main__":
    main()
