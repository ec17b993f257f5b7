"""Fixtures: one stack a test file, one client with a key of its own a test."""
import uuid

import pytest

from stack import Stack


@pytest.fixture(scope="module")
def stack(request):
    """The file's stack; a file says SETTINGS = {…} for other settings, configure(stack) for what needs its paths, STACK
    for another kind of stack."""
    made = getattr(request.module, "STACK", Stack)(**getattr(request.module, "SETTINGS", {}))
    try:
        getattr(request.module, "configure", lambda _: None)(made)
        yield made.start()
    except BaseException:
        for name in ("master", "nginx", "gateway", "keeper"):
            print(f"--- {name}\n{made.log(name)[-3000:]}")
        raise
    finally:
        made.stop()


@pytest.fixture(scope="module")
def module_key(stack):
    return stack.key()


@pytest.fixture
def client(stack, module_key):
    return stack.client(module_key)


@pytest.fixture
def session(client):
    """A fresh session's id, closed afterwards."""
    name = "s-" + uuid.uuid4().hex[:10]
    client.open(name)
    yield name
    client.delete(f"/v1/sessions/{name}", check=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """On failure the end of the service's logs belongs to the report."""
    report = (yield).get_result()
    stack = item.funcargs.get("stack") if hasattr(item, "funcargs") else None
    if report.failed and stack is not None:
        for name in ("master", "gateway", "keeper"):
            report.sections.append((f"{name}.log", stack.log(name)[-4000:]))
