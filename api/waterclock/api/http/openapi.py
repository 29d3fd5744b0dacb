"""The OpenAPI document, made from the method table: what is served cannot differ from what is described.

Requests that work as they stand, shown in the reference.
"""

import re
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from waterclock.api.schemas import REF, reachable, schemas_of
from waterclock.proto.answers import Health, Page
from waterclock.proto.methods import METHODS, Method, Rest
from waterclock.proto.problem import MEDIA_TYPE, Problem

EXAMPLES: dict[str, dict[str, Any]] = {
    "jobs.create": {
        "once": {
            "job_type": "email_send",
            "schedule_time": "2026-12-31T23:59:59Z",
            "payload": {"user_id": 123, "body": "..."},
            "retries": 3,
        },
        "recurring": {
            "name": "Daily Data Cleanup",
            "schedule_type": "CRON",
            "cron_expression": "0 0 * * *",
            "payload": {"cleanup_target": "old_logs", "retention_days": 30},
            "max_retries": 2,
        },
        "command": {
            "job_id": "backup",
            "name": "backup",
            "schedule": "0 0 * * *",
            "command": "pg_dump prod > /backups/prod.sql",
            "dependencies": [],
            "max_retries": 3,
            "timeout_seconds": 3600,
            "priority": 5,
            "metadata": {"team": "data"},
        },
    },
    "jobs.update": {"reschedule": {"cron_expression": "30 2 * * *", "timezone": "Europe/Paris"}},
    "jobs.pause": {"with a note": {"note": "the warehouse is being moved"}},
    "schedules.preview": {
        "weekdays": {"cron_expression": "0 3 * * MON-FRI", "timezone": "Europe/Paris", "n": 5},
        "interval": {"every": "30s"},
    },
}


_WITH_BODY = ("POST", "PUT", "PATCH")
_HEADERS = {
    "idempotency_key": ("Idempotency-Key", "A repeat with the same key has the same result."),
    "if_match": ("If-Match", "Only if this is still the version (the ETag)."),
}
REFUSALS = {
    "400": "Malformed: not JSON, or not an object",
    "401": "No token, or one that nobody knows",
    "403": "The token does not reach that far",
    "404": "There is no such thing",
    "409": "In conflict with what is there",
    "412": "Changed since it was read",
    "413": "Too large",
    "415": "An encoding that is not understood; gzip is",
    "416": "The log has no such bytes",
    "422": "Understood and wrong; `errors` names the fields",
    "429": "Too many requests; see `Retry-After`",
    "503": "The log or the read models cannot be reached; see `Retry-After`",
}

Json = dict[str, Any]


@cache
def document() -> bytes:
    return msgspec.json.encode(build())


def build() -> Json:
    described = [method for method in METHODS if method.rest is not None]
    kinds = [kind for method in described for kind in (method.request, method.answer)]
    by_kind, components = schemas_of([*kinds, Problem, Health])
    paths: dict[str, Json] = {}
    for method in described:
        assert method.rest is not None
        for verb in (method.rest.verb, *method.rest.also):
            operation = _operation(method, method.rest, verb, by_kind, components)
            paths.setdefault(method.rest.path, {})[verb.lower()] = operation
    paths |= {path: {"get": operation} for path, operation in _pages(by_kind[repr(Health)]).items()}
    responses = {status: _refused(status, why) for status, why in REFUSALS.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "waterclock",
            "version": version("waterclock"),
            "summary": "Runs every job on time, once, and can explain every run and every run that did not happen.",
            "description": "The same paths without `/v1` are aliases. Times are RFC 3339 in UTC. Every GET has a HEAD, "
            "and every JSON answer to one an `ETag` for `If-None-Match`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(map(_tag, described))] + [{"name": "pages"}],
        "paths": paths,
        "components": {
            "schemas": reachable([paths, responses], components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": responses,
        },
    }


def _tag(method: Method[Any, Any]) -> str:
    return method.name.partition(".")[0]


def _pages(health: Json) -> dict[str, Json]:
    """What is served beside the methods."""
    well = {"description": "It is well", "content": {"application/json": {"schema": health}}}
    away: Json = {
        "description": "It cannot work now; `detail` says why",
        "content": {"application/json": {"schema": health}},
        "headers": {"Retry-After": _RETRY_AFTER},
    }
    document = {"application/json": {"schema": {"type": "object", "additionalProperties": True}}}
    text = {"text/plain": {"schema": {"type": "string"}}}
    pages: dict[str, tuple[str, str, Json]] = {
        "/healthz": ("healthz", "Whether this process lives", {"200": well}),
        "/readyz": ("readyz", "Whether work can be accepted", {"200": well, "503": away}),
        "/metrics": ("metrics", "What Prometheus reads", _found("The metrics", text)),
        "/openapi.json": ("openapi", "This document", _found("The document", document)),
        "/asyncapi.json": ("asyncapi", "The same over NATS", _found("The document", document)),
    }
    return {
        path: {
            "operationId": name,
            "summary": summary,
            "tags": ["pages"],
            "x-scope": "open",
            "security": [],
            "parameters": [],
            "responses": responses,
        }
        for path, (name, summary, responses) in pages.items()
    }


def _found(description: str, content: Json) -> Json:
    return {"200": {"description": description, "content": content}}


def _operation(
    method: Method[Any, Any], rest: Rest, verb: str, by_kind: dict[str, Json], components: dict[str, Json]
) -> Json:
    in_path = re.findall(r"{(\w+)}", rest.path)
    shape = _object(by_kind[repr(method.request)], components)
    operation: Json = {
        "operationId": method.name.replace(".", "_") + ("" if verb == rest.verb else f"_{verb.lower()}"),
        "summary": method.summary,
        "tags": [_tag(method)],
        "x-scope": method.scope,
        "parameters": [_parameter(name, "path", shape, required=True) for name in in_path],
        "responses": _responses(method, rest, verb, by_kind, components),
    }
    names = {name for name in shape["properties"] if name not in in_path}
    for field, (header, help) in _HEADERS.items():
        if field in names:
            operation["parameters"].append(
                {
                    "name": header,
                    "in": "header",
                    "description": help,
                    "schema": {"type": "string", "maxLength": 256},
                }
            )
    if verb in _WITH_BODY:
        if names or rest.body != "json":
            operation["requestBody"] = _body(method, rest, by_kind, shape, in_path)
    else:
        kept = [name for name in shape["properties"] if name in names and name not in _HEADERS]
        operation["parameters"] += [_parameter(name, "query", shape) for name in kept]
    return operation


def _body(
    method: Method[Any, Any], rest: Rest, by_kind: dict[str, Json], shape: Json, in_path: list[str]
) -> Json:
    if rest.body == "bytes":
        return {"required": True, "content": {"application/octet-stream": {"schema": _BYTES}}}
    if rest.body == "lines":
        lines = {"schema": {"type": "array", "items": {"$ref": REF.format(name="JobRequest")}}}
        return {
            "required": True,
            "description": "An array, or one definition a line (`application/x-ndjson`).",
            "content": {"application/json": lines},
        }
    schema = by_kind[repr(method.request)]
    if in_path:
        kept = {name: value for name, value in shape["properties"].items() if name not in in_path}
        required = [name for name in shape.get("required", ()) if name not in in_path]
        schema = {"type": "object", "properties": kept, "required": required, "additionalProperties": False}
    content: Json = {"schema": schema}
    if method.name in EXAMPLES:
        content["examples"] = {name: {"value": value} for name, value in EXAMPLES[method.name].items()}
    return {"required": bool(schema.get("required")), "content": {"application/json": content}}


def _responses(
    method: Method[Any, Any], rest: Rest, verb: str, by_kind: dict[str, Json], components: dict[str, Json]
) -> Json:
    schema = by_kind[repr(method.answer)]
    media = "application/json"
    headers: Json = {}
    versioned = "version" in _object(schema, components).get("properties", ())
    match rest.answer:
        case "text":
            schema, media = {"type": "string"}, "text/plain"
        case "events":
            schema, media = {"type": "string"}, "text/event-stream"
        case "lines":
            schema, media = {"type": "string"}, "application/x-ndjson"
        case "bytes":
            schema, media = _BYTES, "application/octet-stream"
        case "declarations":
            schema, media = {"type": "array", "items": _DECLARATION}, "application/yaml"
        case "array":
            item = _item(method)
            schema = {
                "type": "array",
                "items": by_kind.get(repr(item), {"$ref": REF.format(name=item.__name__)}),
            }
            headers = {"Link": _header('The next page, as rel="next"')}
    if rest.location:
        headers["Location"] = _header("Where it is found")
    tagged = verb == "GET" and rest.answer in ("json", "array", "bytes")
    if versioned or tagged:
        headers["ETag"] = _header("The version for `If-Match`" if versioned else "For `If-None-Match`")
    content = {media: {"schema": schema}}
    if rest.answer == "lines":  # for who asks for it, and for generators that know no lines
        content["text/plain"] = {"schema": schema}
    if rest.answer == "declarations":
        content["application/json"] = {"schema": schema}
    answered: Json = {"description": method.summary, "content": content, "headers": headers}
    if verb == "HEAD" or rest.status == 204:
        del answered["content"]
    responses: Json = {str(rest.status): answered}
    if rest.status == 201:
        responses["200"] = {**answered, "description": "The same request was accepted before"}
    if rest.answer == "text":
        part = {"Content-Range": _header("Which bytes, and of how many")}
        responses["206"] = {**answered, "description": "The bytes of `Range`", "headers": part}
    if tagged:
        responses["304"] = {"description": "What `If-None-Match` names is what there is"}
    refusals = [status for status in REFUSALS if _may_refuse(status, rest, verb)]
    return responses | {status: {"$ref": f"#/components/responses/{status}"} for status in refusals}


def _may_refuse(status: str, rest: Rest, verb: str) -> bool:
    match status:
        case "415":
            return verb in _WITH_BODY
        case "416":
            return rest.answer == "text"
        case _:
            return True


def _header(description: str, kind: str = "string") -> Json:
    return {"description": description, "schema": {"type": kind}}


_DECLARATION: Json = {"type": "object", "additionalProperties": True}
_BYTES: Json = {"type": "string", "format": "binary"}
_RETRY_AFTER = _header("Seconds after which to try again", "integer")


def _item(method: Method[Any, Any]) -> type[Struct]:
    assert getattr(method.answer, "__origin__", None) is Page
    item: type[Struct] = method.answer.__args__[0]
    return item


def _refused(status: str, why: str) -> Json:
    refused: Json = {
        "description": why,
        "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}},
    }
    return {**refused, "headers": {"Retry-After": _RETRY_AFTER}} if status in ("429", "503") else refused


def _object(schema: Json, components: dict[str, Json]) -> Json:
    """A struct's own schema, behind its reference."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return components[name] if name else schema


def _parameter(name: str, place: str, shape: Json, *, required: bool = False) -> Json:
    schema = _without_null(shape["properties"].get(name, {"type": "string"}))
    parameter: Json = {"name": name, "in": place, "required": required, "schema": schema}
    if description := schema.pop("description", None):
        parameter["description"] = description
    return parameter


def _without_null(schema: Json) -> Json:
    """A path or a query cannot say null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    beside = {key: value for key, value in schema.items() if key != "anyOf"}
    if not kinds:
        return dict(schema)
    return {**kinds[0], **beside} if len(kinds) == 1 else {**schema, "anyOf": kinds}
