"""The network around the service under test, in namespaces of its own: a public address, a LAN, a metadata service.

We are the "host": PUBLIC_HOST and LAN_HOST. Behind one link lies everything else, which answers on every address that
the policy denies and on one that it allows. `python3 world.py PORT…` answers there and here.
"""
import os
import selectors
import socket
import subprocess
import sys

PUBLIC_HOST, LAN_HOST = "93.184.216.1", "10.9.0.1"
PUBLIC, PUBLIC6 = "93.184.216.34", "2606:2800::34"
DENIED = ["10.9.0.10", "169.254.169.254", "192.168.7.7", "172.16.5.5", "100.64.9.9", "203.0.113.9", "198.18.0.9"]
DENIED6 = ["fd00:ec2::254", "2001:db8::9"]
RESOLVER = "10.9.0.53"
ANSWER = b"SECRET of this address"


def answer(ports):
    """Says ANSWER to who connects or asks, until it is killed."""
    ready = selectors.DefaultSelector()
    for port in ports:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            s = socket.socket(socket.AF_INET6, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            s.bind(("::", port))
            if kind == socket.SOCK_STREAM:
                s.listen(128)
            ready.register(s, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in ready.select():
            if key.fileobj.type == socket.SOCK_STREAM:
                connection, _ = key.fileobj.accept()
                try:
                    connection.sendall(ANSWER)
                except OSError:
                    pass
                connection.close()
                continue
            _, control, _, peer = key.fileobj.recvmsg(2048, 256)
            # from the address that was asked, whatever the interface
            control = [(level, kind, data[:16] + b"\0\0\0\0") for level, kind, data in control]
            try:
                key.fileobj.sendmsg([ANSWER], control, 0, peer)
            except OSError:
                pass


class World:
    """Made in a network namespace that is ours alone (tests/isolation/box)."""

    def __init__(self):
        self.processes = []
        outside = self._start(["unshare", "--net", "--"], 25, 53, 80)
        self._start([], 80, 9080)
        run = self._run
        run(f"ip link add ext type veth peer name e0 netns {outside}")
        run(f"ip addr add {PUBLIC_HOST}/24 dev ext; ip addr add {LAN_HOST}/24 dev ext; ip link set ext up")
        run("ip addr add 2606:2800::1/64 dev ext nodad")
        inside = "ip link set lo up; ip link set e0 up; "
        for a in [PUBLIC + "/24", "10.9.0.10/24", RESOLVER + "/24"] + [a + "/32" for a in DENIED[1:]]:
            inside += f"ip addr add {a} dev e0; "
        for a in [PUBLIC6 + "/64"] + [a + "/128" for a in DENIED6]:
            inside += f"ip addr add {a} dev e0 nodad; "
        inside += f"ip route add default via {PUBLIC_HOST}; ip -6 route add default via 2606:2800::1"
        run(f"nsenter --net=/proc/{outside}/ns/net sh -ec '{inside}'")
        run(f"ip route add default via {PUBLIC}; ip -6 route add default via {PUBLIC6}")
        run("echo 1 >/proc/sys/net/ipv4/ip_forward")
        # what a session would ask by accident
        os.makedirs("/tmp/etc", exist_ok=True)
        with open("/tmp/etc/resolv.conf", "w") as f:
            f.write(f"nameserver {RESOLVER}\n")
        run("mount --bind /tmp/etc/resolv.conf $(readlink -f /etc/resolv.conf)")

    def _start(self, before, *ports):
        process = subprocess.Popen([*before, sys.executable, os.path.abspath(__file__), *map(str, ports)],
                                   stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        self.processes.append(process)
        return process.pid

    @staticmethod
    def _run(line):
        subprocess.run(line, shell=True, check=True, timeout=20)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    answer([int(p) for p in sys.argv[1:]])
