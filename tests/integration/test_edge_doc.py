"""Every command of docs/edge.md, as it stands there, in order."""
import os
import re
import subprocess

from stack import ROOT, SOURCE, free_port

SETTINGS = {"SANDBOX_LISTEN": f"127.0.0.1:{free_port()}"}


def blocks():
    with open(os.path.join(SOURCE, "docs", "edge.md")) as f:
        return re.findall(r"^```sh\n(.*?)^```$", f.read(), re.M | re.S)


def test_the_commands_work_as_written(stack):
    host, port = stack.address
    env = {"PATH": stack.path("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "HUSK_CONF": stack.path("husk.conf"),
           "HUSK_HOST": f"{host}:{port}", "HUSK_SHARE": SOURCE, "NGINX_GROUP": "husk-web" if ROOT else str(os.getgid())}
    state = stack.path("shell-state")
    found = blocks()
    assert len(found) >= 10
    for block in found:
        # one shell's variables go on into the next block, as in a terminal
        script = f". {state} 2>/dev/null || true\nset -euo pipefail\ncd {stack.path('web')}\n{block}\ndeclare -p key id >{state} 2>/dev/null || true\n"
        done = subprocess.run(["bash", "-c", script], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        assert done.returncode == 0, f"{block}\n--- said:\n{done.stdout}\n{stack.log('nginx')[-1500:]}"
        if '>>"$HUSK_CONF"' in block:
            stack.stop_process("master")
            stack.start_master()
