"""What the scripts say to whoever uses them wrongly, or asks what they do; nothing is built or started."""
import os
import socket
import subprocess
import tempfile

SOURCE = os.environ["HUSK_SOURCE"]

SCRIPTS = """
    .ci/run tests/run tests/chaos/run tests/isolation/run tests/isolation/box tests/conformance/run tests/deployment/run
    tests/bench/run deployment/quickstart deployment/demo deployment/install-packages deployment/make-users
    deployment/build-deb deployment/husk/husk-start deployment/optional/host-firewall deployment/sandbox/gateway-launch.sh
    deployment/sandbox/install-gateway deployment/sandbox/install-kernelspec deployment/sandbox/install-runner
    deployment/sandbox/lock-requirements deployment/sandbox/runner-start
""".split()


def run(*command, **environment):
    return subprocess.run(command, cwd=SOURCE, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)


def test_every_script_says_how_it_is_used():
    for script in SCRIPTS:
        done = run(os.path.join(SOURCE, script), "--help")
        assert done.returncode == 0 and "usage" in done.stdout, (script, done)


def test_unknown_packages_are_refused():
    done = run("deployment/install-packages", "run", "everything")
    assert done.returncode == 2 and "everything" in done.stderr, done


def test_quickstart_refuses_a_path_that_settings_cannot_spell():
    with tempfile.TemporaryDirectory() as top:
        home = os.path.join(top, "a b")
        done = run("deployment/quickstart", "up", HUSK_HOME=home)
        assert done.returncode == 1 and "HUSK_HOME may hold" in done.stderr and not os.path.exists(home), done


def test_quickstart_says_at_once_that_the_port_is_taken():
    with tempfile.TemporaryDirectory() as home, socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("deployment/quickstart", "up", HUSK_HOME=home, HUSK_PORT=str(taken.getsockname()[1]))
        assert done.returncode == 1 and "choose another port with HUSK_PORT" in done.stderr and not os.listdir(home), done
