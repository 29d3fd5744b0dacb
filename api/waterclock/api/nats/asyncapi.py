"""Machine-readable documents made from the code: AsyncAPI and JSON Schemas. (OpenAPI is served, at `/openapi.json`.)

`python -m waterclock.api.nats.asyncapi` writes them to `docs/`; a test fails when they are stale.
"""

import json
import re
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from waterclock.api.schemas import reachable, schemas_of
from waterclock.proto import names
from waterclock.proto.events import Frame, JobFrame
from waterclock.proto.methods import METHODS
from waterclock.proto.problem import MEDIA_TYPE, Problem
from waterclock.proto.spec import JobRequest
from waterclock.proto.work import WorkItem

Json = dict[str, Any]

_SCHEMAS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "job": (JobRequest, "A job or a workflow, as `waterclock apply -f` takes it"),
    "job-events": (JobFrame, "A message of the stream JOBS"),
    "run-events": (Frame, "A message of the stream RUNS"),
    "work": (WorkItem, "A message of the stream WORK"),
}
STREAMS = {
    "jobs": ("wc.jobs.{partition}.{job_id}", "job-events"),
    "runs": (names.runs_subject("{partition}"), "run-events"),
    "work": ("wc.work.{route}.{tier}.{line}.{run_id}.{queued}", "work"),
}


def build() -> dict[str, str]:
    """Every document by its path under `docs/`."""
    found: dict[str, Json] = {"asyncapi.json": asyncapi()}
    for name, (kind, title) in _SCHEMAS.items():
        schema = msgspec.json.schema(kind)
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
        found[f"schemas/{name}.schema.json"] = {**head, **schema}
    return {
        path: json.dumps(_plain(value), indent=2, ensure_ascii=False) + "\n" for path, value in found.items()
    }


@cache
def document() -> bytes:
    """As it is served, at `/asyncapi.json`."""
    return build()["asyncapi.json"].encode()


def asyncapi() -> Json:
    """What is spoken over NATS: the subjects of the streams, and a request and an answer for every method."""
    kinds = [kind for method in METHODS for kind in (method.request, method.answer)]
    stored = [kind for kind, _ in _SCHEMAS.values()]
    by_kind, components = schemas_of([*kinds, *stored, Problem])
    channels: Json = {
        name: {
            "address": address,
            "title": _SCHEMAS[schema][1],
            "parameters": {part: {"description": _PARTS[part]} for part in re.findall(r"{(\w+)}", address)},
            "messages": {"frame": {"payload": by_kind[repr(_SCHEMAS[schema][0])]}},
        }
        for name, (address, schema) in STREAMS.items()
    }
    operations: Json = {}
    for method in METHODS:
        key = method.name.replace(".", "_")
        reply = f"{key}_reply"
        channels[key] = {
            "address": method.subject,
            "messages": {"request": {"payload": by_kind[repr(method.request)]}},
        }
        channels[reply] = {
            "address": None,
            "messages": {
                "answer": {"payload": by_kind[repr(method.answer)]},
                "problem": {"$ref": "#/components/messages/problem"},
            },
        }
        operations[key] = {
            "action": "receive",
            "summary": method.summary,
            "description": _STREAMING if method.streaming else f"Needs the scope {method.scope}.",
            "channel": {"$ref": f"#/channels/{key}"},
            "messages": [{"$ref": f"#/channels/{key}/messages/request"}],
            "reply": {
                "address": {
                    "location": "$message.header#/reply",
                    "description": "The request's reply subject.",
                },
                "channel": {"$ref": f"#/channels/{reply}"},
                "messages": [{"$ref": f"#/channels/{reply}/messages/{one}"} for one in ("answer", "problem")],
            },
        }
    document: Json = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "waterclock over NATS",
            "version": version("waterclock"),
            "description": "Every method as a request with a reply, and the streams behind them. "
            "The service is a NATS micro service called `waterclock`: `$SRV.INFO.waterclock` finds it.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "nats": {
                "host": "{host}",
                "protocol": "nats",
                "description": "`connection.json` of `waterclock up` has its address and the credential.",
                "variables": {
                    "host": {"default": "127.0.0.1:4222", "description": "Where nats-server listens."}
                },
                "security": [{"$ref": "#/components/securitySchemes/token"}],
            }
        },
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": {"problem": _problem(by_kind[repr(Problem)])},
            "securitySchemes": {
                "token": {"type": "userPassword", "description": "As `connection.json` has it in the URL."}
            },
        },
    }
    document["components"]["schemas"] = reachable(document, components)
    plain: Json = _without_mappings(document)
    return plain


_STREAMING = "Answers come one after another until an empty one."
_PARTS = {
    "partition": "The partition's number.",
    "job_id": "The job's id.",
    "run_id": "The run's id.",
    "route": "The queue, or the handler in it.",
    "tier": "light, medium or heavy.",
    "line": "The line of its priority: `0`, or `p` and the priority.",
    "queued": "When it was queued, so that each attempt has a subject of its own.",
}


def _problem(schema: Json) -> Json:
    """Every request may be refused; the headers are those of a NATS micro service."""
    return {
        "summary": "Why a request was refused",
        "contentType": MEDIA_TYPE,
        "headers": {
            "type": "object",
            "properties": {
                "Nats-Service-Error-Code": {"type": "string", "description": "The status, as over HTTP."},
                "Nats-Service-Error": {"type": "string", "description": "What happened, in words."},
            },
            "required": ["Nats-Service-Error", "Nats-Service-Error-Code"],
        },
        "payload": schema,
    }


def _without_mappings(value: Any) -> Any:
    """AsyncAPI names the property that tells kinds apart, and nothing more."""
    if isinstance(value, dict):
        found = {key: _without_mappings(part) for key, part in value.items()}
        if isinstance(found.get("discriminator"), dict) and "propertyName" in found["discriminator"]:
            found["discriminator"] = found["discriminator"]["propertyName"]
        return found
    return [_without_mappings(part) for part in value] if isinstance(value, list | tuple) else value


def write(directory: Path) -> None:
    for path, text in build().items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
