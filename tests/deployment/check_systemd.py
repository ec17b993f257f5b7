"""The units, and the Debian package: built, checked, and installed under a systemd of its own."""
import glob
import os
import re
import shutil
import subprocess
import tempfile

import tools

SOURCE = os.environ["HUSK_SOURCE"]
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("debhelper", "dpkg-dev", "fakeroot", "lintian", "systemd")


def built():
    """The package of what is committed, built once; its folder."""
    if not hasattr(built, "at"):
        for name in PACKAGES:
            if subprocess.run(["dpkg-query", "-W", name], capture_output=True).returncode != 0:
                raise tools.Missing(f"the package {name} is not installed")
        at = tempfile.mkdtemp(prefix="husk-deb-")
        tools.run(os.path.join(SOURCE, "deployment", "build-deb"), at)
        built.at = at
    return built.at


def package():
    return glob.glob(os.path.join(built(), "husk_*.deb"))[0]


def unpacked():
    at = os.path.join(built(), "root")
    if not os.path.isdir(at):
        tools.run("dpkg-deb", "-x", package(), at)
    return at


def units():
    folder = os.path.join(unpacked(), "lib", "systemd", "system")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


def test_units_are_verified():
    assert len(units()) >= 7
    # the programs they name are there only once the package is installed
    root = unpacked()
    text = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *units()], capture_output=True, text=True, timeout=60)
    left = [line for line in (text.stdout + text.stderr).splitlines()
            if "husk" in line and not re.search(r"Command (/usr/\S+) is not executable", line)]
    assert not left, left
    for unit in units():
        for path in re.findall(r"^Exec\w+=[+-]?(/usr/s?bin/husk\S*|/usr/share/husk\S*)", open(unit).read(), re.M):
            assert os.access(root + path, os.X_OK), f"{unit}: {path}"


def test_units_are_no_more_open_than_the_docs_say():
    documented = dict(re.findall(r"^\| (husk[a-z-]*\.service) \| ([0-9.]+) \|$", open(os.path.join(SOURCE, "docs", "deployment.md")).read(), re.M))
    services = [u for u in units() if u.endswith(".service")]
    assert sorted(documented) == sorted(os.path.basename(u) for u in services)
    for unit in services:
        text = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit], capture_output=True, text=True, timeout=60).stdout
        exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", text)[1]
        assert exposure == documented[os.path.basename(unit)], f"{os.path.basename(unit)}: {exposure}, documented {documented[os.path.basename(unit)]}"


def test_package_passes_lintian():
    changes = glob.glob(os.path.join(built(), "*.changes"))[0]
    options = ["--allow-root"] if os.getuid() == 0 else []
    # whoever distributes the package puts an address of their own there
    tools.run("lintian", *options, "--fail-on", "error,warning", "--suppress-tags",
              "bogus-mail-host,bogus-mail-host-in-debian-changelog", changes)


def test_package_installs_starts_upgrades_and_purges():
    if os.getuid() != 0:
        raise tools.Missing("only root can boot a systemd in namespaces")
    at = built()
    newer = os.path.join(at, "newer")
    tools.run("dpkg-deb", "-R", package(), newer)
    control = os.path.join(newer, "DEBIAN", "control")
    text = open(control).read()
    with open(control, "w") as f:
        f.write(re.sub(r"^Version: .*$", "Version: 0.1.1", text, flags=re.M))
    upgrade = os.path.join(at, "husk_0.1.1_amd64.deb")
    tools.run("dpkg-deb", "-b", "--root-owner-group", newer, upgrade)
    done = subprocess.run([os.path.join(HERE, "boot.sh"), os.path.join(HERE, "package.sh"), package(), upgrade,
                           os.path.join(SOURCE, "docs", "deployment.md")],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert done.stdout.rstrip().endswith("--- done"), done.stdout[-3000:]


def test_clean_up():
    """Not a check: what was built goes."""
    if hasattr(built, "at"):
        shutil.rmtree(built.at)
        del built.at
