"""The live service held against its own document by schemathesis: every operation, data it allows and data it forbids.

schemathesis comes from its registry, hash-locked, into a virtual environment below the build directory, once.
"""
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess

import pytest

from stack import BUILD, SOURCE, free_port

SETTINGS = {"SANDBOX_LISTEN": f"127.0.0.1:{free_port()}", "SANDBOX_MAX_SESSIONS": 4, "SANDBOX_EXEC_TIMEOUT": 5,
            "SANDBOX_MAX_EXEC_TIMEOUT": 5, "SANDBOX_TURN_WAIT": 1}
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
          "response_schema_conformance", "negative_data_rejection", "positive_data_acceptance", "missing_required_header",
          "unsupported_method", "allow_header_conformance", "use_after_free", "ignored_auth")


@pytest.fixture(scope="module")
def schemathesis():
    """The program's path; made where the lock's digest does not match what stands."""
    lock = os.path.join(SOURCE, "tests", "integration", "requirements-schemathesis.txt")
    venv = os.path.join(BUILD, "tests", "schemathesis")
    digest = hashlib.sha256(open(lock, "rb").read()).hexdigest()
    stamp = os.path.join(venv, "installed")
    os.makedirs(os.path.dirname(venv), exist_ok=True)
    with open(venv + ".lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if open(stamp).read() == digest:
                return os.path.join(venv, "bin", "schemathesis")
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run(["/usr/bin/python3", "-m", "venv", venv], check=True, timeout=120)
        done = subprocess.run([os.path.join(venv, "bin", "python"), "-m", "pip", "install", "--quiet",
                               "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "-r", lock],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip("schemathesis cannot be installed here: " + done.stdout.strip()[-200:])
        with open(stamp, "w") as f:
            f.write(digest)
    return os.path.join(venv, "bin", "schemathesis")


def run(schemathesis, stack, key, cwd, *more):
    host, port = stack.address
    done = subprocess.run(
        [schemathesis, "--config-file", os.path.join(SOURCE, "tests", "integration", "schemathesis.toml"),
         "run", f"http://{host}:{port}/openapi.json", "--mode", "all", "--max-examples", "4",
         "--generation-deterministic", "--no-shrink", "--checks", ",".join(CHECKS), "--continue-on-failure",
         "--request-timeout", "30", "--header", "Authorization: Bearer " + key, "--no-color", "--workers", "1",
         "--suppress-health-check", "all", "--warnings", "off", *more],
        cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400)
    assert done.returncode == 0, done.stdout[-20000:]
    return done.stdout


def test_no_finding(stack, schemathesis, tmp_path):
    client = stack.client(stack.key("docs", "admin"))
    # what the document's examples name
    client.open("s1")
    client.put("/v1/sessions/s1/files/data/a.csv", b"a,b\n1,2\n")
    # without the one call by which it would revoke its own key
    said = run(schemathesis, stack, client.key, tmp_path, "--phases", "examples,coverage,fuzzing,stateful",
               "--exclude-operation-id", "revokeKey")
    assert "Tested: 28" in said, said
    assert client.get("/v1/keys").status == 200, "the key was lost on the way: nothing was tested after that"


def test_no_finding_in_revocation(stack, schemathesis, tmp_path):
    said = run(schemathesis, stack, stack.key("docs", "admin"), tmp_path, "--phases", "examples,coverage,fuzzing",
               "--include-operation-id", "revokeKey")
    assert "Tested: 1" in said, said
