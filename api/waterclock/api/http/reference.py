"""The reference page: the OpenAPI document for people, in one file without anything from elsewhere."""

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from waterclock.api.http.openapi import build

Json = dict[str, Any]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"

_TEMPLATE = Path(__file__).parent / "reference.html"


@cache
def page() -> str:
    document = build()
    operations = [
        (path, verb.upper(), operation)
        for path, verbs in document["paths"].items()
        for verb, operation in verbs.items()
    ]
    tags = list(dict.fromkeys(operation["tags"][0] for _, _, operation in operations))
    schemas = document["components"]["schemas"]
    parts = {
        "summary": escape(document["info"]["summary"]),
        "menu": "".join(_menu(tag, operations) for tag in tags),
        "types": "".join(f"<a href='#{name}'>{name}</a>" for name in schemas),
        "operations": "".join(_operation(*operation) for operation in operations),
        "schemas": "".join(_schema(name, schema) for name, schema in schemas.items()),
    }
    text = _TEMPLATE.read_text()
    for name, part in parts.items():
        text = text.replace(f"<!--{name}-->", part)
    return text


def _menu(tag: str, operations: list[tuple[str, str, Json]]) -> str:
    links = "".join(
        f"<a href='#{operation['operationId']}'>{escape(operation['summary'])}</a>"
        for _, _, operation in operations
        if operation["tags"][0] == tag
    )
    return f"<h2>{escape(tag.replace('_', ' '))}</h2>{links}"


def _operation(path: str, verb: str, operation: Json) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{parameter['in']}<td>{_kind(parameter['schema'])}"
        f"<td>{escape(parameter.get('description', ''))}"
        for parameter in operation["parameters"]
    )
    table = f"<table><tr><th>name<th>in<th>type<th>{rows}</table>" if rows else ""
    status, answer = next(iter(operation["responses"].items()))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = "".join(
        f"<pre>{escape(_curl(verb, path, example['value']))}</pre>"
        for example in body.get("examples", {}).values()
    )
    takes = f"<p>Takes {_kind(body['schema'])}</p>" if body else ""
    media, content = next(iter(answer.get("content", {"": {"schema": None}}).items()))
    kind = "nothing" if content["schema"] is None else _kind(content["schema"])
    return (
        f"<section id={operation['operationId']}><h3><span class=verb>{verb}</span> <code>{escape(path)}</code></h3>"
        f"<p>{escape(operation['summary'])} <span class=scope>needs {operation['x-scope']}</span></p>{table}{takes}"
        f"{examples}<p>Answers {status} {kind} <span class=scope>{media}</span></p></section>"
    )


def _schema(name: str, schema: Json) -> str:
    required = set(schema.get("required", ()))
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code>{'' if field in required else ' ?'}<td>{_kind(kind)}"
        f"<td>{escape(str(kind.get('description', '')))}"
        for field, kind in schema.get("properties", {}).items()
    )
    about = escape(" ".join(schema.get("description", "").split()))
    return f"<section id={name}><h3>{name}</h3><p>{about}</p><table>{rows}</table></section>"


def _kind(schema: Json) -> str:
    if "allOf" in schema:
        return " ".join(map(_kind, schema["allOf"]))
    if "oneOf" in schema:
        return " | ".join(map(_kind, schema["oneOf"]))
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"<a href='#{name}'>{name}</a>"
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_kind(part) for part in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_kind(schema.get('items', {}))}"
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    kind = schema.get("format") or schema.get("type") or "any"
    return escape(f"{kind}{' (' + ', '.join(bounds) + ')' if bounds else ''}")


_BOUNDS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "minLength": "at least",
    "maxLength": "at most",
}


def _curl(verb: str, path: str, value: Any) -> str:
    return f"curl -X {verb} $URL{path} -H \"Authorization: Bearer $TOKEN\" -d '{json.dumps(value, indent=2)}'"
