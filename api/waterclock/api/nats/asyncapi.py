"""Machine-readable documents made from the code: AsyncAPI and JSON Schemas. (OpenAPI is served, at `/openapi.json`.)

`python -m waterclock.api.nats.asyncapi` writes them to `docs/`; a test fails when they are stale.
"""

import json
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from waterclock.api.schemas import schemas_of
from waterclock.proto import names
from waterclock.proto.events import Frame, JobFrame
from waterclock.proto.methods import METHODS
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
    "work": ("wc.work.{route}.{tier}.{band}.{run_id}.{queued}", "work"),
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
    by_kind, components = schemas_of(kind for method in METHODS for kind in (method.request, method.answer))
    channels: Json = {
        name: {
            "address": address,
            "messages": {"frame": {"payload": {"$ref": f"schemas/{schema}.schema.json"}}},
        }
        for name, (address, schema) in STREAMS.items()
    }
    operations: Json = {}
    for method in METHODS:
        key = method.name.replace(".", "_")
        channels[key] = {
            "address": method.subject,
            "messages": {"request": {"payload": by_kind[repr(method.request)]}},
        }
        channels[f"{key}_reply"] = {
            "address": None,
            "messages": {"answer": {"payload": by_kind[repr(method.answer)]}},
        }
        operations[key] = {
            "action": "receive",
            "summary": method.summary,
            "channel": {"$ref": f"#/channels/{key}"},
            "reply": {"channel": {"$ref": f"#/channels/{key}_reply"}},
        }
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "waterclock over NATS", "version": version("waterclock")},
        "channels": channels,
        "operations": operations,
        "components": {"schemas": components},
    }


def write(directory: Path) -> None:
    for path, text in build().items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _plain(value: Any) -> Any:
    return json.loads(msgspec.json.encode(value))


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
