"""What a gateway's shim and a worker say to husk-keeper, by hand, so that tests can say it wrong (keeper/wire.h)."""
import array
import collections
import contextlib
import ctypes
import os
import pwd
import socket
import struct

VERSION = 1
START, STARTED, SIGNAL, EXIT = 1, 2, 3, 4
INFO, MAKE, ROOT, BIND, STATUS, REMOVE, USAGE, KILL, LIST = range(16, 25)

START_FORMAT = struct.Struct("=II40sI2048s")
EVENT_FORMAT = struct.Struct("=IIi200s")
REQUEST_FORMAT = struct.Struct("=II40sQ")
REPLY_FORMAT = struct.Struct("=IIiiq6q40sQII200s")
INFO_FORMAT = struct.Struct("=IIii16s16s16s200s5q")

Reply = collections.namedtuple("Reply", "error flag value counters kernel workspace uid pid detail fds")
Counters = collections.namedtuple("Counters", "oom_kills fork_refusals disk_bytes disk_inodes memory memory_peak")
Info = collections.namedtuple("Info", "error ready tier egress disk detail memory cpu pids disk_bytes sandboxes")


def text(field):
    return field.split(b"\0", 1)[0].decode()


@contextlib.contextmanager
def acting_as(user):
    """SO_PEERCRED shows the effective ids at the time of connect(2)."""
    if os.getuid() != 0 or user is None:
        yield
        return
    entry = pwd.getpwnam(user)
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    # an effective uid's change makes a process undumpable, and tests look into /proc/self
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


def connect(path, user=None, timeout=15):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(timeout)
    try:
        with acting_as(user):
            s.connect(path)
    except BaseException:
        s.close()
        raise
    return s


def send(s, message, fds=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    s.sendmsg([message], rights)


def receive(s):
    """A packet and its descriptors; b"" when the other side has closed."""
    try:
        message, ancillary, _, _ = s.recvmsg(8192, socket.CMSG_SPACE(4 * 8))
    except ConnectionResetError:
        return b"", []
    fds = []
    for _, _, data in ancillary:
        fds += array.array("i", data)
    return message, fds


def request(op, kernel="", workspace=0, version=VERSION):
    return REQUEST_FORMAT.pack(version, op, kernel.encode(), workspace)


def start_message(kernel, connection=b"{}", version=VERSION, op=START, length=None):
    return START_FORMAT.pack(version, op, kernel.encode(), len(connection) if length is None else length, connection)


def event(message):
    """(op, value, detail) of what a monitor tells husk-launch."""
    version, op, value, detail = EVENT_FORMAT.unpack(message)
    assert version == VERSION
    return op, value, text(detail)


class Keeper:
    def __init__(self, directory, worker="husk", gateway="husk-kernel"):
        self.directory, self.worker, self.gateway = directory, worker, gateway

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def exchange(self, message, fds=()):
        with connect(self.path("files.sock"), self.worker) as s:
            send(s, message, fds)
            return receive(s)

    def ask(self, op, kernel="", workspace=0):
        message, fds = self.exchange(request(op, kernel, workspace))
        version, echoed, error, flag, value, *rest = REPLY_FORMAT.unpack(message)
        assert (version, echoed) == (VERSION, op)
        return Reply(error, flag, value, Counters(*rest[:6]), text(rest[6]), rest[7], rest[8], rest[9], text(rest[10]), fds)

    def info(self):
        message, _ = self.exchange(request(INFO))
        version, op, error, ready, tier, egress, disk, detail, *numbers = INFO_FORMAT.unpack(message)
        assert (version, op) == (VERSION, INFO)
        return Info(error, ready, text(tier), text(egress), text(disk), text(detail), *numbers)

    def sandboxes(self):
        """kernel id -> its reply."""
        found, after = {}, ""
        while True:
            reply = self.ask(LIST, after)
            if reply.error:
                assert reply.error == 2, reply
                return found
            found[reply.kernel] = reply
            after = reply.kernel

    def launch(self, message, fds, timeout=15):
        """What a start of this kind is answered: (op, value, detail), or None when it is only hung up on."""
        with connect(self.path("launch.sock"), self.gateway, timeout) as s:
            send(s, message, fds)
            answer, _ = receive(s)
            return event(answer) if answer else None
