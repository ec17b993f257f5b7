# Goes ahead of every cell: what it may know about its surroundings is in V.
import ctypes, errno, glob, os, signal, socket, struct, subprocess, sys, threading, time
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def say(*what):
    print(*what, flush=True)


def hoarded(*what):
    """The keeper looks for memory that no limit counts a few times a second: it must not last."""
    time.sleep(5)
    say("PWN", *what)


def attempt(label, f, *a):
    """What f does must not work."""
    try:
        result = f(*a)
    except BaseException as e:
        say(label, "->", type(e).__name__, getattr(e, "errno", None) or "")
    else:
        say("PWN", label, repr(result)[:160])


def call(label, number, *a):
    """A system call that must be refused; a descriptor it gives all the same is closed."""
    ctypes.set_errno(0)
    result = _libc.syscall(ctypes.c_long(number), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    say(*(("PWN", label, result) if result >= 0 else (label, "->", errno.errorcode.get(ctypes.get_errno()))))
    return result


def read(path, n=4096):
    with open(path, "rb") as f:
        data = f.read(n)
    if not data:
        raise OSError(errno.ENODATA, "empty")
    return data


def write(path, data=b"x"):
    with open(path, "wb") as f:
        f.write(data)
    return path


def connect(host, port, family=None, seconds=1.0):
    with socket.socket(family or (socket.AF_INET6 if ":" in host else socket.AF_INET)) as s:
        s.settimeout(seconds)
        s.connect((host, port))
        return s.recv(64)


def knock(host, port):
    socket.create_connection((host, port), 1).close()
    return port


def ask(host, port, seconds=0.5):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(seconds)
        s.sendto(b"?", (host, port))
        return s.recv(64)


def connect_unix(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(1)
        s.connect(path)
    return path


def packet_unix(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(1)
        s.connect(path)
    return path


def pids():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def foreign():
    """Processes that are not ours: of another uid, or (where all have one) of the service's programs."""
    found = []
    for p in pids():
        try:
            if os.stat(f"/proc/{p}").st_uid != os.getuid() or p in V["pids"]:
                found.append(p)
        except OSError:
            pass
    return found
