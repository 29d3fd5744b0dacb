"""Definitions as answers show them, and in what two of them differ."""

from typing import Any

import msgspec

from waterclock.proto.problem import Difference
from waterclock.proto.spec import JobSpec


def describe(spec: JobSpec) -> dict[str, Any]:
    """The flat fields of a job, by the contract's names, every one of them present."""
    crons = spec.schedule.cron_expression
    return {
        **{name: value for name, value in _every_field(spec).items() if name != "schedule"},
        **_every_field(spec.schedule),
        "cron_expression": None if not crons else crons[0] if len(crons) == 1 else list(crons),
        "task": _as_json(msgspec.to_builtins(spec.task)),
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
    return _as_json(value)


def _as_json(value: Any) -> Any:
    """Tuples as lists, as a reader of the answer will have them."""
    match value:
        case dict():
            return {key: _as_json(part) for key, part in value.items()}
        case list() | tuple():
            return [_as_json(part) for part in value]
        case _:
            return value
