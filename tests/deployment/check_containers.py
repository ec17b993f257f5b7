"""The containers of docker-compose.yaml, started from their files without an engine (containers.py)."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import check_images
import check_systemd
import tools

SOURCE = os.environ["HUSK_SOURCE"]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(SOURCE, "tests", "integration"))
from stack import gateway_choice  # noqa: E402 - the runner that the tests of extraction have installed


def used(beside=None, **environment):
    """What a caller of the project found. beside: a folder that is /etc/husk/nginx in the service's container."""
    if os.getuid() != 0:
        raise tools.Missing("only root can make the namespaces it runs in")
    python = gateway_choice("runner-docling")["HUSK_KERNEL_PYTHON"]
    project = check_images.compose(check_images.COMPOSE[0], SANDBOX_GATEWAY_AUTH_TOKEN="thetoken", **environment)
    if beside:
        project["services"]["husk"]["beside"] = beside
    base = tempfile.mkdtemp(prefix="husk-containers-")
    try:
        with open(os.path.join(base, "project.json"), "w") as f:
            json.dump(project, f)
        os.mkdir(os.path.join(base, "files"))
        done = subprocess.run(["unshare", "-mnpf", "--mount-proc", "--propagation", "private", sys.executable, os.path.join(HERE, "containers.py"),
                               f.name, check_systemd.unpacked(), os.path.dirname(os.path.dirname(python)), os.path.join(base, "files")],
                              capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr[-8000:]
        return json.loads(done.stdout)
    finally:
        shutil.rmtree(base)


def holds(found, isolation):
    cell = found.pop("cell")
    assert found == {"ready": 200, "opened": 201, "isolation": isolation, "put": 201, "read": "given", "plots": 1, "got": ",a\n0,1\n",
                     "tables": [{"rows": [["Name", "Sum"], ["a", "12"]]}], "closed": 204, "without a token": {"/api/kernels": 401, "/api/swagger.json": 200}, "ends": [0, 0]}, found
    assert cell["processes"] > 3 and cell["leaks"] == 0, f"the token is in the environment or the arguments of a process: {cell}"
    assert not [name for name in cell["environ"] if name.startswith(("SANDBOX_", "HUSK_"))], cell
    return cell


def test_sessions_have_users_of_their_own():
    assert holds(used(), "container")["uid"] >= 200000


def test_the_runner_without_capabilities():
    """As docs/deployment.md says it is started, and before it the service as a node of overlays/enterprise-gateway."""
    with open(os.path.join(SOURCE, "docs", "deployment.md")) as f:
        block = re.search(r"^export SANDBOX_RUNNER_USER=.*?^```", f.read(), re.M | re.S)[0]
    words = dict(re.findall(r"([A-Z_]+)=(\S+)", block))
    with tempfile.TemporaryDirectory() as beside:
        os.chmod(beside, 0o755)
        shutil.copy(os.path.join(SOURCE, "deployment", "k8s", "overlays", "enterprise-gateway", "husk-auth.conf"), beside)
        assert holds(used(beside, SANDBOX_AUTH="proxy", **words), "none")["uid"] == 10001
