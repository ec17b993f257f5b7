"""What the fixtures of this folder and of tests/conformance have in common."""
import contextlib
import uuid

LOGS = ("master", "nginx", "gateway", "keeper")


@contextlib.contextmanager
def running(stack, configure=None):
    """The stack between its start and its end; where it does not start, what its programs said is printed."""
    try:
        if configure:
            configure(stack)
        yield stack.start()
    except BaseException:
        for name in LOGS:
            print(f"--- {name}\n{stack.log(name)[-3000:]}")
        raise
    finally:
        stack.stop()


@contextlib.contextmanager
def fresh_session(client):
    """The id of a session that is closed afterwards."""
    name = "s-" + uuid.uuid4().hex[:10]
    client.open(name)
    yield name
    client.delete(f"/v1/sessions/{name}", check=False)


def add_logs(item, report):
    """On failure the end of the service's logs belongs to the report."""
    stack = item.funcargs.get("stack") if hasattr(item, "funcargs") else None
    if report.failed and stack is not None:
        for name in LOGS:
            report.sections.append((f"{name}.log", stack.log(name)[-4000:]))
