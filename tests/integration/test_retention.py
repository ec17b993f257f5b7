"""Files that outlive their session: of one evicted at the cap, and until all kept ones together are too large."""
import json

SETTINGS = {"SANDBOX_MAX_SESSIONS": 2, "SANDBOX_WORKSPACES_MAX_BYTES": "1MiB", "SANDBOX_REAP_INTERVAL": "1h"}


def metric(client, name):
    return next(float(line.split()[1]) for line in client.get("/metrics").text.splitlines() if line.startswith(name + " "))


def test_kept_files_until_there_are_too_many(stack, client):
    for i in range(4):  # each evicts the one before the last
        client.open(f"s{i}")
        client.put(f"/v1/sessions/s{i}/files/f", bytes([i]) * 400_000)
    assert client.get("/v1/sessions/s0").status == client.get("/v1/sessions/s1").status == 404
    assert [r for r, in stack.sql("SELECT reason FROM v_history ORDER BY ended")] == ["evicted"] * 2
    stack.sweep()
    kept = stack.sql("SELECT name, kept_bytes FROM v_workspaces WHERE state = 'kept' ORDER BY kept_for_s DESC")
    assert [name for name, _ in kept] == ["s0", "s1"] and all(400_000 <= n < 450_000 for _, n in kept)
    assert metric(client, "husk_workspaces_kept_bytes") == sum(n for _, n in kept)
    # found again by whom was evicted; what is in a session does not count against the bound
    again = client.open("s1")
    assert again["files_kept"] is True and client.get("/v1/sessions/s1/files/f").body == b"\1" * 400_000
    for i in range(4, 7):
        client.open(f"s{i}")
        client.put(f"/v1/sessions/s{i}/files/f", bytes([i]) * 400_000)
    stack.sweep()
    assert [n for n, in stack.sql("SELECT name FROM v_workspaces WHERE state = 'kept' ORDER BY kept_for_s DESC")] == ["s1", "s4"]
    status = json.loads(stack.ctl("status", "--json"))["workspaces"]
    assert (status["all"], status["kept"], status["dropped"], status["max_kept_bytes"]) == (4, 2, 3, 1 << 20)
    assert "2 of them kept after their session" in stack.ctl("status") and "3 dropped so far" in stack.ctl("status")
    assert metric(client, "husk_workspaces_dropped_total") == 3
    assert "over SANDBOX_WORKSPACES_MAX_BYTES: the 3 kept longest" in stack.log("reaper-once")
    assert client.open("s0")["files_kept"] is False and client.get("/v1/sessions/s0/files/f").status == 404
    assert client.open("s4")["files_kept"] is True
