"""The OpenAPI document, made from the method table: what is served cannot differ from what is described.

Requests that work as they stand, shown in the reference.
"""

import re
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from waterclock.api.schemas import REF, schemas_of
from waterclock.proto.answers import Page
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
    by_kind, components = schemas_of([*kinds, Problem])
    paths: dict[str, Json] = {}
    for method in described:
        assert method.rest is not None
        for verb in (method.rest.verb, *method.rest.also):
            operation = _operation(method, method.rest, verb, by_kind, components)
            paths.setdefault(method.rest.path, {})[verb.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "waterclock",
            "version": version("waterclock"),
            "summary": "Runs every job on time, once, and can explain every run and every run that did not happen.",
            "description": "The same paths without `/v1` are aliases. Times are RFC 3339 in UTC.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {status: _refused(why) for status, why in REFUSALS.items()},
        },
    }


def _operation(
    method: Method[Any, Any], rest: Rest, verb: str, by_kind: dict[str, Json], components: dict[str, Json]
) -> Json:
    in_path = re.findall(r"{(\w+)}", rest.path)
    shape = _object(by_kind[repr(method.request)], components)
    operation: Json = {
        "operationId": method.name.replace(".", "_") + ("" if verb == rest.verb else f"_{verb.lower()}"),
        "summary": method.summary,
        "tags": [method.name.partition(".")[0]],
        "x-scope": method.scope,
        "parameters": [_parameter(name, "path", shape, required=True) for name in in_path],
        "responses": _responses(method, rest, by_kind),
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
        operation["requestBody"] = _body(method, rest, by_kind, shape, in_path)
    else:
        kept = [name for name in shape["properties"] if name in names and name not in _HEADERS]
        operation["parameters"] += [_parameter(name, "query", shape) for name in kept]
    return operation


def _body(
    method: Method[Any, Any], rest: Rest, by_kind: dict[str, Json], shape: Json, in_path: list[str]
) -> Json:
    if rest.body == "bytes":
        return {"required": True, "content": {"application/octet-stream": {"schema": {}}}}
    if rest.body == "lines":
        lines = {"schema": {"type": "array", "items": {"$ref": REF.format(name="JobRequest")}}}
        return {
            "required": True,
            "content": {"application/json": lines, "application/x-ndjson": {"schema": {}}},
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


def _responses(method: Method[Any, Any], rest: Rest, by_kind: dict[str, Json]) -> Json:
    schema = by_kind[repr(method.answer)]
    media = "application/json"
    headers: Json = {}
    match rest.answer:
        case "text":
            schema, media = {"type": "string"}, "text/plain"
        case "events":
            schema, media = {"type": "string"}, "text/event-stream"
        case "lines":
            schema, media = {"type": "string"}, "application/x-ndjson"
        case "array":
            item = _item(method)
            schema = {
                "type": "array",
                "items": by_kind.get(repr(item), {"$ref": REF.format(name=item.__name__)}),
            }
            headers = {"Link": {"description": 'The next page, as rel="next"', "schema": {"type": "string"}}}
    if rest.location:
        headers["Location"] = {"description": "Where it is found", "schema": {"type": "string"}}
    answered = {"description": method.summary, "content": {media: {"schema": schema}}, "headers": headers}
    if rest.status == 204:
        del answered["content"]
    responses: Json = {str(rest.status): answered}
    if rest.status == 201:
        responses["200"] = {**answered, "description": "The same request was accepted before"}
    return responses | {status: {"$ref": f"#/components/responses/{status}"} for status in REFUSALS}


def _item(method: Method[Any, Any]) -> type[Struct]:
    assert getattr(method.answer, "__origin__", None) is Page
    item: type[Struct] = method.answer.__args__[0]
    return item


def _refused(why: str) -> Json:
    return {"description": why, "content": {MEDIA_TYPE: {"schema": {"$ref": REF.format(name="Problem")}}}}


def _object(schema: Json, components: dict[str, Json]) -> Json:
    """A struct's own schema, behind its reference."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return components[name] if name else schema


def _parameter(name: str, place: str, shape: Json, *, required: bool = False) -> Json:
    schema = dict(shape["properties"].get(name, {"type": "string"}))
    parameter: Json = {"name": name, "in": place, "required": required, "schema": schema}
    if description := schema.pop("description", None):
        parameter["description"] = description
    return parameter
