"""The stand-in for Daytona is proved by something nobody here wrote: the published npm client @daytona/sdk, as it is.

The client comes from its registry, hash-locked (tests/support/daytona-sdk), once.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess

import pytest

from fakedaytona import FakeDaytona
from stack import BUILD, ROOT, SOURCE, wait_until

SCRIPT = r"""
import {Daytona} from '@daytona/sdk';
import {readFileSync, writeFileSync} from 'node:fs';
const must = (ok, what) => { if (!ok) throw new Error(what); };
const daytona = new Daytona({apiKey: process.env.KEY, apiUrl: process.env.URL_, target: 'us'});
const refused = async (promise, status) => { try { await promise; } catch (e) { must(e.statusCode === status, e); return; }
  throw new Error('not refused'); };

const sandbox = await daytona.create({language: 'python', labels: {session: 'one', deployment: 'here'}, envVars: {FROM: 'env'},
  autoStopInterval: 15, autoDeleteInterval: 60});
must(sandbox.state === 'started' && sandbox.autoDeleteInterval === 60 && sandbox.labels.session === 'one', 'created');

// code
let r = await sandbox.process.codeRun("import os, sys; print(os.environ['FROM'], sys.argv[1:])", {argv: ['a b'], env: {X: '1'}});
must(r.exitCode === 0 && r.result === "env ['a b']\n", 'codeRun ' + JSON.stringify(r));
r = await sandbox.process.codeRun('1/0');
must(r.exitCode === 1 && r.result.includes('ZeroDivisionError'), 'codeRun error');
await refused(sandbox.process.codeRun('import time; time.sleep(60)', undefined, 1), 408);
r = await sandbox.process.codeRun("import matplotlib.pyplot as plt\nplt.plot([1, 2, 4]); plt.title('t'); plt.show()");
must(r.artifacts.charts.length === 1 && r.artifacts.charts[0].type === 'line' && r.artifacts.charts[0].title === 't'
  && Buffer.from(r.artifacts.charts[0].png, 'base64').subarray(1, 4).toString() === 'PNG', 'chart');
r = await sandbox.process.executeCommand('echo $A; pwd; exit 3', '/tmp', {A: 'b'});
must(r.exitCode === 3 && r.result === 'b\n/tmp\n', 'executeCommand ' + JSON.stringify(r));

// the interpreter: state, streams, errors, contexts, time-outs
let out = '', err = '';
r = await sandbox.codeInterpreter.runCode("import sys\nx = 41\nfor i in range(3): print(i)\nprint('e', file=sys.stderr)",
  {onStdout: m => { out += m.output; }, onStderr: m => { err += m.output; }});
must(out === '0\n1\n2\n' && err === 'e\n' && r.stdout === out && !r.error, 'runCode ' + JSON.stringify(r));
r = await sandbox.codeInterpreter.runCode('print(x + 1)');
must(r.stdout === '42\n', 'state');
r = await sandbox.codeInterpreter.runCode('{}["k"]');
must(r.error.name === 'KeyError' && r.error.value === "'k'" && r.error.traceback.includes('line 1'), 'error');
const context = await sandbox.codeInterpreter.createContext('/tmp');
r = await sandbox.codeInterpreter.runCode("import os; print(os.getcwd(), 'x' in globals())", {context, envs: {Y: 'z'}});
must(r.stdout === '/tmp False\n', 'context ' + JSON.stringify(r));
must((await sandbox.codeInterpreter.listContexts()).map(c => c.id).includes(context.id), 'contexts');
await sandbox.codeInterpreter.deleteContext(context);
must((await sandbox.codeInterpreter.listContexts()).length === 0, 'no contexts');
r = await sandbox.codeInterpreter.runCode("print('a')\nimport time; time.sleep(60)", {timeout: 1});
must(r.stdout === 'a\n' && !r.error, 'an interrupt at the time-out is an ordinary end to this client');
must((await sandbox.codeInterpreter.runCode('print(x)')).stdout === '41\n', 'state after a time-out');
try {
  await sandbox.codeInterpreter.runCode('while True:\n  try: time.sleep(1)\n  except BaseException: pass', {timeout: 1});
  throw new Error('no time-out');
} catch (e) { must(e.constructor.name === 'DaytonaTimeoutError', e); }
must((await sandbox.codeInterpreter.runCode('print(x)')).error.name === 'NameError', 'a silent restart');

// files, both ways
const big = Buffer.alloc(3_000_000, 'xyz'), name = 'a folder/grüße 100%.bin';
await sandbox.fs.createFolder('a folder', '755');
await sandbox.fs.uploadFile(big, name);
must((await sandbox.fs.downloadFile(name)).equals(big), 'download');
writeFileSync('local', 'from a file');
await sandbox.fs.uploadFiles([{source: 'local', destination: 'one'}, {source: Buffer.from('two'), destination: '/home/daytona/deep/er/two'}]);
await sandbox.fs.downloadFile('one', 'back');
must(readFileSync('back', 'utf8') === 'from a file', 'download to a file');
const many = await sandbox.fs.downloadFiles([{source: 'deep/er/two'}, {source: 'none'}]);
must(many[0].result.toString() === 'two' && many[1].errorDetails.statusCode === 404, 'downloads ' + JSON.stringify(many[1]));
let text = '';
for await (const piece of await sandbox.fs.downloadFileStream('one')) text += piece;
must(text === 'from a file', 'stream');
must((await sandbox.process.codeRun("print(open('/home/daytona/deep/er/two').read(), end='')")).result === 'two', 'seen by code');
const info = await sandbox.fs.getFileDetails(name);
must(info.size === 3_000_000 && info.isDir === false && !Number.isNaN(Date.parse(info.modifiedAt)), 'info');
must((await sandbox.fs.listFiles('.')).map(f => f.name).sort().join() === 'a folder,deep,one', 'list');
must((await sandbox.fs.listFiles('.', {depth: 3})).some(f => f.path === '/home/daytona/deep/er/two'), 'list with depth');
await refused(sandbox.fs.deleteFile('deep'), 400);
await sandbox.fs.deleteFile('deep', true);
await refused(sandbox.fs.getFileDetails('deep'), 404);
must(await sandbox.getWorkDir() === '/home/daytona' && await sandbox.getUserHomeDir() === '/home/daytona', 'folders');

// its life: found by label, stopped, started with its files and without its state, deleted
const found = [];
for await (const s of daytona.list({labels: {session: 'one'}, states: ['started', 'stopped'], limit: 1})) found.push(s.id);
must(found.join() === sandbox.id, 'list');
await sandbox.setLabels({session: 'two'});
await sandbox.setAutostopInterval(20);
await sandbox.setAutoDeleteInterval(30);
await sandbox.stop();
must(sandbox.state === 'stopped', 'stopped');
await refused(sandbox.fs.listFiles('.'), 400);
const again = await daytona.get(sandbox.id);
must(again.labels.session === 'two' && again.autoStopInterval === 20 && again.autoDeleteInterval === 30, 'settings');
await again.start();
must((await again.fs.downloadFile('one')).toString() === 'from a file', 'files stay');
must((await again.codeInterpreter.runCode('print(x)')).error.name === 'NameError', 'state does not');
await again.delete(60, true);
await refused(daytona.get(sandbox.id), 404);
await daytona[Symbol.asyncDispose]();
console.log('done');
process.exit(0);
"""


@pytest.fixture(scope="module")
def modules():
    """The folder of the installed client; made where the lock's digest does not match what stands."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: deployment/install-packages test")
    source = os.path.join(SOURCE, "tests", "support", "daytona-sdk")
    base = "/var/cache/husk" if ROOT else os.path.join(BUILD, "tests")
    os.makedirs(base, mode=0o755, exist_ok=True)
    folder = os.path.join(base, "daytona-sdk")
    digest = hashlib.sha256(open(os.path.join(source, "package-lock.json"), "rb").read()).hexdigest()
    stamp = os.path.join(folder, "installed")
    with open(folder + ".lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if open(stamp).read() == digest:
                return folder
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(source, name), folder)
        done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip("@daytona/sdk cannot be installed here: " + done.stdout.strip()[-200:])
        with open(stamp, "w") as f:
            f.write(digest)
    return folder


@pytest.fixture(scope="module")
def daytona(tmp_path_factory):
    fake = FakeDaytona(str(tmp_path_factory.mktemp("daytona")))
    yield fake
    fake.stop()


def node(modules, fake, script, cwd, **env):
    """Runs a script that imports the client; returns the finished process."""
    path = os.path.join(modules, f"script-{os.getpid()}.mjs")
    with open(path, "w") as f:
        f.write(script)
    try:
        return subprocess.run(["node", path], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180, env={
            "PATH": os.environ["PATH"], "KEY": fake.key, "URL_": fake.url, "NODE_EXTRA_CA_CERTS": fake.ca, **env})
    finally:
        os.unlink(path)


def test_the_published_client(modules, daytona, tmp_path):
    """Sandboxes, code, files: all that the wire page names, over TLS with a private authority."""
    done = node(modules, daytona, SCRIPT, tmp_path)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + daytona.log()
    seen = daytona.seen()
    assert seen["created"] == 1 and seen["alive"] == 0
    assert not daytona.log(), "nothing went wrong inside"


def test_another_key_is_refused(modules, daytona, tmp_path):
    script = "import {Daytona} from '@daytona/sdk';\nconst d = new Daytona({apiKey: process.env.KEY, apiUrl: process.env.URL_});\n" \
             "try { await d.get('x'); } catch (e) { console.log(e.statusCode); }\nprocess.exit(0);\n"
    done = node(modules, daytona, script, tmp_path, KEY="dtn_stolen")
    assert done.stdout == "401\n", done.stdout


def test_nothing_goes_without_the_key_or_in_a_wrong_type(daytona):
    auth = {"Authorization": "Bearer " + daytona.key}
    daytona.reset()
    ident = daytona.call("POST", "/api/sandbox", {}, auth)[1]["id"]
    api, box = "/api/sandbox", "/toolbox/" + ident
    calls = [("POST", api), ("GET", api), *((method, f"{api}/{ident}{tail}") for method, tail in (
        ("GET", ""), ("DELETE", ""), ("POST", "/start"), ("POST", "/stop"), ("PUT", "/labels"), ("POST", "/autostop/1"),
        ("POST", "/autodelete/1"), ("GET", "/toolbox-proxy-url"))), *((method, box + tail) for method, tail in (
            ("POST", "/process/code-run"), ("POST", "/process/execute"), ("GET", "/process/interpreter/context"),
            ("POST", "/process/interpreter/context"), ("DELETE", "/process/interpreter/context/x"),
            ("GET", "/process/interpreter/execute"), ("POST", "/files/folder?path=a"), ("POST", "/files/bulk-upload"),
            ("POST", "/files/upload-v2?path=a"), ("POST", "/files/upload?path=a"), ("GET", "/files/download?path=a"),
            ("POST", "/files/bulk-download"), ("GET", "/files/info?path=a"), ("GET", "/files"), ("DELETE", "/files?path=a"),
            ("POST", "/files/move?source=a&destination=b")))]
    for method, path in calls:
        for headers in ({}, {"Authorization": daytona.key}, {"Authorization": auth["Authorization"] + "x"}):
            assert daytona.call(method, path, {} if method in ("POST", "PUT") else None, headers)[0] == 401, (method, path, headers)
    for path, body in ((api, {}), (box + "/process/code-run", {"code": "1", "language": "python"}),
                       (box + "/process/execute", {"command": "true"})):
        assert daytona.call("POST", path, body, {**auth, "Content-Type": "text/plain"})[0] == 415
    assert daytona.call("POST", box + "/files/bulk-upload", {"files": []}, auth)[0] == 400
    assert [s["id"] for s in daytona.sandboxes()] == [ident]
    assert daytona.call("DELETE", f"{api}/{ident}", headers=auth)[0] == 200


def test_its_switches(daytona):
    """What the other tests steer it with does what it says."""
    auth = {"Authorization": "Bearer " + daytona.key}
    daytona.reset()
    daytona.set(fail={"create": [503, 2]}, create_ms=300, proxy_url=False, uploads=["upload"], interpreter=False)
    assert [daytona.call("POST", "/api/sandbox", {}, auth)[0] for _ in range(2)] == [503, 503]
    status, made = daytona.call("POST", "/api/sandbox", {"labels": {"a": "b"}}, auth)
    assert status == 200 and made["state"] == "creating" and "toolboxProxyUrl" not in made
    base = f"/toolbox/{made['id']}"
    assert daytona.call("GET", base + "/files", headers=auth)[0] == 400, "not started yet"
    wait_until(lambda: daytona.call("GET", "/api/sandbox/" + made["id"], headers=auth)[1]["state"] == "started", 30, "started")
    url = daytona.call("GET", f"/api/sandbox/{made['id']}/toolbox-proxy-url", headers=auth)[1]["url"]
    assert url.endswith("/toolbox")
    assert daytona.call("POST", base + "/files/upload-v2?path=a", {}, auth)[0] == 404
    assert daytona.call("GET", base + "/process/interpreter/context", headers=auth)[0] == 404
    daytona.set(drop={"get": 1}, redirect={"list": 1}, garbage={"info": 1})
    with pytest.raises(OSError):
        daytona.call("GET", "/api/sandbox/" + made["id"], headers=auth)
    assert daytona.call("GET", "/api/sandbox", headers=auth)[0] == 200  # urllib follows
    assert daytona.seen()["elsewhere"] == [["/api/sandbox", True]]
    with pytest.raises(ValueError):
        daytona.call("GET", base + "/files/info?path=.", headers=auth)
    daytona.control(force={"id": made["id"], "state": "archived"})
    assert daytona.call("GET", "/api/sandbox/" + made["id"], headers=auth)[1]["state"] == "archived"
    daytona.control(force={"id": made["id"], "state": "stopped"})
    assert daytona.call("POST", f"/api/sandbox/{made['id']}/autodelete/1", headers=auth)[0] == 200
    daytona.set(minute_ms=100)
    wait_until(lambda: daytona.seen()["alive"] == 0, 30, "deleted of itself")
    assert daytona.call("POST", "/_control", {"set": {"nothing": 1}})[0] == 400
    assert json.dumps(daytona.reset()["switches"]["fail"]) == "{}"
