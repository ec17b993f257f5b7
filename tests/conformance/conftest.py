"""One stack for the whole suite, of the backend that HUSK_CONFORMANCE names; a client and a session for each test."""
import os
import sys
import urllib.parse

import pytest

SOURCE = os.environ["HUSK_SOURCE"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "integration"), os.path.dirname(os.path.abspath(__file__))]

from differences import DIFFERENCES  # noqa: E402 (the paths come first)
from fakedaytona import DaytonaStack  # noqa: E402
from fixtures import add_logs, fresh_session, running  # noqa: E402
from stack import Stack  # noqa: E402

BACKEND = os.environ.get("HUSK_CONFORMANCE", "jupyter")
CAP = 1 << 20  # bytes of output kept
SETTINGS = {
    "SANDBOX_MAX_OUTPUT_BYTES": CAP, "SANDBOX_FLOOD_BYTES": 24 << 20, "SANDBOX_MAX_EXEC_TIMEOUT": 60,
    "SANDBOX_REAP_INTERVAL": "0.5", "SANDBOX_MAX_TTL": 600, "SANDBOX_MAX_SESSIONS": 8, "SANDBOX_MAX_FILE_BYTES": 64 << 20,
    "ARTIFACT_MAX_BYTES": 1 << 20,
}


@pytest.fixture(scope="session")
def backend():
    return BACKEND


@pytest.fixture(scope="session")
def differs():
    """differs(name): whether this backend is the one that deviates, by the table of differences."""
    return lambda name: DIFFERENCES[name].backend == BACKEND


@pytest.fixture(scope="session")
def stack():
    with running({"jupyter": Stack, "daytona": DaytonaStack}[BACKEND](**SETTINGS)) as started:
        yield started


@pytest.fixture(scope="session")
def key(stack):
    return stack.key()


@pytest.fixture
def client(stack, key):
    return stack.client(key)


@pytest.fixture
def fresh(client):
    """A session of the test's own, closed afterwards."""
    with fresh_session(client) as name:
        yield name


@pytest.fixture
def session(client):
    """A session with an empty workspace; what earlier tests left in the interpreter may still be there."""
    client.open("common")
    for entry in client.get("/v1/sessions/common/files").json()["files"]:
        path = urllib.parse.quote(entry["path"], safe="")
        assert client.delete(f"/v1/sessions/common/files/{path}?recursive=true").status == 204
    return "common"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    add_logs(item, (yield).get_result())


def pytest_sessionfinish(session):
    """What tests/conformance/run adds up; a skipped test is not a passed one."""
    if "HUSK_COUNTS" in os.environ:
        reports = session.config.pluginmanager.get_plugin("terminalreporter").stats
        passed = len(reports.get("passed", []))
        bad = sum(len(reports.get(kind, [])) for kind in ("failed", "error", "skipped"))
        with open(os.environ["HUSK_COUNTS"], "w") as f:
            f.write(f"{passed} {bad}\n")
