"""What a kernel publishes, in pieces of a bounded size and no faster than the gateway takes it.

ipykernel gathers what is printed for a fifth of a second, whatever that comes to, and drops what its queue has no room
for. A loop that prints made messages of hundreds of MiB, over which the one thread of the gateway stood still for all
sessions; and thousands of displays at once arrived with gaps that nothing told.

Run as a program it is ipykernel_launcher with that: husk_output.py -f CONNECTION_FILE.
"""
import sys

if __name__ == "__main__":
    del sys.path[0]  # this file's folder is nobody's concern
    sys.modules["husk_output"] = sys.modules[__name__]

import zmq  # noqa: E402
from ipykernel.iostream import OutStream  # noqa: E402
from ipykernel.kernelapp import IPKernelApp  # noqa: E402

PIECE = 1 << 20  # characters
WAITING = 16     # messages that wait for the gateway; more wait in the kernel's own memory


class Stream(OutStream):
    gathered = 0

    def write(self, string):
        if not isinstance(string, str):
            return super().write(string)  # which says what is wrong with it
        for at in range(0, len(string), PIECE):
            part = string[at:at + PIECE]
            super().write(part)
            self.gathered += len(part)
            if self.gathered >= PIECE:
                self.gathered = 0
                self.flush()  # until it is on its way
        return len(string)


class App(IPKernelApp):
    def initialize(self, argv=None):
        self.outstream_class = "husk_output.Stream"
        # Nobody reads the history on disk, and a cell that was interrupted at a bad moment made it complain in a later one's
        # output.
        self.config.HistoryManager.enabled = False
        super().initialize(argv)

    def _try_bind_socket(self, s, port):
        if s.socket_type in (zmq.PUB, zmq.XPUB):
            s.setsockopt(zmq.XPUB_NODROP, 1)
            s.setsockopt(zmq.SNDHWM, WAITING)
        return self.bind(s, port)

    def bind(self, s, port):
        return super()._try_bind_socket(s, port)


if __name__ == "__main__":
    App.launch_instance()
