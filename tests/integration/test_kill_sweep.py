"""SIGKILL at chosen calls of a worker and of a pass of the reaper: what was acknowledged is there, nothing is there
twice, nothing is left, and who comes next is served.

Each case is prepared, seen through undisturbed once, and then killed at each of its points. HUSK_TEST_KILL_EVERY=1
takes every call of the undisturbed run that changes something or learns something, 5 each fifth; without it the named
ones are taken.
"""
import concurrent.futures
import contextlib
import os
import shutil
import signal
import time

import pytest

import kill_cases as workers
import kill_cases_reaper as reaper
from kill_cases import PlainStack, World
from kills import every
from stack import wait_until

STACK = PlainStack
# One worker a lane: then it is known whom a request reaches. The master's reaper sweeps at its start only.
SETTINGS = {"SANDBOX_WORKERS_EXEC": 1, "SANDBOX_WORKERS_API": 1, "SANDBOX_WORKERS_BULK": 1, "SANDBOX_WORKERS_CTL": 1,
            "SANDBOX_REAP_INTERVAL": "1h", "SANDBOX_POOL_SIZE": 1, "SANDBOX_MAX_SESSIONS": 64,
            "SANDBOX_HTTP_TIMEOUT": 2, "SANDBOX_LOG_LEVEL": "info"}
pytestmark = pytest.mark.skipif(not shutil.which("strace"),
                                reason="strace is not installed: deployment/install-packages test")
EVERY = int(os.environ.get("HUSK_TEST_KILL_EVERY", "0"))
CASES = [workers.Open, workers.OpenFromPool, workers.Execute, workers.ExecuteAfterLoss, workers.Upload,
         workers.UploadNew, workers.Capture, workers.OneCall, workers.Close, workers.Restart, reaper.Expiry,
         reaper.Refill, reaper.GatewayRestarted, reaper.Orphan, reaper.Bound, reaper.Retention, reaper.Contents,
         reaper.Leavings, reaper.Quarantined]


@pytest.fixture(scope="module")
def world(stack):
    return World(stack, stack.client())


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_killed_at(world, kind):
    case, name = kind(), kind.__name__.lower()
    told, _ = case.strike(world, name)
    if not EVERY:
        for i, kill in enumerate(case.kills.values()):
            case.strike_named(world, f"{name}{i}", told, kill)
        return
    points, missed, failed = every(told, EVERY), 0, []
    for i, point in enumerate(points):
        try:
            missed += not case.strike(world, f"{name}{i}", point)[1]
        except AssertionError as e:
            failed.append((point, str(e)[:800]))
    print(f"{kind.__name__}: killed at {len(points) - missed} of {len(points)} calls")
    assert not failed, failed
    assert missed <= len(points) // 4


def test_the_master_replaces_the_reaper(world):
    def swept():
        return world.stack.sql("SELECT swept_at FROM clock")[0][0]

    def reapers():
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_reaper(pid)]

    def is_reaper(pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().startswith(world.stack.path("bin", "husk-reaper").encode())
        return False

    for _ in range(2):
        pid, = wait_until(reapers, 15, "the reaper")
        before = swept()
        time.sleep(1.1)  # who dies younger is started ever more slowly
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: swept() > before, 15, "a pass of its successor")
        assert reapers() not in ([], [pid])


def test_in_the_end_nothing_is_left(world):
    stack = world.stack
    for session in world.client.get("/v1/sessions").json()["sessions"]:
        assert world.client.delete("/v1/sessions/" + session["session_id"]).status in (202, 204)
    world.settle()
    assert stack.kernels() == []
    for table in ("sessions", "runtimes", "pool", "orphans", "turns", "workspaces"):
        assert stack.sql(f"SELECT count(*) FROM {table}") == [(0,)], table
    assert stack.sql("SELECT eid FROM executions WHERE reason IS NULL") == []
    assert stack.sql("PRAGMA integrity_check") == [("ok",)]
    assert stack.sql("PRAGMA foreign_key_check") == []
    workspaces = stack.path("s", "workspaces")
    assert [d for d in os.listdir(workspaces) if d != ".trash"] == []
    assert os.listdir(os.path.join(workspaces, ".trash")) == []
    assert world.blobs() == (set(), [])
    assert world.left_spools() == set()
    # every place is free again
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: world.client.open(f"end{i}"), range(4)))
    assert stack.sql("SELECT count(*) FROM runtimes") == [(4,)]
