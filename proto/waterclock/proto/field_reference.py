"""docs/reference/job-fields.md, made from the table: `python -m waterclock.proto.field_reference > docs/…`."""

import types
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct, UnsetType

from waterclock.proto import answers
from waterclock.proto.fields import Row, rows
from waterclock.proto.policies import (
    CatchUp,
    CatchUpRequest,
    Limits,
    LimitsRequest,
    Retention,
    RetentionRequest,
    Retry,
    RetryRequest,
)
from waterclock.proto.spec import (
    FanOut,
    FanOutRequest,
    Http,
    HttpRequest,
    JobRequest,
    JobSpec,
    Node,
    NodeRequest,
    Schedule,
)

_HEAD = """# The fields of a job

Made from `proto/waterclock/proto/spec.py` by `python -m waterclock.proto.field_reference`.

`POST /v1/jobs`, `waterclock apply` and the client take them; an edit takes the same, where what is not said stays and
null returns a field to its default. *Shown* says where an answer has the field: in a job, in a workflow, or in neither
(another spelling, or told in other words). *Option* is that of `waterclock submit` and `waterclock update`.

"""

_NAMES: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    datetime: "time",
    type(None): "null",
    Any: "any JSON",
}
_NESTED: tuple[tuple[type[Struct], type[Struct]], ...] = (
    (HttpRequest, Http),
    (RetryRequest, Retry),
    (CatchUpRequest, CatchUp),
    (RetentionRequest, Retention),
    (LimitsRequest, Limits),
    (FanOutRequest, FanOut),
    (NodeRequest, Node),
)
"""Requests inside a request, each with what is stored of it."""


def page() -> str:
    defaults = {**_defaults(JobSpec), **_defaults(Schedule)}
    table = ["| field | type | default | shown | option | |", "|---|---|---|---|---|---|"]
    for row in rows(JobRequest):
        option = f"`{row.flag.name}`" if row.flag is not None else ""
        default = defaults.get(row.name, "")
        table.append(
            f"| `{row.name}` | {_type(row)} | {default} | {_shown(row.name)} | {option} | {row.help} |"
        )
    parts = ["\n".join(table), *(_nested(kind, stored) for kind, stored in _NESTED)]
    return _HEAD + "\n\n".join(parts) + "\n"


def _nested(kind: type[Struct], stored: type[Struct]) -> str:
    own = [
        row for row in rows(kind) if kind is not NodeRequest or row.name not in JobRequest.__struct_fields__
    ]
    also = "\nBeside these a node takes the fields of a job that say what runs and how.\n"
    head = f"## {stored.__name__}\n" + (also if kind is NodeRequest else "")
    lines = [head, "| field | type | default | |", "|---|---|---|---|"]
    defaults = _defaults(stored)
    lines += [f"| `{row.name}` | {_type(row)} | {defaults.get(row.name, '')} | {row.help} |" for row in own]
    return "\n".join(lines)


def _shown(name: str) -> str:
    kinds = (("job", answers.Job), ("workflow", answers.Workflow))
    return ", ".join(word for word, kind in kinds if name in kind.__struct_fields__)


def _defaults(kind: type[Struct]) -> dict[str, str]:
    found = {}
    for field in msgspec.structs.fields(kind):
        made = field.default_factory is not NODEFAULT
        value = field.default_factory() if made else field.default
        if value is NODEFAULT or value is None or isinstance(value, Struct) or value in ((), {}):
            continue
        found[field.name] = f"`{msgspec.json.encode(value).decode()}`"
    return found


def _type(row: Row) -> str:
    return " or ".join(dict.fromkeys(name for name in _names(row.type) if name != "null")).replace("|", "\\|")


def _names(kind: Any) -> Iterator[str]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _names(arguments[0])
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            if argument is not UnsetType:
                yield from _names(argument)
    elif origin is Literal:
        yield " | ".join(f"`{choice}`" for choice in arguments)
    elif origin in (list, tuple):
        yield f"list of {' or '.join(_names(arguments[0]))}"
    elif origin is dict:
        yield "object"
    elif isinstance(kind, type) and issubclass(kind, Struct):
        name = kind.__name__.removesuffix("Request")
        yield f"[{name}](#{name.lower()})"
    else:
        yield _NAMES[kind]


if __name__ == "__main__":
    print(page(), end="")
