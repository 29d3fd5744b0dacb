"""Definitions as users send them, made into the `JobSpec` that the log stores."""

from collections.abc import Callable

import msgspec
from msgspec import Struct, structs

from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import DEFAULT, scoped, unscoped
from waterclock.api.errors import Forbidden, TooLarge
from waterclock.api.request_bodies import refused_definition
from waterclock.core.domain.job import parse
from waterclock.core.domain.job.schedule import check_future
from waterclock.core.domain.job.validate import Defaults, DefinitionLimits, InvalidDefinition, Problems
from waterclock.core.runtime.settings import Settings
from waterclock.proto.codec import encode
from waterclock.proto.commands import JobPatch
from waterclock.proto.spec import JobRequest, JobSpec

_MAX_BYTES = 4 << 20
"""Bytes of a whole definition: it is one message in the log, and part of every message of the work queue."""

_MAX_BODY_BYTES = 32 << 20
"""Bodies are read up to here, so that a payload that is too large can be named as such."""


DefaultsOf = Callable[[str], Defaults]
"""What a definition in a namespace has that does not say."""


class _Chosen(Struct, frozen=True):
    job_id: str | None = None
    workflow_id: str | None = None


def define(
    body: bytes | JobRequest, now: int, settings: Settings, caller: Caller, defaults: DefaultsOf
) -> JobSpec:
    """The definition that a body or a request describes, in the caller's namespace."""
    body = body if isinstance(body, bytes) else encode(body)
    unsaid = defaults(caller.namespace)
    try:
        spec = parse.define_body(body, now, limits_of(settings), unsaid)
        namespace = _namespace(spec, caller)
        if defaults(namespace) != unsaid:
            spec = parse.define_body(body, now, limits_of(settings), defaults(namespace))
    except InvalidDefinition as error:
        raise refused_definition(error) from None
    dependencies = tuple(scoped(namespace, job_id) for job_id in spec.dependencies)
    return _not_too_large(structs.replace(spec, namespace=namespace, dependencies=dependencies))


def chosen_id(request: bytes | JobRequest) -> str | None:
    """The id the user wants the job to have."""
    chosen = msgspec.json.decode(request, type=_Chosen) if isinstance(request, bytes) else request
    for job_id in (chosen.job_id, chosen.workflow_id):
        if isinstance(job_id, str):
            return job_id
    return None


def edit(spec: JobSpec, patch: JobPatch, now: int, settings: Settings, defaults: DefaultsOf) -> JobSpec:
    """The definition after an edit."""
    namespace = spec.namespace
    plain = structs.replace(
        spec, dependencies=tuple(unscoped(namespace, job_id) for job_id in spec.dependencies)
    )
    try:
        amended = parse.amend(plain, _changes(patch), now, limits_of(settings), defaults(namespace))
        dependencies = tuple(scoped(namespace, job_id) for job_id in amended.dependencies)
        return _not_too_large(structs.replace(amended, dependencies=dependencies))
    except InvalidDefinition as error:
        raise refused_definition(error) from None


def is_meant_anew(patch: JobPatch) -> bool:
    """Whether an edit says `now`: that is meant again where it was said before."""
    return isinstance(patch.schedule, str) and patch.schedule.strip().lower() == "now"


def check_schedule(stored: JobSpec, restored: JobSpec, now: int) -> None:
    """As an edit is checked: a schedule that is over is no schedule to come back to."""
    if restored.schedule == stored.schedule:
        return
    problems = Problems()
    check_future(restored.schedule, restored.name, now, problems)
    try:
        problems.refuse()
    except InvalidDefinition as error:
        raise refused_definition(error) from None


def _changes(patch: JobPatch) -> JobRequest:
    """The fields of an edit, without the job's id and version. Its dependencies are as the user knows them."""
    fields = {name: getattr(patch, name) for name in JobRequest.__struct_fields__ if name != "job_id"}
    return JobRequest(**fields)


def _namespace(spec: JobSpec, caller: Caller) -> str:
    if spec.namespace in (DEFAULT, caller.namespace):
        return caller.namespace
    if not caller.everywhere:
        raise Forbidden.field("namespace", f"your token is for {caller.namespace}")
    return spec.namespace


def _not_too_large(spec: JobSpec) -> JobSpec:
    size = len(encode(spec))
    if size > _MAX_BYTES:
        raise TooLarge.field("", f"the definition has {size} bytes; at most {_MAX_BYTES} are taken")
    return spec


def limits_of(settings: Settings) -> DefinitionLimits:
    return DefinitionLimits(payload_bytes=settings.payload_limit, body_bytes=_MAX_BODY_BYTES)
