"""A field that would have no effect where it stands is refused: whoever wrote it expects something of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from waterclock.core.domain.job.validate import Problems
from waterclock.proto.spec import JobFields, JobSpec, Schedule, Workflow

_OF_ATTEMPTS = (
    "max_retries",
    "retry",
    "tier",
    "slots",
    "concurrency_key",
    "rate_key",
)
"""A workflow has no attempts of its own: its nodes have."""
_OF_RECURRENCE = ("start_at", "end_at", "max_fires", "exclude")
_SPELLINGS = {"max_retries": "retries"}
_DEFAULTS = {
    **{field: getattr(JobFields(), field) for field in JobFields.__struct_fields__},
    **{field: getattr(Schedule(), field) for field in Schedule.__struct_fields__},
}


def check_effects(spec: JobSpec, said: Mapping[str, Any], problems: Problems) -> None:
    """`said`: what the request or the edit says. What is stored already, or says the default, is let be."""
    for field, reason in _without_effect(spec):
        value = getattr(spec.schedule if hasattr(spec.schedule, field) else spec, field)
        for name in (field, _SPELLINGS.get(field)):
            if name is not None and said.get(name) is not None and value != _DEFAULTS[field]:
                problems.add(name, f"has no effect {reason}")


def _without_effect(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """The fields, and where they have none."""
    if isinstance(spec.task, Workflow):
        yield from ((field, "on a workflow: say it of its nodes") for field in _OF_ATTEMPTS)
    if spec.schedule.schedule_type in ("IMMEDIATE", "DEPENDENT"):
        yield from ((field, "without a schedule") for field in _OF_RECURRENCE)
    if not spec.dependencies:
        yield "dependency_rule", "without dependencies"
