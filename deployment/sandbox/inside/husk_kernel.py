"""The kernel in a sandbox: ipykernel on listeners that it was given, in the session's workspace.

husk-launch has bound the five ZMQ sockets outside, so nothing in here chooses a path; their descriptors
begin at HUSK_FDS in the order below. HUSK_WORKSPACE is where the workspace will be (default
/home/workspace): a kernel starts in an empty placeholder and enters the workspace when it is there.
"""
import os
import site
import sys

FIRST = int(os.environ.pop("HUSK_FDS"))
WORKSPACE = os.environ.pop("HUSK_WORKSPACE", "/home/workspace")
CHANNELS = ("shell", "iopub", "stdin", "control", "hb")

# What is imported is the interpreter's, and once husk_output is, this file's folder is nobody's concern.
LIBRARY = sys.path.pop(0)


def see_installed():
    """What %pip installs goes to the home, where an interpreter looks only if the folder was there when it started."""
    if not site.ENABLE_USER_SITE:
        return
    # Debian's pip will not touch what apt manages: here it cannot, as all of that is read-only.
    os.environ.setdefault("PIP_BREAK_SYSTEM_PACKAGES", "1")
    folder = site.getusersitepackages()
    os.makedirs(folder, exist_ok=True)
    if folder not in sys.path:
        system = [i for i, path in enumerate(sys.path) if path.endswith("-packages")]
        sys.path.insert(system[0] if system else len(sys.path), folder)


see_installed()

import zmq  # noqa: E402
from ipykernel import heartbeat  # noqa: E402

sys.path.insert(0, LIBRARY)
import husk_output  # noqa: E402

sys.path.remove(LIBRARY)


def listen(socket, channel):
    """Takes the listener of a channel; what the session starts does not inherit it."""
    descriptor = FIRST + CHANNELS.index(channel)
    os.set_inheritable(descriptor, False)
    socket.setsockopt(zmq.USE_FD, descriptor)
    # An address has to be named; with a descriptor nothing is bound to it.
    socket.bind("ipc:///run/kernel-" + channel)


class Placeholder:
    """The folder a kernel starts in. Left for good as soon as the workspace is at its path."""

    def __init__(self, path):
        self.path = path
        self.here = self.identity(".")

    @staticmethod
    def identity(path):
        found = os.stat(path)
        return found.st_dev, found.st_ino

    def leave(self, *_):
        try:
            if self.identity(".") == self.here and self.identity(self.path) != self.here:
                os.chdir(self.path)
        except OSError:
            pass  # the session has removed where it was: its own affair


class App(husk_output.App):
    def bind(self, s, port):
        for channel in CHANNELS:
            if port == getattr(self, channel + "_port"):
                listen(s, channel)
                return port
        raise RuntimeError(f"no channel has port {port}")

    def write_connection_file(self, *_, **__):
        """It is there, and the gateway has written it."""

    def log_connection_info(self):
        """Nobody else connects to it."""

    def cleanup_ipc_files(self):
        """The sockets are the gateway's."""

    def init_shell(self):
        super().init_shell()
        if self.shell is not None:
            self.shell.events.register("pre_execute", Placeholder(WORKSPACE).leave)


def bind_heartbeat(self, *_):
    listen(self.socket, "hb")
    return self.port


heartbeat.Heartbeat._try_bind_socket = bind_heartbeat

if __name__ == "__main__":
    App.launch_instance()
