"""From what a user asks for to the definition that goes into the log."""

import re
from typing import Any

import msgspec

from waterclock.core.domain.job.edit import differences, fields_of, overlay
from waterclock.core.domain.job.effects import check_effects
from waterclock.core.domain.job.naming import check_line
from waterclock.core.domain.job.nodes import fan_out_of, workflow_of
from waterclock.core.domain.job.request_fields import (
    catch_up_of,
    concurrency_limit_of,
    given_fields,
    max_retries_of,
    plain_fields,
    rate_of,
    timeout_of,
    value_of,
    value_or,
)
from waterclock.core.domain.job.request_reader import Body, read_leniently, read_preview, read_request
from waterclock.core.domain.job.schedule import check_future, says_only_now, schedule_of
from waterclock.core.domain.job.task import name_by_task, task_of
from waterclock.core.domain.job.validate import (
    DEFAULT_LIMITS,
    NO_DEFAULTS,
    Defaults,
    DefinitionLimits,
    InvalidDefinition,
    Problems,
)
from waterclock.proto.names import is_user_id
from waterclock.proto.policies import JOB_PATTERN
from waterclock.proto.problem import FieldError
from waterclock.proto.spec import RUNS, JobRequest, JobSpec, PreviewRequest, Schedule, Workflow

__all__ = [
    "DefinitionLimits",
    "FieldError",
    "InvalidDefinition",
    "amend",
    "define",
    "define_body",
    "define_schedule",
    "differences",
    "read_preview",
    "read_request",
    "schedule_like",
]

_JOB = re.compile(JOB_PATTERN)
_IDS = ("job_id", "workflow_id", "namespace", "queue")
_NAMING = ("name", "job_id", "workflow_id", *RUNS)
"""What may give a job its name; one that is wrong is complaint enough."""
_LONGEST_NAME = 256
_LINES = ("idempotency_key", "concurrency_key", "rate_key")


def define(
    request: JobRequest,
    now: int,
    limits: DefinitionLimits = DEFAULT_LIMITS,
    defaults: Defaults = NO_DEFAULTS,
) -> JobSpec:
    """The definition a request describes; raises InvalidDefinition with all that is wrong with it.

    The bounds in the request's types are checked again, as a request made in Python was never decoded. The answer
    depends on `now` only where the request does (`delay`): to compare a repeated request with what was accepted
    the first time, define it again as of that time.
    """
    return define_body(_written(request), now, limits, defaults)


def define_body(
    body: Body, now: int, limits: DefinitionLimits = DEFAULT_LIMITS, defaults: Defaults = NO_DEFAULTS
) -> JobSpec:
    """Reading and defining in one: problems of both kinds are reported together."""
    problems = Problems()
    request = read_leniently(body, problems, limits)
    spec = _build(request, now, limits, defaults, problems)
    check_future(spec.schedule, spec.name, now, problems)
    check_effects(spec, given_fields(request), problems)
    problems.refuse()
    return spec


def amend(
    spec: JobSpec,
    patch: JobRequest,
    now: int,
    limits: DefinitionLimits = DEFAULT_LIMITS,
    defaults: Defaults = NO_DEFAULTS,
) -> JobSpec:
    """The definition after an edit: each field that is said replaces that field, null puts its default back.

    Saying when or what runs replaces all that was said of it before. `job_id` and `idempotency_key` are the
    caller's to compare: they name the job and the request, and are no part of an edit.
    """
    problems = Problems()
    said = given_fields(patch)
    fields = overlay(fields_of(spec), said)
    edited = _build(read_leniently(fields, problems, limits), now, limits, defaults, problems)
    edited = msgspec.structs.replace(edited, **_unsaid(spec, said))
    if edited.schedule != spec.schedule:
        check_future(edited.schedule, edited.name, now, problems)
    check_effects(edited, said, problems)
    if edited.namespace != spec.namespace:
        problems.add("namespace", "cannot be changed")
    problems.refuse()
    return msgspec.structs.replace(edited, idempotency_key=spec.idempotency_key)


def _unsaid(spec: JobSpec, said: dict[str, Any]) -> dict[str, Any]:
    """What has a default for new definitions, and is not said by an edit: it stays as it is stored."""
    kept: dict[str, Any] = {}
    if said.keys().isdisjoint(("max_retries", "retries")):
        kept["max_retries"] = spec.max_retries
    if said.keys().isdisjoint(("timeout_seconds", "timeout")):
        kept["timeout_seconds"] = spec.timeout_seconds
    if isinstance(spec.task, Workflow) and said.keys().isdisjoint(("nodes", *RUNS)):
        kept["task"] = spec.task
    return kept


def define_schedule(request: PreviewRequest, now: int) -> Schedule:
    """Just the schedule, for a preview."""
    problems = Problems()
    schedule = schedule_of(request, value_of(request.name) or "", now, "IMMEDIATE", problems)
    problems.refuse()
    return schedule


def schedule_like(spec: JobSpec, request: JobRequest | PreviewRequest, now: int) -> Schedule | None:
    """The schedule of a request that is otherwise like a definition whose request did not say when. None if something
    is wrong with it: then the whole of it is to be looked at, for all that is."""
    if spec.schedule.schedule_type == "IMMEDIATE" and says_only_now(request):
        return spec.schedule
    problems = Problems()
    schedule = schedule_of(request, spec.name, now, spec.schedule.schedule_type, problems)
    check_future(schedule, spec.name, now, problems)
    without_clock = schedule.schedule_type in ("IMMEDIATE", "DEPENDENT")
    return None if problems or (without_clock and schedule != spec.schedule) else schedule


def _written(request: JobRequest) -> Body:
    try:
        return msgspec.json.encode(request)
    except (TypeError, ValueError, RecursionError):
        return given_fields(request)


def _build(
    request: JobRequest, now: int, limits: DefinitionLimits, defaults: Defaults, problems: Problems
) -> JobSpec:
    name = _name_of(request, problems)
    is_workflow = value_of(request.nodes) is not None
    dependencies = tuple(dict.fromkeys(value_or(request.dependencies, [])))
    _check_names(request, dependencies, problems)
    _check_weight("payload", value_of(request.payload), limits, problems)
    _check_weight("metadata", value_of(request.metadata), limits, problems)
    expansion = value_of(request.fan_out)
    of_job = NO_DEFAULTS if is_workflow else defaults
    return JobSpec(
        name=name,
        task=workflow_of(request, defaults, problems) if is_workflow else task_of(request, name, problems),
        schedule=schedule_of(
            request, name, now, "DEPENDENT" if is_workflow or dependencies else "IMMEDIATE", problems
        ),
        dependencies=dependencies,
        concurrency_limit=concurrency_limit_of(request, problems),
        rate_per_second=rate_of(request, problems),
        catch_up=catch_up_of(request),
        max_retries=max_retries_of(request, of_job, problems),
        timeout_seconds=timeout_of(request, of_job, problems),
        fan_out=None if expansion is None else fan_out_of(expansion, None, problems.under("fan_out")),
        **plain_fields(request),
    )


def _name_of(request: JobRequest, problems: Problems) -> str:
    """What it is called; without a name its handler, its id, or what it runs."""
    name = value_of(request.name)
    if name is None:
        name = _substitute_name(request)
        if name is None and not any(problems.has(field) for field in _NAMING):
            problems.add("name", "is required, as nothing else says what the job is")
        return (name or "")[:_LONGEST_NAME]
    if not name.strip():
        problems.add("name", "must not be blank")
    check_line("name", name, problems)
    return name


def _substitute_name(request: JobRequest) -> str | None:
    for given in (request.job_type, request.handler, request.job_id, request.workflow_id):
        if isinstance(given, str):
            return given
    return name_by_task(request)


def _check_names(request: JobRequest, dependencies: tuple[str, ...], problems: Problems) -> None:
    """What may end up in a subject, a key or a header."""
    for field in _IDS:
        text = value_of(getattr(request, field))
        if text is not None and not is_user_id(text):
            problems.add(
                field, "must be letters, digits, _ or -, beginning with a letter or digit, and at most 64"
            )
    for field in _LINES:
        check_line(field, value_of(getattr(request, field)), problems)
    for key, value in value_or(request.labels, {}).items():
        if not is_user_id(key):
            problems.add("labels", f"{key!r}: a key must be letters, digits, _ or -, and at most 64")
        check_line(f"labels.{key}", value, problems)
    job_id, workflow_id = value_of(request.job_id), value_of(request.workflow_id)
    if job_id is not None and workflow_id is not None and job_id != workflow_id:
        problems.add("workflow_id", "says something else than job_id")
    own_id = job_id or workflow_id
    for dependency in dependencies:
        if not _JOB.fullmatch(dependency):
            problems.add("dependencies", f"{dependency!r} is not the id of a job")
        elif dependency == own_id:
            problems.add("dependencies", f"the job waits for itself: {own_id} -> {own_id}")


def _check_weight(field: str, value: Any, limits: DefinitionLimits, problems: Problems) -> None:
    if value is None:
        return
    size = len(msgspec.json.encode(value))
    if size > limits.payload_bytes:
        problems.add(field, f"has {size} bytes; at most {limits.payload_bytes} are taken")
        problems.kind = "too_large"
