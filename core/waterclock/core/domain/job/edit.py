"""Definitions as the flat fields of a request again: to say in what two differ, and to apply an edit.

An edit is laid over the fields of the stored definition and then checked exactly as a new definition is.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from waterclock.core.domain.job.schedule import WHEN
from waterclock.core.domain.job.task import request_of
from waterclock.core.domain.schedule.cron_expression import unwrap
from waterclock.proto.problem import Difference
from waterclock.proto.spec import ALONGSIDE, RUNS, JobSpec


def describe(spec: JobSpec) -> dict[str, Any]:
    """The flat fields of a job, by the contract's names, every one of them present."""
    crons = spec.schedule.cron_expression
    return {
        **{name: value for name, value in _every_field(spec).items() if name != "schedule"},
        **_every_field(spec.schedule),
        "cron_expression": None if not crons else crons[0] if len(crons) == 1 else list(crons),
        "task": as_json(msgspec.to_builtins(spec.task)),
    }


def differences(stored: JobSpec, given: JobSpec) -> list[Difference]:
    """The fields in which a definition differs from the one that is stored."""
    if stored == given:
        return []
    old, new = describe(stored), describe(given)
    return [
        Difference(field=field, stored=old[field], given=new[field])
        for field in old
        if old[field] != new[field]
    ]


def _every_field(value: Any) -> Any:
    """A struct as a dict with its defaults spelled out."""
    if isinstance(value, msgspec.Struct):
        return {name: _every_field(getattr(value, name)) for name in value.__struct_fields__}
    return as_json(value)


def as_json(value: Any) -> Any:
    """Tuples as lists, as a reader of the answer will have them."""
    match value:
        case dict():
            return {key: as_json(part) for key, part in value.items()}
        case list() | tuple():
            return [as_json(part) for part in value]
        case _:
            return value


_WHEN = (*WHEN, "schedule_type")
_WHAT = (*RUNS, "nodes")
_SYNONYMS = (("max_retries", "retries"), ("timeout_seconds", "timeout"))


def fields_of(spec: JobSpec) -> dict[str, Any]:
    """The fields of a request that describes this definition in full."""
    fields: dict[str, Any] = msgspec.to_builtins(spec)
    task, schedule = fields.pop("task"), fields.pop("schedule", {})
    if schedule.pop("schedule_type", "IMMEDIATE") == "IMMEDIATE":
        schedule["schedule"] = "now"
    return {**fields, **schedule, **request_of(task)}


def overlay(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The base with what the changes say. To say when, or what runs, replaces what was said of that before."""
    cleared: set[str] = set()
    if any(changes.get(field) is not None for field in _WHEN):
        cleared.update(_WHEN)
    if "timezone" not in changes and _says_zone(changes):
        cleared.add("timezone")
    if runs := {field for field in _WHAT if changes.get(field) is not None}:
        cleared.update(_WHAT, (field for field, owners in ALONGSIDE.items() if runs.isdisjoint(owners)))
    for names in _SYNONYMS:
        if any(name in changes for name in names):
            cleared.update(names)
    return {**{field: value for field, value in base.items() if field not in cleared}, **changes}


def _says_zone(changes: Mapping[str, Any]) -> bool:
    """Whether a cron brings its own zone, as `CRON_TZ=`."""
    said = [changes.get(field) for field in ("schedule", "cron", "cron_expression")]
    texts = [text for value in said for text in (value if isinstance(value, list) else [value])]
    return any(isinstance(text, str) and unwrap(text).zone is not None for text in texts)
