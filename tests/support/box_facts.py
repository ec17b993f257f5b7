"""What a process in a sandbox finds, a line a fact (test_box.c). Run with python3 -c; argv[1] names the tier."""
import contextlib
import ctypes
import errno
import os
import pwd
import resource
import socket
import stat
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def fact(name, value):
    print(f"{name}={value}", flush=True)


def call(name, number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    fact(name, "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()])


def attempt(name, what):
    try:
        what()
        fact(name, "ok")
    except OSError as e:
        fact(name, errno.errorcode[e.errno])


def status():
    lines = dict(line.split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
    fact("uids", lines["Uid"].split())
    fact("groups", lines["Groups"].split())
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        fact(name, int(lines[name], 16))
    fact("no_new_privs", lines["NoNewPrivs"].strip())
    fact("seccomp", lines["Seccomp"].strip())


def root():
    fact("root", " ".join(sorted(os.listdir("/"))))
    fact("etc", " ".join(name for name in ("shadow", "ssh", "hosts", "passwd", "nginx") if os.path.exists("/etc/" + name)))
    fact("name", pwd.getpwuid(os.getuid()).pw_name)
    fact("passwd", open("/etc/passwd").read().count("\n"))
    fact("dev", " ".join(sorted(os.listdir("/dev"))))
    fact("workspace", os.readlink("/workspace"))
    loose = []
    for line in open("/proc/self/mounts"):
        _, where, kind, options = line.split()[:4]
        options = options.split(",")
        if "ro" not in options and kind not in ("tmpfs", "devpts", "proc", "devtmpfs"):
            loose.append(where)
        if "nosuid" not in options and kind != "devtmpfs":
            loose.append(where)
    fact("loose_mounts", " ".join(loose))
    for name in ("kcore", "kallsyms", "keys", "timer_list"):
        path = "/proc/" + name
        fact("masked_" + name, not os.path.exists(path) or stat.S_ISCHR(os.stat(path).st_mode))
    fact("sys", " ".join(sorted(os.listdir("/sys/devices/system"))))
    attempt("write_sys_cpu", lambda: open("/sys/devices/system/cpu/cpu0/online", "w"))
    attempt("write_sys", lambda: open("/proc/sys/kernel/core_pattern", "w"))


def writes():
    for path in ("/x", "/usr/lib/x", "/etc/x", "/home/x", "/home/workspace/x", "/run/husk/x", "/sys/x", "/var/lib/x", "/opt/x"):
        attempt("write_" + path, lambda: open(path, "w"))
    for path in ("/tmp/x", "/dev/shm/x", "/home/husk/x", "/var/tmp/x"):
        attempt("write_" + path, lambda: open(path, "w"))


def world():
    others = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) not in (1, os.getpid()):
            others.append(pid)
    fact("others", " ".join(others))
    attempt("environ_of_init", lambda: open("/proc/1/environ").read())
    fact("hostname", socket.gethostname())
    with contextlib.suppress(OSError):  # without a network there is no netlink
        fact("interfaces", " ".join(name for _, name in socket.if_nameindex()))
    fact("descriptors", " ".join(sorted(n for n in os.listdir("/proc/self/fd") if int(n) < 100)[:-1]))
    fact("environment", " ".join(sorted(os.environ)))
    fact("connection", open(os.environ["HOME"] + "/.runtime/connection.json").read())
    fact("cgroup", " ".join(sorted({line.strip().split(":")[2] for line in open("/proc/self/cgroup")})))
    fact("core_limit", resource.getrlimit(resource.RLIMIT_CORE))
    fact("session_leader", os.getsid(0) == os.getpid())
    try:
        os.kill(os.getppid(), 0)
        fact("signal_init", "ok")
    except OSError as e:
        fact("signal_init", errno.errorcode[e.errno])


def calls():
    """Numbers of x86-64."""
    buf = ctypes.create_string_buffer(256)
    call("unshare_user", 272, 0x10000000)
    call("clone_user", 56, 0x10000000 | 17, 0, 0, 0, 0)
    call("clone3", 435, buf, 88)
    call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, 0)
    call("open_tree_attr", 467, -100, b"/tmp", 1, 0, 0)
    call("ptrace", 101, 0, 0, 0, 0)
    call("keyctl", 250, 0, -3, 0)
    call("bpf", 321, 0, buf, 48)
    call("io_uring", 425, 4, buf)
    call("seccomp", 317, 0, 0, 0)
    call("x32", 0x40000000 + 39)
    call("setuid", 105, 0)
    call("vsock", 41, 40, 1, 0)
    call("vsock_high", 41, (1 << 32) + 40, 1, 0)
    call("packet", 41, 17, 3, 0)
    call("raw", 41, 2, 3, 1)
    call("sctp", 41, 2, 1, 132)
    call("netlink_route", 41, 16, 3, 0)
    call("netlink_audit", 41, 16, 3, 9)
    call("inet", 41, 2, 1, 0)
    call("shmget", 29, 77, 4096, 0o1600)
    call("tiocsti", 16, 0, 0x5412, buf)
    call("tiocsti_high", 16, 0, (1 << 32) + 0x5412, buf)
    call("device", 259, -100, os.environ["HOME"].encode() + b"/dev", 0o60666, 0x700)


status()
world()
calls()
if sys.argv[1] != "container":
    root()
    writes()
