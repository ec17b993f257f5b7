"""The Kubernetes manifests: they build, they are valid, and they hold what they promise."""
import ipaddress
import os
import re

import yaml

import tools

SOURCE = os.environ["HUSK_SOURCE"]
K8S = os.path.join(SOURCE, "deployment", "k8s")


def overlays():
    return ["base"] + sorted(os.path.join("overlays", name) for name in os.listdir(os.path.join(K8S, "overlays")))


def built(overlay):
    text = tools.run(tools.go_tool("kustomize"), "build", os.path.join(K8S, overlay))
    return text, [d for d in yaml.safe_load_all(text) if d]


def kernel_pod():
    """What Enterprise Gateway makes of its template, for checking."""
    with open(os.path.join(K8S, "overlays", "enterprise-gateway", "kernels", "kernel-pod.yaml.j2")) as f:
        return yaml.safe_load(re.sub(r"\{\{ (\w+) \}\}", lambda m: m[1].replace("_", "-"), f.read()))


def pods(documents):
    if any(d["metadata"]["name"] == "enterprise-gateway" for d in documents):
        yield "kernel", kernel_pod()
    for d in documents:
        if d["kind"] in ("Deployment", "StatefulSet", "DaemonSet", "Job"):
            yield d["metadata"]["name"], d["spec"]["template"]
        elif d["kind"] == "CronJob":
            yield d["metadata"]["name"], d["spec"]["jobTemplate"]["spec"]["template"]


def test_every_overlay_builds_and_is_valid():
    for overlay in overlays():
        text, documents = built(overlay)
        assert len(documents) >= 10, overlay
        done = tools.subprocess.run([tools.go_tool("kubeconform"), "-strict", "-summary", "-schema-location", tools.schemas(), "-"],
                                    input=text, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{overlay}: {done.stdout}{done.stderr}"
        assert f"Valid: {len(documents)}" in done.stdout, f"{overlay}: {done.stdout}"


def test_pods_are_of_the_restricted_profile():
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/, and more: read-only roots, no tokens, limits."""
    for overlay in overlays():
        for name, pod in pods(built(overlay)[1]):
            where, spec = f"{overlay}: {name}", pod["spec"]
            assert spec["securityContext"]["runAsNonRoot"] is True, where
            assert spec["securityContext"]["runAsUser"] > 0, where
            assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", where
            assert not any(spec.get(k) for k in ("hostNetwork", "hostPID", "hostIPC")), where
            assert not any("hostPath" in v for v in spec.get("volumes", [])), where
            for container in spec["containers"] + spec.get("initContainers", []):
                here, context = f"{where}/{container['name']}", container["securityContext"]
                assert context["allowPrivilegeEscalation"] is False, here
                assert context["capabilities"]["drop"] == ["ALL"] and not context["capabilities"].get("add"), here
                assert context["readOnlyRootFilesystem"] is True, here
                assert {"cpu", "memory"} <= set(container["resources"]["limits"]), here
            for container in spec["containers"] if name != "kernel" else []:
                assert {"livenessProbe", "readinessProbe"} <= set(container), f"{where}/{container['name']}"


def test_secrets_are_named_and_never_written():
    for overlay in overlays():
        text, documents = built(overlay)
        assert not [d for d in documents if d["kind"] == "Secret"], overlay
        for _, pod in pods(documents):
            for container in pod["spec"]["containers"]:
                for variable in container.get("env", []):
                    if re.search("TOKEN|KEY|PASSWORD|SECRET", variable["name"]):
                        assert "secretKeyRef" in variable.get("valueFrom", {}), f"{overlay}: {variable['name']}"


def test_names_that_point_to_each_other_meet():
    """Selectors of services, budgets and policies find a pod; ports by name exist."""
    for overlay in overlays():
        documents = built(overlay)[1]
        labels = {name: pod["metadata"]["labels"] for name, pod in pods(documents)}

        def found(selector):
            return [n for n, have in labels.items() if selector.items() <= have.items()]

        for d in documents:
            where = f"{overlay}: {d['kind']} {d['metadata']['name']}"
            if d["kind"] == "Service" and d["spec"].get("selector"):
                assert found(d["spec"]["selector"]), where
            elif d["kind"] == "PodDisruptionBudget":
                assert found(d["spec"]["selector"]["matchLabels"]), where
            elif d["kind"] == "NetworkPolicy" and d["spec"]["podSelector"]:
                assert found(d["spec"]["podSelector"]["matchLabels"]), where


def policies(overlay):
    return {d["metadata"]["name"]: d["spec"] for d in built(overlay)[1] if d["kind"] == "NetworkPolicy"}


def test_the_runner_reaches_nothing_unless_it_is_let():
    base = policies("base")
    assert base["deny"]["podSelector"] == {} and sorted(base["deny"]["policyTypes"]) == ["Egress", "Ingress"]
    assert base["sandbox"].get("egress", []) == [] and "Egress" in base["sandbox"]["policyTypes"]
    assert not any("ipBlock" in to and to["ipBlock"]["cidr"].endswith("/0") for spec in base.values()
                   for rule in spec.get("egress", []) for to in rule.get("to", []))


def test_public_egress_leaves_out_every_private_range():
    rules = policies(os.path.join("overlays", "egress-public"))["sandbox-egress"]["egress"]
    blocks = {to["ipBlock"]["cidr"]: to["ipBlock"].get("except", []) for rule in rules for to in rule["to"] if "ipBlock" in to}
    listed = {}
    for line in open(os.path.join(SOURCE, "deployment", "optional", "denied-addresses.txt")):
        if line.startswith("ip"):
            listed.setdefault(line.split()[0], []).append(line.split()[1])
    assert sorted(blocks["0.0.0.0/0"]) == sorted(listed["ip"])
    assert sorted(blocks["::/0"]) == sorted(listed["ip6"])
    for cidr, exceptions in blocks.items():
        for e in exceptions:
            assert ipaddress.ip_network(e).subnet_of(ipaddress.ip_network(cidr)), e
    dns = [rule for rule in rules if {"protocol": "UDP", "port": 53} in rule["ports"]]
    assert dns and any("namespaceSelector" in to for to in dns[0]["to"])
    assert any(to.get("ipBlock", {}).get("cidr", "").startswith("169.254.") for to in dns[0]["to"])


def test_the_front_is_the_one_that_is_tested():
    """nginx/examples has what tests/integration/test_scale.py runs; the overlay's copies differ in two places."""
    overlay, examples = os.path.join(K8S, "overlays", "enterprise-gateway"), os.path.join(SOURCE, "nginx", "examples")
    with open(os.path.join(examples, "husk-shard.conf")) as f:
        expected = f.read().replace("pid shard.pid", "pid /run/husk/shard.pid")
    expected = expected.replace("auth_basic_user_file husk-users", "auth_basic_user_file /etc/husk/husk-users")
    assert open(os.path.join(overlay, "husk-shard.conf")).read() == expected
    assert open(os.path.join(overlay, "husk-auth.conf")).read() == open(os.path.join(examples, "husk-auth-shard.conf")).read()


def test_nodes_have_kernel_names_that_the_gateway_offers():
    text, documents = built(os.path.join("overlays", "enterprise-gateway"))
    nodes = next(d for d in documents if d["kind"] == "StatefulSet")["spec"]["replicas"]
    for i in range(nodes):
        assert f'"docsgpt-python-{i}"' in text and f"husk-{i}.husk:8080" in text
    assert f"docsgpt-python-{nodes}" not in text


def test_gvisor_is_switched_on_by_its_overlay():
    runtime = {name: pod["spec"].get("runtimeClassName") for name, pod in pods(built(os.path.join("overlays", "gvisor"))[1])}
    assert runtime["sandbox"] == "gvisor"


def test_settings_are_settings_of_husk():
    known = set(re.findall(r"^\| `((?:SANDBOX|DAYTONA|ARTIFACT)_[A-Z_]+)`", open(os.path.join(SOURCE, "docs", "settings.md")).read(), re.M))
    for overlay in overlays():
        for d in built(overlay)[1]:
            if d["kind"] == "ConfigMap" and d["metadata"]["name"].startswith("husk-settings"):
                assert not set(d["data"]) - known, f"{overlay}: {sorted(set(d['data']) - known)}"
