"""POST /v1/extract against the real Docling in the runner, on documents that are made here."""
import io
import json
import os
import re
import socket
import subprocess
import threading
import uuid
import zipfile

import pytest

from stack import SOURCE, Stack, free_port, gateway_choice, wait_until

MAX_INPUT = 1 << 20
TITLE, ROWS = "Grüße, 世界", [["Name", "Sum"], ["Äpfel", "12"]]
# What makes the documents, with the libraries that the runner has anyway.
MAKER = r"""
import sys
import docx, openpyxl, pptx
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

title, rows = "Grüße, 世界", [["Name", "Sum"], ["Äpfel", "12"]]
def fill(cell):
    for i, row in enumerate(rows):
        for j, text in enumerate(row):
            cell(i, j).text = text
d = docx.Document()
d.add_heading(title, 1)
fill(d.add_table(2, 2).cell)
d.save("a.docx")
p = pptx.Presentation()
slide = p.slides.add_slide(p.slide_layouts[5])
slide.shapes.title.text = title
fill(slide.shapes.add_table(2, 2, 914400, 1828800, 4000000, 800000).table.cell)
p.save("a.pptx")
book = openpyxl.Workbook()
for row in [rows[0], [rows[1][0], 12]]:
    book.active.append(row)
book.save("a.xlsx")
style = getSampleStyleSheet()["Title"]
SimpleDocTemplate("a.pdf").build([Paragraph("Grüße", style), Table(rows), PageBreak(), Paragraph("page two", style)])
c = Canvas("locked.pdf", encrypt=StandardEncryption("secret"))
c.drawString(100, 700, "hidden")
c.save()
Image.new("RGB", (50, 50), "red").save("red.png")
for name, text in (("scan.pdf", ""), ("mixed.pdf", "typed text")):
    c = Canvas(name)
    if text:
        c.drawString(100, 700, text)
        c.showPage()
    c.drawImage("red.png", 100, 100)
    c.showPage()
    c.save()
"""


class DoclingStack(Stack):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.gateway = "runner-docling"


STACK = DoclingStack
SETTINGS = {"SANDBOX_LISTEN": f"127.0.0.1:{free_port()}", "SANDBOX_MAX_INPUT_BYTES": MAX_INPUT, "SANDBOX_MAX_OUTPUT_BYTES": "256KiB"}


def configure(stack):
    if stack.sandboxed:
        python = gateway_choice(stack.gateway)["HUSK_KERNEL_PYTHON"]
        stack.settings.update(SANDBOX_KERNEL_PYTHON=python, SANDBOX_KERNEL_PATHS=os.path.dirname(os.path.dirname(python)))


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Their bytes by name."""
    folder = tmp_path_factory.mktemp("documents")
    subprocess.run([gateway_choice("runner-docling")["HUSK_KERNEL_PYTHON"], "-c", MAKER], cwd=folder, check=True, timeout=60)
    made = {p.name: p.read_bytes() for p in folder.iterdir()}
    made["a.htm"] = f"<h1>{TITLE}</h1><table><tr><td>Name<td>Sum<tr><td>Äpfel<td>12</table>".encode()
    made["a.md"] = f"# {TITLE}\n\n| Name | Sum |\n|---|---|\n| Äpfel | 12 |\n".encode()
    made["a.csv"] = "Name,Sum\nÄpfel,12\n".encode()
    return made


def form(*parts):
    """(body, headers) of parts (name, filename or None, bytes)."""
    boundary, out = uuid.uuid4().hex, io.BytesIO()
    for name, filename, data in parts:
        more = f'; filename="{filename}"' if filename is not None else ""
        out.write(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + data + b"\r\n")
    out.write(f"--{boundary}--\r\n".encode())
    return out.getvalue(), {"Content-Type": "multipart/form-data; boundary=" + boundary}


def send(client, *parts):
    body, headers = form(*parts)
    return client.request("POST", "/v1/extract", body, headers=headers, timeout=90)


def extract(client, filename, data, schema=None):
    more = [("schema", None, json.dumps(schema).encode())] if schema is not None else []
    return send(client, ("file", filename, data), *more)


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.htm", "a.md", "a.csv", "a.pdf"])
def test_each_format(client, documents, name):
    schema = {"type": "object", "required": ["text", "tables"], "properties": {"text": {"type": "string", "minLength": 3}}}
    answer = extract(client, "böse \\pfade/" + name.upper(), documents[name], schema)
    assert answer.status == 200, answer
    r = answer.json()
    assert r["document"] == {"filename": name.upper(), "format": name[2:].replace("htm", "html")}
    assert r["structure"]["schema_name"] == "DoclingDocument" and r["warnings"] == []
    assert "Äpfel" in r["text"] and "Äpfel" in r["markdown"]
    if name == "a.pdf":  # without models it has lines, no tables
        assert "Grüße" in r["text"] and "page two" in r["text"] and r["tables"] == []
        return
    assert r["tables"][0]["rows"] == ROWS
    assert ("page" in r["tables"][0]) == (name in ("a.pptx", "a.xlsx"))
    if name not in ("a.xlsx", "a.csv"):
        assert TITLE in r["text"]


def test_schemas(client, documents):
    def asked(schema):
        return extract(client, "a.csv", documents["a.csv"], schema)

    mismatch = asked({"properties": {"tables": {"minItems": 2}, "text": {"maxLength": 1}}})
    assert mismatch.status == 422 and mismatch.code == "schema_mismatch"
    assert "$.tables" in mismatch.json()["detail"] and "$.text" in mismatch.json()["detail"]
    for schema, word in (({"type": "nonsense"}, "nonsense"), ({"$ref": "http://127.0.0.1:9/x.json"}, "127.0.0.1"),
                         ({"properties": {"text": {"pattern": "("}}}, "regex"), ({"$schema": ["x"]}, "$schema"),
                         ({"$ref": "#"}, "recursion"), ({"$schema": "http://[::1"}, "IPv6"),
                         ({"properties": {"text": {"pattern": "a{99999999999}"}}}, "repetition")):
        answer = asked(schema)
        assert answer.status == 422 and answer.code == "bad_schema" and word in answer.json()["detail"], answer
    assert asked([]).code == "wrong_type"
    assert send(client, ("file", "a.csv", b"a"), ("schema", None, b"{")).code == "invalid_json"
    large = send(client, ("file", "a.csv", b"a"), ("schema", None, b'{"a":"' + b"x" * (1 << 20) + b'"}'))
    assert large.status == 413 and large.code == "limit_exceeded"


def test_an_artifact(client, documents):
    run = client.post("/v1/exec", {"session_id": "maker", "capture": True, "code":
                                   "import os; os.mkdir('d'); open('d/sums.csv', 'w').write('Name,Sum\\nÄpfel,12\\n')"}).json()
    kept = run["artifacts"][0]
    by_id = client.post("/v1/extract", {"artifact": kept["artifact_id"], "version": 1, "timeout": 60})
    assert by_id.status == 200 and by_id.json()["tables"][0]["rows"] == ROWS, by_id
    assert by_id.json()["document"] == {"filename": "sums.csv", "format": "csv"}
    by_ref = client.post("/v1/extract", {"artifact": kept["ref"], "session_id": "maker", "filename": "x.md",
                                         "schema": {"type": "object"}})
    assert by_ref.status == 200 and by_ref.json()["document"]["format"] == "md", by_ref
    assert client.post("/v1/extract", {"artifact": "A9", "session_id": "maker"}).code == "artifact_not_found"
    assert client.post("/v1/extract", {"artifact": kept["artifact_id"], "session_id": "maker"}).code == "bad_value"
    assert client.post("/v1/extract", {"artifact": str(uuid.uuid4())}).code == "artifact_not_found"


def test_the_commands_of_the_manual(stack, client, documents, tmp_path):
    """docs/extraction.md's, as they stand there."""
    client.post("/v1/exec", {"session_id": "s1", "capture": True, "code": "open('report.csv', 'w').write('Name,Sum\\na,12\\n')"})
    (tmp_path / "report.docx").write_bytes(documents["a.docx"])
    with open(os.path.join(SOURCE, "docs", "extraction.md")) as f:
        commands = re.findall(r"^```sh\n(curl.*?)^```$", f.read(), re.M | re.S)
    assert len(commands) == 2
    host, port = stack.address
    for command, rows in zip(commands, (ROWS, [["Name", "Sum"], ["a", "12"]])):
        done = subprocess.run(["bash", "-euc", command.replace("curl ", "curl -sS --fail-with-body ", 1)], cwd=tmp_path, timeout=120, capture_output=True,
                              text=True, env={"PATH": os.environ["PATH"], "HUSK_URL": f"http://{host}:{port}", "HUSK_KEY": client.key})
        assert done.returncode == 0, done
        assert json.loads(done.stdout)["tables"][0]["rows"] == rows


def test_what_cannot_be_read(client, documents):
    for name, data in (("empty.docx", b""), ("bad.pdf", b"%PDF-1.4 junk"), ("wrong.pptx", documents["a.pdf"])):
        answer = extract(client, name, data)
        assert answer.status == 422 and answer.code == "document_unreadable", (name, answer)
        assert len(answer.json()["detail"]) > 40
    locked = extract(client, "locked.pdf", documents["locked.pdf"])
    assert locked.code == "document_unreadable" and "it is encrypted" in locked.json()["detail"], locked
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("ppt/slides/slide1.xml", "w") as part:
        for _ in range(257):
            part.write(b" " * (1 << 20))
    bomb = extract(client, "bomb.pptx", packed.getvalue())
    assert bomb.code == "document_unreadable" and "unpacks to" in bomb.json()["detail"], bomb
    scan = extract(client, "scan.pdf", documents["scan.pdf"])
    assert scan.code == "document_unreadable" and "OCR" in scan.json()["detail"]
    mixed = extract(client, "mixed.pdf", documents["mixed.pdf"]).json()
    assert "typed text" in mixed["text"] and mixed["warnings"] == ["pages without text (scans need OCR): 2"]


def test_limits(client):
    large = extract(client, "a.csv", b"x" * (MAX_INPUT + 1))
    assert large.status == 413 and large.code == "inputs_too_large" and "SANDBOX_MAX_INPUT_BYTES" in large.json()["detail"]
    long = extract(client, "a.md", b"word " * 60000)
    assert long.status == 413 and long.code == "extraction_too_large"
    assert "SANDBOX_MAX_OUTPUT_BYTES" in long.json()["detail"]
    slow = send(client, ("file", "a.csv", b"a,b\n"), ("timeout", None, b"0.2"))
    assert slow.status == 504 and slow.code == "timeout"


def test_what_is_refused(client):
    assert extract(client, "a.exe", b"x").code == "unsupported_document"
    assert extract(client, "noend", b"x").status == 415
    for parts, code in (((("file", None, b"x"),), "missing_member"), ((("schema", None, b"{}"),), "missing_member"),
                        ((("file", "a.md", b"x"), ("file", "b.md", b"x")), "bad_value"),
                        ((("file", "a.md", b"x"), ("more", None, b"x")), "unknown_member"),
                        ((("file", "a.md", b"x"), ("timeout", None, b'"x"')), "wrong_type")):
        assert send(client, *parts).code == code, parts
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    for body in (b"", b"nothing", b"--x\r\nContent-Disposition: form-data; name=file; filename=a.md\r\n\r\ncut"):
        answer = client.request("POST", "/v1/extract", body, headers=headers)
        assert answer.status == 400 and answer.code == "bad_multipart", answer
    assert client.request("POST", "/v1/extract", b"x", headers={"Content-Type": "text/plain"}).code == "unsupported_media_type"
    assert client.post("/v1/extract", {"artifact": "x", "more": 1}).code == "unknown_member"
    assert client.post("/v1/extract", {}).code == "missing_member"


def test_nothing_is_fetched(client):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        for name, text in (("a.html", f'<p>here<img src="{url}.png"><link rel=stylesheet href="{url}.css"><script src="{url}.js">'
                            f'</script><iframe src="{url}"></iframe><img src="file:///etc/passwd">'),
                           ("a.md", f"here ![x]({url}.png) [y]({url})")):
            answer = extract(client, name, text.encode())
            assert answer.status == 200 and "here" in answer.json()["text"], answer
            assert "root:" not in answer.text
        with pytest.raises(socket.timeout):
            server.accept()


def test_an_extraction_that_is_interrupted(stack, client, documents):
    """Its session is there as long as it runs, and is gone afterwards."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(extract(client, "a.docx", documents["a.docx"])))
    thread.start()
    busy = wait_until(lambda: client.get("/v1/sessions?state=busy").json()["sessions"], 30, "the extraction's session")
    client.post(f"/v1/sessions/{busy[0]['session_id']}/interrupt", {})
    thread.join(60)
    assert answers[0].status == 502 and answers[0].code == "extraction_failed"
    assert client.get("/v1/sessions").json()["sessions"] == []
    run = client.get("/v1/executions/" + answers[0].json()["detail"].split()[-1]).json()
    assert run["reason"] == "interrupted"


def test_a_runner_without_docling(documents):
    stack = Stack()
    try:
        answer = extract(stack.start().client(), "a.csv", documents["a.csv"])
        assert answer.status == 501 and answer.code == "extraction_unavailable"
        assert "INSTALL_DOCLING=true" in answer.json()["detail"]
    finally:
        stack.stop()
