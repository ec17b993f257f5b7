"""Fixtures: one stack a test file, one client with a key of its own a test."""
import pytest

from fixtures import add_logs, fresh_session, running
from stack import Stack


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


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    add_logs(item, (yield).get_result())
