"""The gateway's process, started by gateway-launch.sh: KIND PORT ROOT, the token on standard input."""
import ctypes
import json
import os
import shutil
import stat
import sys
import threading
import time
from datetime import datetime, timezone

import zmq
from traitlets.config import Config

# Nodes that share a gateway each have a name of their own, by which they know their kernels.
KERNELS = os.environ.get("HUSK_KERNEL_NAMES", "").split() or ["docsgpt-python"]
RUNTIME_MAX = 57        # a socket's path ends at 107 bytes, "/kernel-<uuid>-ipc-N" takes the rest
SHUTDOWN_SECONDS = 2.0  # from the shutdown request to SIGTERM and SIGKILL
REMOVE_SECONDS = 2
WAITING = 16            # messages of one kernel that wait for one of who listens to it; more wait in the kernel
PR_SET_DUMPABLE = 4


def hide():
    """Kernels run as the same user where there is no isolation: keep /proc/self/* from them."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def empty(path):
    """Removes what is below path as far as this user may, also what a cell has locked up."""
    try:
        entries = list(os.scandir(path))
    except PermissionError:
        try:
            os.chmod(path, 0o700)
            entries = list(os.scandir(path))
        except OSError:
            return
    except OSError:
        return
    for e in entries:
        try:
            if e.is_dir(follow_symlinks=False):
                empty(e.path)
                os.rmdir(e.path)
            else:
                os.unlink(e.path)
        except OSError:
            try:
                os.chmod(path, stat.S_IRWXU)
                os.rmdir(e.path) if e.is_dir(follow_symlinks=False) else os.unlink(e.path)
            except OSError:
                continue


def remove_for_ever(trash, seen):
    """The service cannot remove what kernels have made unreadable: that is done here, by their user.

    The trash cannot be listed by this user; the workspaces that kernels were seen in are known.
    """
    base = os.path.dirname(trash)
    while True:
        time.sleep(REMOVE_SECONDS)
        try:
            names = os.listdir(seen)
        except OSError:
            continue
        for name in names:
            empty(os.path.join(trash, name))
            if not os.path.lexists(os.path.join(base, name)) and not os.path.lexists(os.path.join(trash, name)):
                try:
                    os.unlink(os.path.join(seen, name))
                except OSError:
                    pass


def sandboxed(launch, keeper, runtime, state):
    """Kernels come from husk-keeper: the kernelspec names husk-launch, and the gateway connects by sockets that it
    binds, whose paths leave room for a kernel's id."""
    if len(os.fsencode(runtime)) > RUNTIME_MAX:
        sys.exit(f"gateway-launch: JUPYTER_RUNTIME_DIR must be at most {RUNTIME_MAX} bytes long: {runtime}")
    if not os.access(launch, os.X_OK):
        sys.exit(f"gateway-launch: HUSK_LAUNCH={launch} is not a program that this user can run")
    for name in os.listdir(runtime):
        if name.startswith("kernel-"):
            os.unlink(os.path.join(runtime, name))
    write_specs(state, [launch, "--keeper", keeper, "-f", "{connection_file}"])


def write_specs(state, argv):
    """A kernelspec for each name, all alike, and no other to be found."""
    path = os.path.join(state, "specs")
    shutil.rmtree(path, ignore_errors=True)
    for name in KERNELS:
        spec = os.path.join(path, "kernels", name)
        os.makedirs(spec)
        with open(os.path.join(spec, "kernel.json"), "w") as f:
            json.dump({
                "argv": argv, "display_name": "Husk Python", "language": "python", "interrupt_mode": "signal",
                "metadata": {"debugger": False},
            }, f, indent=2)
    os.environ["JUPYTER_PATH"] = path


def bound_queues():
    """ZeroMQ takes in 1000 messages before it lets the sender wait. Kernels send up to a MiB in one (inside/husk_output.py):
    a loop that prints would have this process hold GiB."""
    plain = zmq.Context.socket

    def socket(self, kind, *args, **kw):
        made = plain(self, kind, *args, **kw)
        if kind == zmq.SUB:
            made.setsockopt(zmq.RCVHWM, WAITING)
        return made

    zmq.Context.socket = socket


def common(c, runtime):
    c.KernelSpecManager.allowed_kernelspecs = set(KERNELS)
    c.KernelSpecManager.ensure_native_kernel = False
    c.KernelManager.shutdown_wait_time = SHUTDOWN_SECONDS
    c.KernelManager.transport = "ipc" if len(os.fsencode(runtime)) <= RUNTIME_MAX else "tcp"
    c.MappingKernelManager.cull_idle_timeout = 0
    c.MappingKernelManager.default_kernel_name = KERNELS[0]
    # Output beyond a rate is dropped silently by default; the name of the setting moved.
    c.ZMQChannelsWebsocketConnection.limit_rate = False
    return c


def server(c, token, port, root):
    import jupyter_server
    from jupyter_server.serverapp import ServerApp

    class Server(ServerApp):
        """Writes no files that hold the token where kernels of the same user could read them."""

        def write_server_info_file(self):
            pass

        def write_browser_open_files(self):
            pass

    if int(jupyter_server.__version__.split(".")[0]) >= 2:
        c.IdentityProvider.token = token
    else:
        c.ServerApp.token = token
        c.ServerApp.limit_rate = False
        c.ServerApp.terminals_enabled = False
    c.ServerApp.ip = os.environ["HUSK_GATEWAY_ADDRESS"]
    c.ServerApp.port = port
    c.ServerApp.port_retries = 0
    c.ServerApp.open_browser = False
    c.ServerApp.allow_root = True
    c.ServerApp.root_dir = root
    c.ServerApp.jpserver_extensions = {}
    c.ServerApp.log_level = "WARN"
    c.ServerApp.cookie_secret = os.urandom(32)
    Server.launch_instance(argv=[], config=c)


def listen(app, token, port):
    app.auth_token = token
    app.ip = os.environ["HUSK_GATEWAY_ADDRESS"]
    app.port = port
    app.port_retries = 0
    app.log_level = "WARN"


def kernel_gateway(c, token, port, root):
    from kernel_gateway.gatewayapp import KernelGatewayApp
    from kernel_gateway.services.kernels.manager import KernelGatewayIOLoopKernelManager as Manager

    # Its list of kernels fails as a whole while one of them is starting: it lacks what every one
    # gets only when it has started.
    Manager.execution_state = "starting"
    Manager.last_activity = datetime.now(timezone.utc)
    os.chdir(root)
    listen(c.KernelGatewayApp, token, port)
    c.JupyterWebsocketPersonality.list_kernels = True
    KernelGatewayApp.launch_instance(argv=[], config=c)


def enterprise_gateway(c, token, port, root):
    from enterprise_gateway.enterprisegatewayapp import EnterpriseGatewayApp

    os.chdir(root)
    # Its kernels may be anywhere: it gives them an address, whatever the transport.
    c.KernelManager.transport = "tcp"
    listen(c.EnterpriseGatewayApp, token, port)
    c.EnterpriseGatewayApp.list_kernels = True
    EnterpriseGatewayApp.launch_instance(argv=[], config=c)


def main():
    kind, port, root = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    token = sys.stdin.readline().rstrip("\n")
    if not token:
        sys.exit("gateway-launch: no token")
    hide()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    runtime = os.environ["JUPYTER_RUNTIME_DIR"]
    # Nothing of an earlier run is of use: its kernels died with it.
    shutil.rmtree(os.path.join(runtime, "homes"), ignore_errors=True)
    launch = os.environ.pop("HUSK_LAUNCH", "")
    keeper = os.environ.pop("HUSK_KEEPER_DIR", "") or "/run/husk-keeper"
    if launch:
        sandboxed(launch, keeper, runtime, os.path.dirname(root))
    elif len(KERNELS) > 1:
        script = os.path.join(os.environ["JUPYTER_PATH"], "kernels", "docsgpt-python", "kernel-launch.py")
        write_specs(os.path.dirname(root), ["/usr/bin/python3", "-I", "-S", script, "-f", "{connection_file}"])
    trash = os.environ.get("HUSK_TRASH", "")
    if trash and not launch:
        threading.Thread(target=remove_for_ever, args=(trash, os.path.join(runtime, "seen")), daemon=True).start()
    starters = {"server": server, "kernel-gateway": kernel_gateway, "enterprise-gateway": enterprise_gateway}
    if kind not in starters:
        sys.exit(f"gateway-launch: HUSK_GATEWAY must be one of {', '.join(starters)}, not {kind}")
    bound_queues()
    starters[kind](common(Config(), runtime), token, port, root)


main()
