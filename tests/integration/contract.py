"""Holds every answer against docs/openapi.json: the route, the status, the media type, the schema."""
import json
import os
import re

import jsonschema

_document = None
_routes = []


def _load():
    global _document
    path = os.path.join(os.environ["HUSK_SOURCE"], "docs", "openapi.json")
    _document = json.load(open(path))
    for template, item in _document["paths"].items():
        parts = re.split(r"(\{[^}]*\})", template)
        # a parameter is one segment, but {path} of files is the whole rest
        regex = "".join(
            ("(.+)" if part == "{path}" else "([^/]+)") if part.startswith("{") else re.escape(part) for part in parts
        )
        _routes.append((re.compile(regex + r"\Z"), item, template.count("{")))
    _routes.sort(key=lambda route: route[2])


def _resolve(node):
    while "$ref" in node:
        target = _document
        for step in node["$ref"].lstrip("#/").split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def check(method, target, answer):
    """Raises AssertionError where an answer is not what the document promises."""
    if _document is None:
        _load()
    media = answer.headers.get("content-type", "").split(";")[0]
    if answer.status >= 400:
        assert method == "HEAD" or media == "application/problem+json", (method, target, answer, answer.headers)
        if method != "HEAD":
            _validate({"$ref": "#/components/schemas/Problem"}, answer)
            assert answer.json()["status"] == answer.status
    path = target.split("?")[0]
    item = next((item for regex, item, _ in _routes if regex.match(path)), None)
    if item is None:
        assert answer.status >= 400, f"{path} is answered but is not in the document"
        return
    operation = item.get(method.lower()) or (item.get("get") if method == "HEAD" else None)
    if operation is None:
        assert answer.status >= 400 or method == "OPTIONS", f"{method} {path} is answered but is not in the document"
        return
    if answer.status >= 400:
        return
    response = operation["responses"].get(str(answer.status))
    assert response is not None, f"{method} {path}: status {answer.status} is not in the document"
    content = _resolve(response).get("content", {})
    if media == "application/json":
        assert media in content, f"{method} {path} {answer.status}: JSON is not in the document"
        if method == "HEAD":
            assert answer.body == b"", f"HEAD {path} has a body"
            return
        _validate(content[media].get("schema", {}), answer)


def _validate(schema, answer):
    resolver = jsonschema.RefResolver("", _document)
    jsonschema.Draft202012Validator(schema, resolver=resolver).validate(answer.json())
