"""Every command of docs/edge.md, as it stands there, in order."""
import os

from documents import Terminal, blocks
from stack import ROOT, SOURCE, free_port

SETTINGS = {"SANDBOX_LISTEN": f"127.0.0.1:{free_port()}"}


def test_the_commands_work_as_written(stack):
    host, port = stack.address
    terminal = Terminal(stack.path("web"), stack.path("shell-state"), PATH=stack.path("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin",
                        HUSK_CONF=stack.path("husk.conf"), HUSK_HOST=f"{host}:{port}", HUSK_SHARE=SOURCE,
                        NGINX_GROUP="husk-web" if ROOT else str(os.getgid()))
    found = blocks("edge.md")
    assert len(found) >= 10
    for block in found:
        terminal.run(block)
        if '>>"$HUSK_CONF"' in block:
            stack.stop_process("master")
            stack.start_master()
