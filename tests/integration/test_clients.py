"""The clients people have: Node's fetch and http, Python's urllib and requests; and what a browser would make of it."""
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
import uuid

import pytest
import requests

from stack import free_port

ORIGIN = "https://app.example"
SETTINGS = {"SANDBOX_LISTEN": f"127.0.0.1:{free_port()}", "SANDBOX_CORS_ORIGINS": ORIGIN}

FETCH = r"""
const base = process.env.URL_, auth = {Authorization: 'Bearer ' + process.env.KEY};
const id = process.env.ID, json = {...auth, 'Content-Type': 'application/json'};
const must = (ok, what) => { if (!ok) throw new Error(what); };
const post = (path, body, more) => fetch(base + path, {method: 'POST', headers: {...json, ...more}, body: JSON.stringify(body)});
let r = await post('/v1/sessions', {session_id: id});
must(r.status === 201, 'open ' + r.status);
r = await fetch(`${base}/v1/sessions/${id}/files/a%20b.txt`, {method: 'PUT', headers: auth, body: '0123456789'});
must(r.status === 201, 'put ' + r.status);
r = await post(`/v1/sessions/${id}/exec`, {code: "print(open('a b.txt').read())"});
must((await r.json()).stdout === '0123456789\n', 'exec');
r = await post(`/v1/sessions/${id}/exec`, {code: "for i in range(3): print(i, flush=True)"}, {Accept: 'text/event-stream'});
must(r.headers.get('content-type').startsWith('text/event-stream'), 'stream type');
let text = '';
for await (const chunk of r.body.pipeThrough(new TextDecoderStream())) text += chunk;
const events = text.split('\n\n').filter(Boolean).map(e => /^event: (.*)$/m.exec(e)?.[1]).filter(Boolean);
must(events[0] === 'execution' && events.at(-1) === 'result' && events.includes('stdout'), 'events ' + events);
r = await fetch(`${base}/v1/sessions/${id}/files/a%20b.txt`, {headers: {...auth, Range: 'bytes=2-4'}});
must(r.status === 206 && await r.text() === '234' && r.headers.get('content-range') === 'bytes 2-4/10', 'range ' + r.status);
r = await fetch(`${base}/v1/sessions/${id}`, {method: 'DELETE', headers: auth});
must(r.status === 204, 'delete ' + r.status);
r = await fetch(`${base}/v1/sessions/${id}`, {headers: auth});
must(r.status === 404 && (await r.json()).code === 'session_not_found', 'gone ' + r.status);
console.log('done');
"""

HTTP = r"""
import http from 'node:http';
const base = new URL(process.env.URL_), id = process.env.ID, agent = new http.Agent({keepAlive: true, maxSockets: 1});
const must = (ok, what) => { if (!ok) throw new Error(what); };
const call = (method, path, body, headers) => new Promise((yes, no) => {
  const q = http.request(base, {method, path, agent, headers: {Authorization: 'Bearer ' + process.env.KEY, ...headers}}, r => {
    let text = '';
    r.setEncoding('utf8').on('data', d => text += d).on('end', () => yes({status: r.statusCode, headers: r.headers, text}));
  });
  q.on('error', no);
  q.end(body);
});
const json = {'Content-Type': 'application/json'}, exec = `/v1/sessions/${id}/exec`, file = `/v1/sessions/${id}/files/f.bin`;
let r = await call('POST', '/v1/sessions', JSON.stringify({session_id: id}), json);
must(r.status === 201, 'open ' + r.status);
r = await call('PUT', file, 'abcdef');
must(r.status === 201, 'put ' + r.status + r.text);
// streamed without a length, as Node does with a pipe: whole or refused, never empty
r = await new Promise((yes, no) => {
  const q = http.request(base, {method: 'PUT', path: file + '2', agent, headers: {Authorization: 'Bearer ' + process.env.KEY}},
    r => { r.resume(); r.on('end', () => yes(r)); });
  q.on('error', no);
  q.write('abc'); q.write('def'); q.end();
});
must(r.statusCode === 411 || r.statusCode === 201, 'chunked ' + r.statusCode);
r = await call('POST', exec, JSON.stringify({code: '6*7'}), json);
must(JSON.parse(r.text).results[0].data['text/plain'] === '42', 'exec ' + r.text);
r = await call('POST', exec, JSON.stringify({code: 'print("x")'}), {...json, Accept: 'text/event-stream'});
must(/event: stdout\ndata: {"text":"x\\n"}/.test(r.text) && /event: result\n/.test(r.text), 'stream ' + r.text);
r = await call('GET', file, null, {Range: 'bytes=-2'});
must(r.status === 206 && r.text === 'ef', 'range ' + r.status);
r = await call('HEAD', file);
must(r.status === 200 && r.headers['content-length'] === '6' && r.text === '', 'head');
r = await call('DELETE', `/v1/sessions/${id}`);
must(r.status === 204, 'delete ' + r.status);
agent.destroy();
console.log('done');
"""


@pytest.mark.parametrize("script", [FETCH, HTTP], ids=["fetch", "http"])
def test_node(stack, client, script, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: deployment/install-packages test")
    path = tmp_path / "script.mjs"
    path.write_text(script)
    env = {"PATH": os.environ["PATH"], "URL_": url(stack), "KEY": client.key, "ID": "n-" + uuid.uuid4().hex[:8]}
    done = subprocess.run([node, str(path)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout


def url(stack, path=""):
    host, port = stack.address
    return f"http://{host}:{port}{path}"


def test_urllib(stack, client, session):
    auth = {"Authorization": "Bearer " + client.key}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    body = json.dumps({"code": "print('hi')"}).encode()
    call = urllib.request.Request(url(stack, f"/v1/sessions/{session}/exec"), body, {**auth, "Content-Type": "application/json"})
    with opener.open(call, timeout=60) as answer:
        assert json.load(answer)["stdout"] == "hi\n"
    call.add_header("Accept", "text/event-stream")
    with opener.open(call, timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    assert "event: result" in lines
    put = urllib.request.Request(url(stack, f"/v1/sessions/{session}/files/u.txt"), b"0123456789", auth, method="PUT")
    assert opener.open(put, timeout=60).status == 201
    part = urllib.request.Request(url(stack, f"/v1/sessions/{session}/files/u.txt"), headers={**auth, "Range": "bytes=5-"})
    with opener.open(part, timeout=60) as answer:
        assert answer.status == 206 and answer.read() == b"56789"
    # without a type urllib says application/x-www-form-urlencoded: refused, not guessed
    with pytest.raises(urllib.error.HTTPError) as refused:
        opener.open(urllib.request.Request(call.full_url, body, auth), timeout=60)
    assert refused.value.code == 415 and json.load(refused.value)["code"] == "unsupported_media_type"


def test_requests(stack, client, session):
    with requests.Session() as http:
        http.trust_env = False
        http.headers["Authorization"] = "Bearer " + client.key
        at = url(stack, f"/v1/sessions/{session}")
        assert http.post(at + "/exec", json={"code": "1+1"}, timeout=60).json()["results"][0]["data"]["text/plain"] == "2"
        with http.post(at + "/exec", json={"code": "print('s')"}, headers={"Accept": "text/event-stream"}, stream=True,
                       timeout=60) as answer:
            names = [line.split(": ")[1] for line in answer.iter_lines(decode_unicode=True) if line.startswith("event: ")]
        assert names[0] == "execution" and names[-1] == "result"
        assert http.put(at + "/files/r.txt", data=b"x" * 300_000, timeout=60).status_code == 201
        assert http.get(at + "/files/r.txt", headers={"Range": "bytes=0-9,20-29"}, timeout=60).status_code == 206
        assert http.get(at + "/files/r.txt", timeout=60).content == b"x" * 300_000
        assert http.head(at + "/files/r.txt", timeout=60).headers["Content-Length"] == "300000"


NAMES = ("x.svg", "x.html", "x.htm", "x.xhtml", "x.xml", "x.js", "x.SVG", "x.html.", "x", "x.png.html", "x.pdf", "x.txt",
         'x";.html', "grüße.svg")


def test_a_download_never_becomes_a_page(client, session):
    """A script that a session wrote must not run as this origin, whatever its name or the type it was sent with."""
    for name in NAMES:
        path = f"/v1/sessions/{session}/files/" + urllib.request.quote(name, safe="")
        put = client.put(path, b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
                         headers={"Content-Type": "text/html"})
        assert put.status == 201, (name, put)
        for method in ("GET", "HEAD"):
            got = client.request(method, path)
            assert got.status == 200, name
            assert got.headers["content-type"].split(";")[0] not in (
                "text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "application/xml", "text/javascript"), name
            assert got.headers["content-disposition"].startswith("attachment"), name
            assert got.headers["x-content-type-options"] == "nosniff", name
            assert got.headers["content-security-policy"].startswith("sandbox"), name
        part = client.get(path, headers={"Range": "bytes=0-3"})
        assert part.status == 206 and part.headers["content-security-policy"].startswith("sandbox"), name
        assert part.headers["x-content-type-options"] == "nosniff", name


def test_no_name_makes_a_header(client, session):
    name = "x\r\nSet-Cookie: a=b.txt"
    path = f"/v1/sessions/{session}/files/" + urllib.request.quote(name, safe="")
    assert client.put(path, b"x").code == "bad_path"
    client.run(session, f"open({name!r}, 'w').close()")
    got = client.get(path)
    assert got.status == 400 and "set-cookie" not in got.headers
    listed = client.get(f"/v1/sessions/{session}/files")
    assert name in [f.get("path") for f in listed.json()["files"]]


def test_a_picture_is_shown_in_place(client, session):
    client.put(f"/v1/sessions/{session}/files/p.png", b"\x89PNG")
    got = client.get(f"/v1/sessions/{session}/files/p.png")
    assert got.headers["content-type"] == "image/png" and got.headers["content-disposition"].startswith("inline")
    assert got.headers["content-security-policy"].startswith("sandbox")


def test_json_is_nosniff_and_never_cached(client, session):
    for path in ("/v1/sessions", f"/v1/sessions/{session}", "/healthz", "/v1/sessions/none"):
        answer = client.get(path)
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["cache-control"] == "no-store"


def test_head_is_get_without_the_body(client, session):
    for path in ("/healthz", "/openapi.json", f"/v1/sessions/{session}/files", f"/v1/sessions/{session}", "/v1/sessions/none"):
        get, head = client.get(path), client.request("HEAD", path)
        assert head.status == get.status and head.body == b"", path
        assert head.headers["content-type"] == get.headers["content-type"]
        assert head.headers["content-length"] == get.headers["content-length"], path
    assert client.request("HEAD", f"/v1/sessions/{session}/exec").status == 405


def test_options(client, session):
    plain = client.request("OPTIONS", f"/v1/sessions/{session}/exec")
    assert plain.status in (204, 405) and "POST" in plain.headers["allow"]
    assert "access-control-allow-origin" not in plain.headers
    for method, path in (("POST", f"/v1/sessions/{session}/exec"), ("PUT", f"/v1/sessions/{session}/files/a/b"),
                         ("DELETE", f"/v1/sessions/{session}"), ("PATCH", f"/v1/sessions/{session}")):
        wish = {"Origin": ORIGIN, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization,range"}
        allowed = client.request("OPTIONS", path, headers=wish)
        assert allowed.status == 204 and method in allowed.headers["access-control-allow-methods"], path
        assert "Range" in allowed.headers["access-control-allow-headers"] and allowed.body == b""
        stranger = client.request("OPTIONS", path, headers={**wish, "Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in stranger.headers
    shown = client.get("/v1/sessions/none", headers={"Origin": ORIGIN})
    assert shown.headers["access-control-allow-origin"] == ORIGIN, "a page can read why it failed"
    assert "X-Request-Id" in shown.headers["access-control-expose-headers"]


def test_a_page_can_read_what_nginx_refuses(client):
    refused = client.request("POST", "/v1/sessions", headers={"Content-Length": "9999999999", "Origin": ORIGIN})
    assert refused.status == 413 and refused.headers["access-control-allow-origin"] == ORIGIN
    assert refused.headers["x-content-type-options"] == "nosniff"
    other = client.request("POST", "/v1/sessions", headers={"Content-Length": "9999999999", "Origin": "https://evil.example"})
    assert other.status == 413 and "access-control-allow-origin" not in other.headers
