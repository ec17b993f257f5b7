"""Where sandboxes may connect to: one table in four places, and the proxy and the firewall that hold it."""
import ipaddress
import os
import re
import shutil
import subprocess

import tools

SOURCE = os.environ["HUSK_SOURCE"]
DEPLOYMENT = os.path.join(SOURCE, "deployment")
HERE = os.path.dirname(os.path.abspath(__file__))
# what squid takes no range for: it sees v4-mapped addresses as IPv4, and no range may hold another
SQUID_WITHOUT = {"::ffff:0:0/96", "::/3", "4000::/2", "8000::/1"}


def listed():
    """The ranges of denied-addresses.txt."""
    with open(os.path.join(DEPLOYMENT, "optional", "denied-addresses.txt")) as f:
        return [line.split()[1] for line in f if line.startswith("ip")]


def test_the_list_covers_what_the_keeper_denies():
    """docs/isolation.md's table is that of src/keeper/deny.c (a unit test compares them)."""
    text = open(os.path.join(SOURCE, "docs", "isolation.md")).read()
    denied = {ipaddress.ip_network(m) for m in re.findall(r"^\| `?([0-9a-f.:]+/\d+)`? \|", text, re.M)}
    assert len(denied) > 30, "the table of denied addresses is not found in docs/isolation.md"
    ranges = [ipaddress.ip_network(r) for r in listed()]
    for network in denied:
        assert any(network.version == r.version and network.subnet_of(r) for r in ranges), f"{network} is not in denied-addresses.txt"


def test_squid_has_the_same_list():
    with open(os.path.join(DEPLOYMENT, "egress-proxy", "squid.conf")) as f:
        have = [r for line in f if line.startswith("acl private dst") for r in line.split()[3:]]
    assert sorted(have) == sorted(set(listed()) - SQUID_WITHOUT)


def in_namespaces(script):
    if os.getuid() != 0:
        raise tools.Missing("only root can make the network namespaces it runs in")
    for program in ("unshare", "ip", "nft", "squid"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            raise tools.Missing(f"{program} is not here")
    done = subprocess.run(["unshare", "-mnpf", "--mount-proc", "--propagation", "private", "bash", os.path.join(HERE, script)],
                          capture_output=True, text=True, timeout=90, env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())


def test_squid_lets_the_internet_through_and_nothing_private():
    answers = in_namespaces("squid.sh")
    assert len(answers) >= 14
    for url, status in answers.items():
        public = "93.184.216.34" in url or "2606:2800::1" in url
        assert status == ("200" if public else "403"), f"{url}: {status}"


def test_the_firewall_script_makes_what_it_prints():
    answers = in_namespaces("firewall.sh")
    reached = {"public", "public6", "allowed", "resolver", "resolver-on-the-host"}
    told = {"printed-changes-nothing": "yes", "removed": "yes"}
    assert len(answers) == 16
    for what, answer in answers.items():
        assert answer == told.get(what, "open" if what in reached else "refused"), f"{what}: {answer}"
