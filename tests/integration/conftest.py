"""Fixtures: one stack a test file, one client with a key of its own a test."""
import pytest

from fixtures import add_logs, fresh_session, running
from stack import Stack

SHARED = "s-shared"


@pytest.fixture(scope="module")
def stack(request):
    """The file's stack; a file says SETTINGS = {…} for other settings, configure(stack) for what needs its paths, STACK
    for another kind of stack."""
    made = getattr(request.module, "STACK", Stack)(**getattr(request.module, "SETTINGS", {}))
    with running(made, getattr(request.module, "configure", None)) as started:
        yield started


@pytest.fixture(scope="module")
def module_key(stack):
    return stack.key()


@pytest.fixture
def client(stack, module_key):
    return stack.client(module_key)


@pytest.fixture
def session(client):
    """A fresh session's id, closed afterwards."""
    with fresh_session(client) as name:
        yield name


@pytest.fixture
def shared_session(client):
    """One session for those tests of a file that change nothing in it but files, which go after each."""
    client.open(SHARED)
    yield SHARED
    client.run(SHARED, "import os, shutil\nfor f in os.listdir(): (shutil.rmtree if os.path.isdir(f) and not os.path.islink(f) else os.unlink)(f)")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    add_logs(item, (yield).get_result())
