"""Dockerfiles, compose files and what they promise."""
import glob
import json
import os
import re

import yaml

import tools

SOURCE = os.environ["HUSK_SOURCE"]
DEPLOYMENT = os.path.join(SOURCE, "deployment")
COMPOSE = [os.path.join(DEPLOYMENT, "docker-compose.yaml"),
           os.path.join(DEPLOYMENT, "optional", "docker-compose.optional.sandbox-egress.yaml")]


def dockerfiles():
    return sorted(glob.glob(os.path.join(DEPLOYMENT, "**", "Dockerfile"), recursive=True))


def test_dockerfiles_pass_hadolint():
    assert len(dockerfiles()) >= 3
    tools.run(tools.hadolint(), "--failure-threshold", "warning", *dockerfiles())


def test_what_dockerfiles_copy_is_there():
    """Nothing can be built here without an engine, but what COPY names must exist."""
    for path in dockerfiles():
        # compose builds the proxy from its own folder, the others from the top
        context = os.path.dirname(path) if "egress-proxy" in path else SOURCE
        for line in open(path):
            if line.startswith("COPY ") and "--from" not in line:
                for name in line.split()[1:-1]:
                    assert os.path.exists(os.path.join(context, name)), f"{path}: {name}"


def test_bases_are_pinned_and_users_are_not_root():
    for path in dockerfiles():
        text = open(path).read()
        base = re.search(r"^ARG BASE=(\S+)$", text, re.M)[1]
        assert re.search(r":[a-z]+-\d{8}-slim$", base), f"{path}: {base} is no dated tag"
        user = re.findall(r"^USER (\S+)$", text, re.M)
        assert user and user[-1] not in ("root", "0", "0:0"), path


def compose(*files, **environment):
    words = [w for f in files for w in ("-f", f)]
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment}
    return json.loads(tools.run(tools.go_tool("docker-compose"), *words, "config", "--format", "json", env=env))


def test_compose_needs_a_token():
    try:
        compose(COMPOSE[0])
    except AssertionError as e:
        assert "SANDBOX_GATEWAY_AUTH_TOKEN" in str(e)
    else:
        raise AssertionError("it starts without a token")


def test_compose_holds_what_it_promises():
    project = compose(COMPOSE[0], SANDBOX_GATEWAY_AUTH_TOKEN="t", SANDBOX_MEMORY="768m", SANDBOX_CPUS="1.5")
    assert project["networks"]["inside"]["internal"] is True
    assert project["networks"]["inside"]["driver_opts"] == {"com.docker.network.bridge.inhibit_ipv4": "true"}
    sandbox, husk = project["services"]["sandbox"], project["services"]["husk"]
    assert "ports" not in sandbox and list(sandbox["networks"]) == ["inside"]
    assert int(sandbox["mem_limit"]) == 768 << 20 and sandbox["cpus"] == 1.5
    assert [p["host_ip"] for p in husk["ports"]] == ["127.0.0.1"]
    for name, service in project["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["pids_limit"] > 0 and int(service["mem_limit"]) > 0 and service["cpus"] > 0, name
        assert service["tmpfs"], name
        assert not any("docker.sock" in json.dumps(v) for v in service.get("volumes", [])), name
        assert not service.get("privileged"), name


def test_the_runner_has_what_its_keeper_needs_and_no_more():
    """SETPCAP to take the rest away from the session, SETUID and SETGID to become it, KILL to end it, and its files."""
    sandbox = compose(COMPOSE[0], SANDBOX_GATEWAY_AUTH_TOKEN="t")["services"]["sandbox"]
    assert sorted(sandbox["cap_add"]) == ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETPCAP", "SETUID"]


def test_the_egress_overlay_adds_only_a_proxy():
    project = compose(*COMPOSE, SANDBOX_GATEWAY_AUTH_TOKEN="t")
    assert sorted(project["services"]) == ["egress-proxy", "husk", "sandbox"]
    assert list(project["services"]["sandbox"]["networks"]) == ["inside"]
    assert sorted(project["services"]["egress-proxy"]["networks"]) == ["inside", "outside"]
    assert "ports" not in project["services"]["egress-proxy"]
    assert "image" in project["services"]["egress-proxy"] and "build" in project["services"]["egress-proxy"]


def test_settings_in_compose_are_settings_of_husk():
    known = set(re.findall(r"^\| `((?:SANDBOX|DAYTONA|ARTIFACT)_[A-Z_]+)`", open(os.path.join(SOURCE, "docs", "settings.md")).read(), re.M))
    assert len(known) > 50
    for path in COMPOSE:
        for name, service in yaml.safe_load(open(path))["services"].items():
            given = {k for k in service.get("environment", {}) if k.startswith(("SANDBOX_", "DAYTONA_", "ARTIFACT_"))}
            assert not given - known, f"{os.path.basename(path)}, {name}: {sorted(given - known)}"


def test_no_package_of_the_runner_is_under_the_agpl():
    """By what the installed packages say of themselves: the runner that the tests of extraction have installed."""
    found = glob.glob("/var/cache/husk/gateways/runner-docling/lib/python3*/site-packages/*.dist-info/METADATA")
    if not found:
        raise tools.Missing("the runner is not installed: tests/integration/test_extract.py does it")
    for path in found:
        with open(path, encoding="utf-8", errors="replace") as f:
            head = f.read().split("\n\n", 1)[0]
        said = " ".join(re.findall(r"^(?:License|License-Expression|Classifier: License)[^\n]*", head, re.M))
        assert not re.search(r"affero|agpl", said, re.I), f"{path}: {said}"
