"""What a session must not be able to do, each as the cell it would run.

A cell prints a line that begins with PWN when it has crossed its boundary. `lost` names the tiers that do not promise
the boundary, and why; everywhere else it has to hold. `check` names a test in tier.py that looks from outside, before
or after; `exhausts` marks what is not tried where nothing bounds it (tier none).
"""
from dataclasses import dataclass, field

ONE_USER = "all kernels and the gateway are one user"
NO_NAMESPACES = "no namespaces"
NONE = {"none": ONE_USER}


@dataclass
class Cell:
    name: str
    boundary: str
    code: str
    lost: dict = field(default_factory=dict)
    check: str = ""
    exhausts: bool = False
    may_die: bool = False
    timeout: int = 30


CELLS = [
    # files and memory of others
    Cell("sibling_workspace", "a neighbour's files", """
for place in V["sib_ws"] + [f"/proc/{p}/{w}" for p in V["sib_pids"] for w in ("cwd", "root/home/workspace", "root/workspace")]:
    attempt(place[:40], read, place + "/secret.txt")
for top in ("/home", V["state"], V["keeper_state"], "/tmp"):
    for found in glob.glob(top + "/**/secret.txt", recursive=True)[:3]:
        if not os.path.realpath(found).startswith(os.getcwd()): attempt(found[-40:], read, found)
""", NONE),
    Cell("sibling_home", "a neighbour's home, history and temporary files", """
for pattern in V["sib_homes"] + ["/tmp/decoy-*", "/var/tmp/decoy-*", "/dev/shm/decoy-*"]:
    for f in glob.glob(pattern, recursive=True): attempt(f[-50:], read, f)
""", NONE),
    Cell("sibling_memory", "a neighbour's memory, environment and descriptors", """
for p in V["sib_pids"]:
    attempt("mem", lambda: os.pread(os.open(f"/proc/{p}/mem", os.O_RDONLY), 1, 0x400000))
    for what in ("environ", "maps", "auxv", "stack", "syscall"): attempt(what, read, f"/proc/{p}/{what}")
    attempt("fd", os.listdir, f"/proc/{p}/fd")
    attempt("exe", os.readlink, f"/proc/{p}/exe")
""", NONE),
    Cell("sibling_ptrace", "steering a neighbour's process", """
for p in V["sib_pids"] + V["pids"]:
    if call("attach", 101, 16, p, 0, 0) >= 0: # it must go on afterwards
        os.waitpid(p, 0x40000000); _libc.ptrace(17, p, None, None)
    b = ctypes.create_string_buffer(64); v = struct.pack("QQ", ctypes.addressof(b), 8); w = struct.pack("QQ", 0x400000, 8)
    call("process_vm_readv", 310, p, v, 1, w, 1, 0); call("process_vm_writev", 311, p, v, 1, w, 1, 0)
    fd = _libc.syscall(434, p, 0)
    if fd >= 0: call("pidfd_getfd", 438, fd, 0, 0); os.close(fd)
    call("kcmp", 312, os.getpid(), p, 0, 0, 0)
""", NONE),
    Cell("sibling_signal", "signals to neighbours and to the service", """
for p in V["sib_pids"] + V["pids"]:
    attempt(f"signal {p}", os.kill, p, 0)
    fd = _libc.syscall(434, p, 0)
    if fd >= 0: call("pidfd_send_signal", 424, fd, 0, None, 0); os.close(fd)
for p in foreign():
    if p > 1: attempt(f"signal {p}", os.kill, p, 0)
for n in os.listdir("/proc/self/fd"): # the gateway, as the other end of a connection
    try: s = socket.socket(fileno=os.dup(int(n))); fd = s.getsockopt(socket.SOL_SOCKET, 77) if "kernel" in str(s.getsockname()) else -1
    except OSError: continue
    if fd >= 0: call("signal to the other end", 424, fd, 0, None, 0); os.close(fd)
""", NONE, check="sibling_lives"),
    Cell("sibling_zmq", "a neighbour's kernel sockets", """
for p in V["zmq"]:
    attempt(str(p)[-40:], *((knock, "127.0.0.1", p) if isinstance(p, int) else (connect_unix, p)))
""", NONE),
    Cell("connection_files", "neighbours' connection files with their keys", """
for f in glob.glob(V["runtime"] + "/**/*.json", recursive=True) + V["connection_files"]: attempt(f[-50:], read, f)
""", NONE),
    Cell("sibling_sockets", "servers and abstract sockets of a neighbour", """
attempt("tcp", connect, "127.0.0.1", V["sib_port"])
attempt("abstract", connect_unix, "\\0decoy-" + V["nonce"])
attempt("host abstract", connect_unix, "\\0host-decoy-" + V["nonce"])
attempt("socket file", connect_unix, f"/tmp/decoy-{V['nonce']}.sock")
""", {**NONE}),
    Cell("sysv_ipc", "shared memory, semaphores and queues of the host and of neighbours", """
for key in (V["shm_host"], V["shm_sib"]):
    i = _libc.shmget(key, 0, 0)
    say(*(("PWN segment", i) if i >= 0 else ("no segment", errno.errorcode[ctypes.get_errno()])))
seen = len(open("/proc/sysvipc/shm").read().splitlines()) - 1
say("PWN" if seen else "", seen, "segments listed")
""", {**NONE, "container": NO_NAMESPACES + ": System V objects are listed in `/proc`, and cannot be opened"}),
    Cell("posix_ipc", "message queues and named shared memory of neighbours", """
call("mq_open", 240, b"decoy", 0, 0, 0)
from multiprocessing import shared_memory
def look():
    m = shared_memory.SharedMemory(name="decoy-" + V["nonce"])
    return bytes(m.buf[:6])
attempt("shm", look)
""", NONE),
    Cell("own_uid", "a uid that no other session has", """
if os.getuid() == V["sib_uid"]: say("PWN the neighbour has uid", V["sib_uid"], "too")
""", {**NONE, "rootless": "without a range of sub-uids there is one uid; namespaces keep sessions apart"}),
    # the service and its secrets
    Cell("environments", "tokens and settings in environments and arguments", """
for p in pids():
    for what in ("environ", "cmdline"):
        try: data = read(f"/proc/{p}/{what}", 1 << 16)
        except OSError: continue
        if p != os.getpid() and (b"TOKEN" in data or b"token=" in data or V["gateway_secret_hint"].encode() in data):
            say("PWN", what, "of", p)
say("own", sorted(os.environ))
if any("TOKEN" in k or "SECRET" in k or k.startswith(("SANDBOX_", "HUSK_GATEWAY")) for k in os.environ): say("PWN own environment")
"""),
    Cell("process_list", "other sessions' and the service's processes", """
seen = foreign()
if seen: say("PWN", len(seen), "processes seen")
""", {**NONE, "container": NO_NAMESPACES + ": names and arguments of processes can be read in `/proc`, not more"}),
    Cell("database", "the service's database", """
for f in [V["db"], V["db"] + "-wal", *(f"/proc/{p}/root{V['db']}" for p in V["pids"])]: attempt(f[-30:], read, f)
attempt("write", lambda: open(V["db"], "r+b"))
"""),
    Cell("settings_file", "the settings with the gateway's token", """
attempt("settings", read, V["conf"])
for f in ("/etc/husk/husk.conf", "/etc/shadow", "/root/.bashrc", "/etc/ssl/private"): attempt(f, read, f)
"""),
    Cell("fastcgi_sockets", "the workers' FastCGI sockets, past nginx and its keys", """
for f in ("exec", "api", "bulk", "ctl"): attempt(f, connect_unix, f"{V['run']}/{f}.sock")
"""),
    Cell("keeper_sockets", "the keeper's and its monitors' sockets", """
for f in ("launch.sock", "files.sock"): attempt(f, packet_unix, f"{V['keeper']}/{f}")
for f in glob.glob(V["keeper"] + "/m/*") + [f"{V['keeper']}/m/{k}" for k in V["kernels"]]: attempt(f[-45:], packet_unix, f)
attempt("ended", os.listdir, V["keeper"] + "/ended")
"""),
    Cell("service_logs", "the service's files and logs", """
for f in V["logs"]: attempt(f[-40:], read, f)
attempt("list", os.listdir, V["state"]); attempt("blobs", os.listdir, V["state"] + "/artifacts")
attempt("keeper's", os.listdir, V["keeper_state"])
"""),
    Cell("gateway_api", "the gateway's API with and without its token", """
import urllib.request
def api(token):
    r = urllib.request.Request(f"http://127.0.0.1:{V['gateway_port']}/api/kernels", headers={"Authorization": "token " + token} if token else {})
    return urllib.request.urlopen(r, timeout=2).read()
attempt("connect", knock, "127.0.0.1", V["gateway_port"])
attempt("no token", api, ""); attempt("empty token", api, "x")
for p in V["pids"]:
    try: env = dict(e.split(b"=", 1) for e in read(f"/proc/{p}/environ", 1 << 16).split(b"\\0") if b"=" in e)
    except OSError: continue
    for k, v in env.items():
        if b"TOKEN" in k: attempt("stolen token", api, v.decode())
""", NONE),
    Cell("husk_api", "the service's own API without a key", """
attempt("socket", connect_unix, V["http"])
""", {"none": "socket files that are open to all can be connected to; the service asks for a key",
     "container": "socket files that are open to all can be connected to; the service asks for a key"}),
    Cell("host_loopback", "ports of the host", """
for h in ("127.0.0.1", V["public_host"], V["lan_host"], "::1", "::ffff:127.0.0.1", "0.0.0.0", "localhost", "2130706433"):
    attempt(h, connect, h if h != "2130706433" else "127.1", 9080); attempt(h + " udp", ask, h if h != "2130706433" else "127.1", 9080)
""", {"none": "the host's network"}),
    Cell("metadata", "the metadata service in all its spellings", """
for h in ("169.254.169.254", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "fd00:ec2::254"):
    for info in (socket.getaddrinfo(h, 80, type=socket.SOCK_STREAM) if ":" not in h else [(socket.AF_INET6, 0, 0, "", (h, 80))]):
        attempt(h, connect, info[4][0], 80, info[0])
""", {"none": "the host's network"}),
    Cell("private_networks", "the operator's networks", """
for h in V["denied"] + V["denied6"]:
    attempt(h, connect, h, 80); attempt(h + " udp", ask, h, 80)
""", {"none": "the host's network"}),
    Cell("internet", "anything outside, where egress is none", """
attempt("tcp", connect, V["public"], 80); attempt("udp", ask, V["public"], 80); attempt("v6", connect, V["public6"], 80)
""", {"none": "the host's network (egress open)"}),
    Cell("resolver", "the host's name resolver", """
for line in open("/etc/resolv.conf"):
    if line.startswith("nameserver"): attempt(line.strip(), ask, line.split()[1], 53)
attempt("known", ask, V["resolver"], 53)
""", {"none": "the host's network"}),
    Cell("host_interfaces", "the host's interfaces and neighbours' links, asked of the sockets on which the kernel is spoken to", """
import fcntl
for n in os.listdir("/proc/self/fd"):
    try: s = socket.socket(fileno=os.dup(int(n)))
    except OSError: continue
    for i in range(1, 64):
        try: name = fcntl.ioctl(s, 0x8910, struct.pack("16si20x", b"", i))[:16].rstrip(bytes(1)) # SIOCGIFNAME
        except OSError: continue
        if name not in (b"lo", b"eth0"): say("PWN", name, s.getsockname())
    if s.family == socket.AF_UNIX: attempt("bound", s.setsockopt, socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
""", {"none": "the host's network", "container": NO_NAMESPACES + ": the container's interfaces can be listed"}),
    Cell("multicast", "other interfaces, and groups that are told to the routers around", """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if V["internet"] else socket.socket(socket.AF_UNIX)
for label, level, option, value in (("group", 0, 35, bytes((239, 1, 2, 3, 0, 0, 0, 0))), ("group of a source", 0, 39, bytes((239, 1, 2, 3, 0, 0, 0, 0, 93, 184, 216, 34))), ("device", 1, 25, b"lo"), ("device by number", 1, 62, struct.pack("i", 1))):
    attempt(label, s.setsockopt, level, option, value)
""", {"none": "the host's network"}),
    Cell("listening", "ports that others can connect to", """
try: s = socket.socket(); s.bind(("0.0.0.0", V["listen_port"])); s.listen()
except OSError as e: say(e)
""", {"none": "the host's network"}, check="listener"),
    # the machine
    Cell("write_outside", "writing outside workspace, home and temporary folders", """
for p in ("/usr/lib/python3/dist-packages/evil.py", "/usr/local/bin/evil", "/etc/evil", "/evil", "/var/lib/evil", "/root/evil", "/home/evil", "/run/evil", "/opt/evil", "/sys/kernel/evil", "/dev/evil", "/proc/self/loginuid", V["state"] + "/evil", V["runtime"] + "/evil", V["run"] + "/evil"):
    attempt(p, write, p)
""", {"none": ONE_USER + ": the gateway's folders are open to it"}),
    Cell("proc_sys", "the machine's settings", """
for p in ("kernel/core_pattern", "kernel/hostname", "kernel/modprobe", "kernel/randomize_va_space", "kernel/sysrq", "vm/drop_caches", "vm/overcommit_memory", "fs/file-max", "net/ipv4/ip_forward", "net/ipv4/conf/all/rp_filter"):
    attempt(p, write, "/proc/sys/" + p, b"0")
for p in ("/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/cgroup.procs"): attempt(p, write, p, b"0")
"""),
    Cell("cgroup_escape", "leaving or changing its own control group", """
for f in glob.glob("/sys/fs/cgroup/**/*procs", recursive=True)[:20] + glob.glob("/sys/fs/cgroup/**/*limit_in_bytes", recursive=True)[:5] + glob.glob("/sys/fs/cgroup/**/*.max", recursive=True)[:5]: attempt(f[-50:], write, f, b"0")
"""),
    Cell("mounts", "mounting, by either interface", """
b = ctypes.create_string_buffer(256)
call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, 0); call("bind", 165, b"/", b"/tmp", 0, 4096, 0); call("umount", 166, b"/proc", 2)
call("fsopen", 430, b"tmpfs", 0); call("open_tree", 428, -100, b"/tmp", 1); call("move_mount", 429, -100, b"/tmp", -100, b"/mnt", 0)
call("mount_setattr", 442, -100, b"/", 0, b, 32); call("pivot_root", 155, b".", b".")
"""),
    Cell("namespaces", "new namespaces, and others' namespaces", """
for name, flag in (("user", 0x10000000), ("mnt", 0x20000), ("pid", 0x20000000), ("net", 0x40000000), ("ipc", 0x8000000), ("uts", 0x4000000), ("cgroup", 0x2000000), ("time", 0x80)):
    call("unshare " + name, 272, flag)
r = call("clone newuser", 56, 0x10000000 | 17, 0, 0, 0, 0)
if r == 0: os._exit(0)
a = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
r = call("clone3 newuser", 435, a, 88)
if r == 0: os._exit(0)
call("setns", 308, 0, 0)
for p in V["sib_pids"] + V["pids"]:
    for ns in ("mnt", "net", "pid"): attempt(f"ns {ns}", lambda: os.open(f"/proc/{p}/ns/{ns}", os.O_RDONLY))
""", {"none": "no filter, and others' processes have one's own uid"}),
    Cell("chroot", "another root", """
os.makedirs("jail", exist_ok=True); attempt("chroot", os.chroot, "jail")
attempt("init's root", os.listdir, "/proc/1/root/root")
"""),
    Cell("devices", "devices", """
for d in ("/dev/vda", "/dev/sda", "/dev/loop0", "/dev/kvm", "/dev/fuse", "/dev/loop-control", "/dev/kmsg", "/dev/mem", "/dev/port", "/dev/net/tun", "/dev/tty1", "/dev/console", "/dev/rtc0", "/dev/vsock", "/dev/userfaultfd", "/dev/cpu/0/msr"):
    attempt(d, lambda: os.open(d, os.O_RDWR | os.O_NONBLOCK))
"""),
    Cell("mknod", "making device files", """
attempt("block", os.mknod, "blk", 0o60666, os.makedev(7, 0)); attempt("char", os.mknod, "/tmp/chr", 0o20666, os.makedev(1, 1))
"""),
    Cell("setuid_programs", "gaining rights by programs", """
import shutil
out = subprocess.run("id -u; grep -E 'NoNewPrivs|CapEff|CapPrm|CapBnd|CapAmb|^Seccomp:' /proc/self/status; su -c id </dev/null 2>&1|head -1; sudo -n id 2>&1|head -1; mount 2>/dev/null | head -0; newgrp root </dev/null 2>&1|head -1", shell=True, capture_output=True, text=True).stdout
say(out)
status = dict(l.split(":", 1) for l in open("/proc/self/status"))
if "uid=0" in out or status["NoNewPrivs"].strip() != "1" or any(int(status[c], 16) for c in ("CapEff", "CapPrm", "CapAmb", "CapInh")): say("PWN rights can be gained")
shutil.copy("/bin/sh", "sh"); os.chmod("sh", 0o6755)
""", {"none": "setuid programs of the machine can be run"}, check="setuid_file"),
    Cell("set_ids", "another uid, gid or group", """
attempt("setuid", os.setuid, 0); attempt("setresuid", os.setresuid, 0, 0, 0); attempt("setgid", os.setgid, 0); attempt("setgroups", os.setgroups, [0])
attempt("neighbour's uid", lambda: os.setuid(V["sib_uid"]) if V["sib_uid"] != os.getuid() else 1 / 0)
attempt("chown", os.chown, ".", 0, 0)
if 0 in os.getgroups(): say("PWN group 0")
"""),
    Cell("hard_links", "links to others' files", """
for f in ("/etc/passwd", "/etc/shadow", V["db"], V["conf"]): attempt(f, os.link, f, "link-" + os.path.basename(f))
"""),
    Cell("symlink_download", "others' files through the service, by links", """
for name, to in (("l1", "/etc/shadow"), ("l2", V["db"]), ("l3", V["conf"]), ("l4", "/proc/self/environ"), ("l5", "../../../../../../etc/hostname")):
    try: os.symlink(to, name)
    except FileExistsError: pass
try: os.mkfifo("fifo")
except FileExistsError: pass
""", check="downloads"),
    Cell("swapped_sockets", "having the gateway connect where the session says", """
found = [f for d in ("/run", os.path.expanduser("~"), "/tmp", V["runtime"]) for f in glob.glob(d + "/**/kernel*", recursive=True) if os.path.exists(f)]
def swap(f):
    os.rename(f, f + ".old"); os.symlink("/tmp/elsewhere", f); os.unlink(f); os.rename(f + ".old", f)
for f in found:
    if not f.startswith(os.path.expanduser("~")): attempt(f[-40:], swap, f)
say(len(found), "found")
""", NONE),
    Cell("slow_close", "holding the gateway up with a descriptor that takes long to close", """
def connections():
    for n in os.listdir("/proc/self/fd"):
        try: s = socket.socket(fileno=os.dup(int(n)))
        except OSError: continue
        if s.family == socket.AF_UNIX and not s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and "kernel" in str(s.getsockname()): yield s
def unsent():
    server = socket.create_server(("127.0.0.1", 0)); a = socket.create_connection(server.getsockname()); b, _ = server.accept()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600)); a.setblocking(False)
    try:
        while True: a.send(bytes(1 << 16))
    except BlockingIOError: return a, b
try:
    found = [(s, *unsent()) for s in connections()]; say(len(found), "connections of the gateway's")
    if os.fork() == 0:
        time.sleep(0.5)
        for s, a, b in found:
            fd, rights = a.fileno(), [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", a.fileno()))]
            s.send(b"\x02" + (1 << 20).to_bytes(8, "big") + bytes(60000)) # a frame, so that ours is closed when the descriptor is read
            s.sendmsg([b"x"], rights); os.close(fd); a.detach()
        time.sleep(30); os._exit(0)
    for _, a, b in found: a.close()
except OSError as e: say(e)
""", check="gateway_goes_on", exhausts=True, may_die=True),
    Cell("page_cache", "having the machine forget what it holds of the files all share", """
path = "/usr/lib/python3/dist-packages/pandas/core/frame.py"; read(path, 1 << 22)
fd = os.open(path, os.O_RDONLY)
try: os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
except OSError as e: say(e)
os.close(fd)
""", {"none": "no filter"}, check="page_cache"),
    Cell("usr_watch", "which programs and libraries others open", """
import fcntl
signal.signal(signal.SIGIO, signal.SIG_IGN); fd = _libc.inotify_init1(0o4000)
for event in (0x1, 0x10, 0x20): say(event, _libc.inotify_add_watch(fd, b"/usr/bin", 0x20000000 | event)) # IN_ACCESS, IN_CLOSE_NOWRITE, IN_OPEN
attempt("dnotify", lambda: fcntl.fcntl(os.open("/usr/bin", 0), 1026, 1)); attempt("dnotify of all", lambda: fcntl.fcntl(os.open("/usr/bin", 0), 1026, 0x8000003f))
""", {"none": "no filter"}, check="usr_watch"),
    Cell("device_watch", "when others write to devices that all have", """
fd = _libc.inotify_init1(0o4000); say(_libc.inotify_add_watch(fd, b"/dev/null", 0x2), _libc.inotify_add_watch(fd, b"/proc/cmdline", 0x2)) # IN_MODIFY
""", dict.fromkeys(("rootless", "container", "none"), "device files are the machine's own"), check="device_watch"),
    Cell("file_handles", "opening files by number", """
b = ctypes.create_string_buffer(struct.pack("Ii", 8, 1) + b"\\0" * 128, 136); m = ctypes.c_int()
call("open_by_handle_at", 304, -100, b, 0); b = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
call("name_to_handle_at", 303, -100, b".", b, ctypes.byref(m), 0)
""", {"none": "no filter: handles can be asked for, not opened"}),
    Cell("hostname", "the machine's name", """
attempt("sethostname", socket.sethostname, "evil"); call("setdomainname", 171, b"evil", 4)
""", check="hostname"),
    Cell("clock", "the machine's clock", """
attempt("clock_settime", time.clock_settime, time.CLOCK_REALTIME, 1e9); call("settimeofday", 164, struct.pack("qq", 10**9, 0), 0); call("adjtimex", 159, ctypes.create_string_buffer(struct.pack("I", 1), 256))
"""),
    # the kernel's attack surface
    Cell("io_uring", "calls that a filter does not see", """
call("io_uring_setup", 425, 4, ctypes.create_string_buffer(256))
""", {"none": "no filter"}),
    Cell("bpf_perf_uffd", "bpf, perf, userfaultfd", """
b = ctypes.create_string_buffer(256)
call("bpf", 321, 0, b, 48); call("bpf prog", 321, 5, b, 48); call("perf_event_open", 298, b, 0, -1, -1, 0); call("userfaultfd", 323, 0x80001)
""", {"none": "no filter"}),
    Cell("aio_slots", "the machine's slots for asynchronous I/O, of which there are few for all", """
c = ctypes.c_ulong()
if call("io_setup", 206, 1, ctypes.byref(c)) >= 0: _libc.syscall(207, c)
""", {"none": "no filter"}),
    Cell("huge_pages", "the machine's huge pages, which no limit of memory counts", """
_libc.mmap.restype = ctypes.c_void_p
m = _libc.mmap(None, ctypes.c_size_t(2 << 20), 3, 0x44022, -1, ctypes.c_long(0)) # not reserved, not touched
say(*(("huge mmap ->", errno.errorcode[ctypes.get_errno()]) if m == ctypes.c_void_p(-1).value else ("PWN huge mmap",)))
fd = call("huge memfd", 319, b"x", 4)
if fd >= 0: os.close(fd)
i = _libc.shmget(0, ctypes.c_size_t(2 << 20), 0o7600)
if i >= 0: say("PWN huge shmget"); _libc.shmctl(i, 0, None)
""", {"none": "no filter"}),
    Cell("file_systems", "what the kernel tells of the file systems that others have mounted and of their control groups", """
for f in glob.glob("/proc/fs/*/*"): say("PWN", f)
attempt("how many control groups", read, "/proc/cgroups")
""", {"none": "the machine's `/proc`", "container": NO_NAMESPACES + ": the machine's `/proc`"}),
    Cell("audit_identity", "having the machine's audit log name another user", """
done = subprocess.run("echo 0 >/proc/self/loginuid", shell=True, capture_output=True, text=True)
say(*(("PWN auid", 0) if done.returncode == 0 else (done.stderr,)))
""", {"none": "what the machine leaves open to every user"}),
    Cell("keyrings", "key rings, which namespaces do not separate", """
call("add_key", 248, b"user", b"a", b"b", 1, -3); call("keyctl", 250, 0, -3, 0); call("request_key", 249, b"user", b"host-decoy", 0, 0)
""", {"none": "no filter"}),
    Cell("modules_kexec", "kernel code, kernel log, reboot", """
b = ctypes.create_string_buffer(256)
call("init_module", 175, b, 0, b""); call("finit_module", 313, 0, b"", 0); call("delete_module", 176, b"x", 0); call("kexec_load", 246, 0, 0, 0, 0); call("reboot", 169, 0xfee1dead, 672274793, 0x89abcdef, 0); call("swapon", 167, b"/tmp/x", 0); call("syslog", 103, 3, b, 100); call("iopl", 172, 3); call("ioperm", 173, 0, 8, 1); call("acct", 163, b"/tmp/x"); call("quotactl", 179, 0, 0, 0, 0); call("modify_ldt", 154, 1, b, 16)
attempt("kmsg", read, "/proc/kmsg"); attempt("kcore", read, "/proc/kcore"); attempt("kallsyms", lambda: 1 / any(int(l.split()[0], 16) for l in open("/proc/kallsyms")))
""", {"none": "no filter: what the machine leaves open to every user"}),
    Cell("foreign_abi", "calls by other numbers (x32, 32 bit) and calls newer than the filter", """
call("x32 getpid", 0x40000000 + 39); call("unknown", 500); call("newest", 511)
"""),
    Cell("socket_families", "rarely used protocols, above all AF_VSOCK", """
for family in range(3, 50):
    if family in (socket.AF_INET6, socket.AF_NETLINK): continue
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try: s = socket.socket(family, kind); s.close()
        except OSError: continue
        say("PWN family", family, kind); break
high = call("vsock by its low half", 41, (1 << 32) | 40, 1, 0)
if high >= 0: os.close(high)
""", {"none": "no filter"}),
    Cell("raw_sockets", "raw packets", """
attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); attempt("packet", socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 3)
for name, kind, protocol in (("mptcp", 1, 262), ("sctp", 1, 132), ("udplite", 2, 136), ("l2tp", 2, 115), ("smc", 1, 256)): attempt(name, socket.socket, socket.AF_INET, kind, protocol)
""", {"none": "no filter"}),
    Cell("netlink", "netlink other than asking about interfaces", """
for protocol in range(1, 23):
    try: s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol); s.close(); say("PWN netlink", protocol)
    except OSError: pass
""", {"none": "no filter"}),
    Cell("terminal", "typing into a terminal", """
import fcntl, pty
m, s = pty.openpty()
for name, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSETD", 0x5423)):
    attempt(name, fcntl.ioctl, s, request, b"\\x02\\0\\0\\0"); attempt(name + " high", lambda: _libc.syscall(16, s, ctypes.c_long((1 << 32) | request), b"x") and 1 / 0)
"""),
    Cell("scheduling", "going ahead of others", """
attempt("nice", os.nice, -5); attempt("realtime", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(10)); call("ioprio", 251, 1, 0, 1 << 13); call("deadline", 314, 0, struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10**7, 10**8, 10**8), 0)
for p in V["sib_pids"]: attempt("neighbour", os.setpriority, os.PRIO_PROCESS, p, 19)
attempt("oom", write, "/proc/self/oom_score_adj", b"-1000")
""", NONE),
    Cell("limits_raised", "raising its own limits", """
import resource
for name in ("NOFILE", "NPROC", "MEMLOCK", "FSIZE", "DATA", "AS", "STACK", "RTPRIO", "NICE", "MSGQUEUE", "SIGPENDING"):
    r = getattr(resource, "RLIMIT_" + name); soft, hard = resource.getrlimit(r)
    if hard != resource.RLIM_INFINITY: attempt(name, resource.setrlimit, r, (hard + 1, hard + 1))
try: resource.setrlimit(resource.RLIMIT_CORE, (9, 9)) # answered as done where a filter is
except (OSError, ValueError) as e: say("CORE", e)
if resource.getrlimit(resource.RLIMIT_CORE)[1] > 1: say("PWN core files may be written")
""", {}),
    Cell("core_dump", "leaving a core file", """
pid = os.fork()
if pid == 0:
    os.kill(os.getpid(), signal.SIGSEGV); os._exit(0)
_, status = os.waitpid(pid, 0)
if os.WCOREDUMP(status) or glob.glob("core*"): say("PWN core dumped")
"""),
    # what is left for the next one
    Cell("startup_files", "code that runs in the next session", """
import site
places = [site.getusersitepackages(), os.path.expanduser("~/.ipython/profile_default/startup"), os.path.expanduser("~/.config/matplotlib")]
for p in places:
    try:
        os.makedirs(p, exist_ok=True)
        open(p + "/evil.pth", "w").write(f"import os; os.environ['EVIL']='1'\\n"); open(p + "/evil.py", "w").write("import os; os.environ['EVIL']='1'\\n"); open(p + "/sitecustomize.py", "w").write("import os; os.environ['EVIL']='1'\\n")
    except OSError as e: say(p, e)
for p in ("/tmp", "/usr/local/lib/python3.11/dist-packages", "/usr/lib/python3/dist-packages", "/etc"):
    try: open(p + "/sitecustomize.py", "w").write("import os; os.environ['EVIL']='1'\\n")
    except OSError: pass
open("sitecustomize.py", "w").write("import os; os.environ['EVIL']='1'\\n")
""", {}, check="next_session"),
    Cell("next_uid", "what a closed session leaves in temporary folders", """
for d in ("/tmp", "/dev/shm", "/var/tmp", os.environ.get("TMPDIR", "/tmp")):
    try: open(d + "/left-" + V["nonce"], "w").write("left")
    except OSError: pass
""", {"none": "/tmp and /dev/shm are the machine's"}, check="leftovers"),
    Cell("daemon", "a process that outlives its session", """
if os.fork() == 0:
    os.setsid()
    for s in range(1, 32):
        try: signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError): pass
    if os.fork() == 0: os.execv("/bin/sleep", ["sleep-" + V["nonce"], "987"])
    os._exit(0)
""", check="daemon_gone"),
    # exhaustion
    Cell("file_descriptors", "all descriptors", """
held = []; why = 0
try:
    while len(held) < 100000: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as e: why = e.errno
for fd in held: os.close(fd)
say(*(("stopped at", len(held), why) if why else ("PWN", len(held), "descriptors")))
""", check="sibling_works", exhausts=True),
    Cell("passed_descriptors", "having so many descriptors on their way that no process of the user may pass one", """
pairs = []; r = [os.open("/dev/null", 0) for i in range(250)]
try:
    while len(pairs) < 100:
        pairs.append(socket.socketpair()); pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("250i", *r))])
except OSError as e: say(e)
say(len(pairs) * 250, "on their way")
for fd in r: os.close(fd)
""", check="descriptors_pass", exhausts=True),
    Cell("inotify", "all inotify instances of a user", """
held = []
try:
    while len(held) < 5000:
        fd = _libc.inotify_init1(0)
        if fd < 0: raise OSError(ctypes.get_errno(), "inotify")
        held.append(fd)
except OSError as e: say("stopped at", len(held), e.errno)
""", check="sibling_inotify", exhausts=True),
    Cell("zombies", "filling the table of processes with the dead", """
n = 0
try:
    while n < 2000:
        if os.fork() == 0: os._exit(0)
        n += 1
    say("PWN", n, "zombies")
except OSError as e: say("stopped at", n, e.errno)
try:
    while True: os.waitpid(-1, 0)
except OSError: pass
""", check="sibling_works", exhausts=True),
    Cell("fork_bomb", "all processes", """
k = []
try:
    while len(k) < 1500:
        p = os.fork()
        if p == 0:
            time.sleep(20); os._exit(0)
        k.append(p)
    say("PWN", len(k), "processes")
except OSError as e: say("stopped at", len(k), e.errno)
for p in k: os.kill(p, 9)
for p in k: os.waitpid(p, 0)
""", check="sibling_works", exhausts=True),
    Cell("threads", "all processes, by threads", """
stop = threading.Event(); held = []
try:
    while len(held) < 1500:
        th = threading.Thread(target=stop.wait, daemon=True); th.start(); held.append(th)
    say("PWN", len(held), "threads")
except RuntimeError as e: say("stopped at", len(held), e)
stop.set()
for th in held: th.join()
""", check="sibling_works", exhausts=True),
    Cell("stderr_flood", "filling the service's log by writing to descriptor 2", """
block = b"flood " * 10000
for i in range(200): os.write(2, block)
""", check="log_bounded", exhausts=True, may_die=True, timeout=3),
    Cell("tmp_filler", "filling /tmp and /dev/shm", """
for d in {os.environ.get("TMPDIR", "/tmp"), "/dev/shm"}:
    n = 0
    try:
        with open(d + "/filler", "wb") as f:
            while n < 160: f.write(b"x" * (1 << 20)); f.flush(); n += 1
        say("PWN", d, n, "MiB")
    except OSError as e: say(d, "stopped at", n, e.errno)
    finally:
        try: os.unlink(d + "/filler")
        except OSError: pass
""", check="sibling_works", exhausts=True, may_die=True),
    Cell("terminals", "all terminals", """
import pty
held = []
try:
    while len(held) < 1000: held += pty.openpty()
except OSError as e: say("stopped at", len(held) // 2, e)
""", {"container": NO_NAMESPACES + ": the container's terminals are for all its sessions"}, check="sibling_terminal", exhausts=True),
    Cell("shm_filler", "filling /dev/shm, a file beside the other", """
n = 0; held = []
try:
    while n < 600:
        held.append(open(f"/dev/shm/part{len(held)}", "wb", 0))
        for i in range(32): n += held[-1].write(bytes(1 << 20)) >> 20
except OSError as e: say("stopped at", n, "MiB", e)
""", {"container": NO_NAMESPACES + ": /dev/shm is one for all sessions of the container"}, check="sibling_shm", exhausts=True, may_die=True),
    Cell("disk_filler", "filling the disk", """
n = 0
try:
    for i in range(10):
        with open(f"fill{i}", "wb") as f:
            for j in range(16): f.write(b"x" * (1 << 20)); f.flush(); n += 1
    say("PWN wrote", n, "MiB")
except OSError as e: say("stopped at", n, e.errno)
""", {"container": "no quota", "rootless": "no quota per workspace without root"}, check="disk_goes_on", exhausts=True),
    Cell("inode_filler", "using up all inodes", """
n = 0; os.makedirs("many", exist_ok=True)
try:
    while n < 40000: os.close(os.open(f"many/{n}", os.O_CREAT | os.O_WRONLY)); n += 1
    say("PWN", n, "files")
except OSError as e: say("stopped at", n, e.errno)
import shutil; shutil.rmtree("many")
""", {"container": "no quota", "rootless": "no quota per workspace without root"}, check="sibling_works", exhausts=True),
    Cell("processor_hog", "all processor time", """
k = []
for i in range(8):
    p = os.fork()
    if p == 0:
        end = time.time() + 6
        while time.time() < end: pass
        os._exit(0)
    k.append(p)
say("running")
""", check="sibling_answers", exhausts=True),
    Cell("memory_hog", "all memory", """
held = []
try:
    for i in range(1600):
        held.append(bytearray(1 << 20)); held[-1][::4096] = b"x" * 256
    say("PWN", len(held), "MiB")
except MemoryError: n = len(held); held = None; say("stopped at", n)
""", check="sibling_works", exhausts=True, may_die=True),
    Cell("socket_memory", "the machine's memory for network buffers", """
held = []; n = 0; block = bytes(1 << 20)
try:
    server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(8)
    while n < 700 << 20 and len(held) < 3900:
        a = socket.create_connection(server.getsockname()); b = server.accept()[0]; held += [a, b]
        for s in (a, b):
            s.setblocking(False)
            try:
                while True: n += s.send(block)
            except BlockingIOError: pass
except OSError as e: say("stopped by", e)
say("PWN" if n >= 700 << 20 else "", n >> 20, "MiB in", len(held), "sockets")
for s in held: s.close()
""", {"rootless": "limits are per process where no control group is delegated"}, check="sibling_works", exhausts=True, may_die=True),
    Cell("netlink_memory", "the machine's memory, by answers that wait in netlink sockets and no limit counts", """
held = []; n = 0; about_lo = struct.pack("IHHIIBBHiII", 32, 18, 1, 1, 0, 0, 0, 0, 1, 0, 0)
try:
    while n < 600 << 20 and len(held) < 3900:
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20); held.append(s)
        for i in range(1000): s.send(about_lo)
        n += s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    hoarded(n >> 20, "MiB in", len(held), "sockets")
except OSError as e: say("stopped by", e)
""", check="told_as_oom", exhausts=True, may_die=True),
    Cell("error_memory", "the machine's memory, by errors that wait in sockets and no limit counts", """
held = []; n = 0; block = bytes(1000)
try:
    while n < 500 << 20 and len(held) < 3900:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(0, 11, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20); held.append(s)
        for i in range(3000):
            try: s.sendto(block, ("127.0.0.1", 9)) # nobody is there: with IP_RECVERR the refusal waits, 512 bytes and more
            except ConnectionRefusedError: pass
        n += 3000 * 512
    hoarded(n >> 20, "MiB in", len(held), "sockets")
except OSError as e: say("stopped by", e)
""", check="told_as_oom", exhausts=True, may_die=True),
    Cell("timestamp_memory", "the machine's memory, by time stamps that wait in connections and no limit counts", """
held = []; n = 0; server = socket.create_server(("127.0.0.1", 0)); asked = [(socket.SOL_SOCKET, 37, struct.pack("I", 2))] # SO_TIMESTAMPING
while n < 500 << 20:
    a = socket.create_connection(server.getsockname()); b, _ = server.accept(); held += [a, b]
    a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20); a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(1000): a.sendmsg([b"x"], asked); b.recv(1); n += 800
    if len(held) % 4: _libc.connect(a.fileno(), bytes(16), 16) # AF_UNSPEC: in no table any more
hoarded(n >> 20, "MiB in", len(held), "sockets")
""", check="told_as_oom", exhausts=True, may_die=True),
    Cell("orphaned_connections", "having the machine cut off whatever is closed, by connections that nobody holds and that cannot end", """
def hoard():
    server = socket.create_server(("127.0.0.1", 0), backlog=512); server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1); held = []
    for i in range(3900):
        a = socket.socket(); a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1); a.connect(server.getsockname()); held.append(server.accept()[0])
        a.setblocking(False)
        try:
            while True: a.send(bytes(512))
        except BlockingIOError: a.close() # with what the other side does not read
    time.sleep(12)
k = []
for i in range(4):
    k.append(os.fork())
    if k[-1] == 0:
        try: hoard(); os._exit(7)
        except BaseException: os._exit(1)
kept = sum(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) == 7 for p in k)
say(*(("PWN", kept * 3900, "connections") if kept else ("none",)))
""", check="told_as_oom", exhausts=True, may_die=True),
    Cell("lock_memory", "the machine's memory, by file locks, which no limit counts", """
import fcntl
files = [open(os.environ.get("TMPDIR", "/tmp") + f"/lock{i}", "w") for i in range(1500)]
for i, f in enumerate(files):
    for at in range(2000, 0, -2): fcntl.lockf(f, fcntl.LOCK_EX, 1, at)
hoarded(len(files) * 1000, "locks")
""", check="told_as_oom", exhausts=True, may_die=True),
    Cell("kernel_copies", "the machine's memory, by what the kernel keeps of socket options and filters and no limit counts", """
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0) * 4096); held = [socket.socket(socket.AF_UNIX)]
attempt("filter", held[0].setsockopt, socket.SOL_SOCKET, 26, struct.pack("HxxxxxxQ", 4096, ctypes.addressof(code)))
def groups():
    held.append(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)); i = struct.pack("I", socket.if_nametoindex("lo"))
    for n in range(100): held[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, f"ff02::1:{n + 1:x}") + i)
attempt("groups", groups)
attempt("keys", lambda: socket.socket().setsockopt(socket.IPPROTO_TCP, 14, struct.pack("=H2xI120xBBHI80s", 2, 1, 0, 0, 4, 0, b"key")))
allow = struct.pack("HBBI", 6, 0, 0, 0x7fff0000); one = ctypes.create_string_buffer(allow); _libc.prctl(38, 1, 0, 0, 0)
call("system call filter", 157, 22, 2, struct.pack("HxxxxxxQ", 1, ctypes.addressof(one)))
""", {"none": "no filter"}),
    Cell("shared_memory_hog", "all memory, by many processes and shared mappings", """
import mmap
k = []
for i in range(6):
    try: p = os.fork()
    except OSError: break
    if p == 0:
        try:
            m = mmap.mmap(-1, 300 << 20)
            for o in range(0, 300 << 20, 4096): m[o] = 1
            os.write(1, b"") ; time.sleep(1); os._exit(7)
        except BaseException: os._exit(1)
    k.append(p)
codes = [os.waitpid(p, 0)[1] for p in k]
full = sum(1 for c in codes if os.WIFEXITED(c) and os.WEXITSTATUS(c) == 7)
say("PWN" if full == 6 else "", full, "of 6 kept 300 MiB")
""", {"rootless": "limits are per process where no control group is delegated"}, check="sibling_works", exhausts=True, may_die=True),
]
