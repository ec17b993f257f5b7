"""nginx's limits per client, and that there is no way around nginx to the workers."""
import os
import shutil
import stat
import subprocess

import pytest

from stack import ROOT, free_port, wait_until

SETTINGS = {"SANDBOX_LISTEN": f"127.0.0.1:{free_port()}", "SANDBOX_CONNECTIONS_PER_CLIENT": 3}
LANES = ("exec", "api", "bulk", "ctl")


def test_more_than_so_many_at_once(stack, client):
    held = []
    try:
        for _ in range(3):
            connection = client.connection()
            connection.putrequest("POST", "/v1/sessions")
            connection.putheader("Content-Length", "10")
            connection.endheaders(b"{")
            held.append(connection)
        refused = wait_until(lambda: (a := client.get("/v1/sessions")).status != 200 and a, 10, "the limit")
        assert refused.status == 429 and refused.code == "too_many_connections"
        assert int(refused.headers["retry-after"]) >= 1
    finally:
        for connection in held:
            connection.close()
    wait_until(lambda: client.get("/v1/sessions").status == 200, 10, "room again")


def test_more_than_so_many_a_second(stack, client):
    stack.stop_process("nginx")
    stack.settings.update(SANDBOX_RATE_PER_SECOND="5", SANDBOX_CONNECTIONS_PER_CLIENT="0")
    stack.write_conf()
    stack.start_nginx()
    answers = [client.get("/v1/sessions") for _ in range(40)]
    refused = [a for a in answers if a.status == 429]
    assert 200 in {a.status for a in answers} and len(refused) >= 5
    assert {a.code for a in refused} == {"rate_limited"} and all(int(a.headers["retry-after"]) >= 1 for a in refused)
    wait_until(lambda: client.get("/v1/sessions").status == 200, 10, "room again", step=1)


def test_modes_of_what_lies_between(stack):
    if not ROOT:
        pytest.skip("as an ordinary user all parts share it: quickstart says so")
    assert stat.S_IMODE(os.stat(stack.path("r")).st_mode) & 0o007 == 0
    for lane in LANES:
        status = os.stat(stack.path("r", lane + ".sock"))
        assert stat.S_IMODE(status.st_mode) == 0o660, lane


@pytest.mark.parametrize("user", ["nobody", "husk-kernel"])
def test_no_way_around_nginx(stack, user):
    if not ROOT or not shutil.which("setpriv"):
        pytest.skip("only root can be somebody else")
    code = ("import socket, sys\n"
            "for path in sys.argv[1:]:\n"
            "  try: socket.socket(socket.AF_UNIX).connect(path); print('reached', path)\n"
            "  except OSError as e: print(type(e).__name__)\n")
    sockets = [stack.path("r", lane + ".sock") for lane in LANES]
    done = subprocess.run(["setpriv", "--reuid", user, "--regid", "nogroup" if user == "nobody" else user, "--init-groups",
                           "/usr/bin/python3", "-c", code, *sockets], stdout=subprocess.PIPE, text=True, timeout=30, cwd="/")
    assert done.stdout.split() == ["PermissionError"] * len(LANES), done.stdout
