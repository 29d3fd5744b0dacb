"""Definitions as users send them, made into what the log stores."""

import msgspec
from msgspec import Struct, structs

from waterclock.api.auth.caller import Caller
from waterclock.api.auth.namespaces import DEFAULT, scoped, unscoped
from waterclock.api.errors import Forbidden, Invalid, Malformed, Refused, TooLarge
from waterclock.core.domain.job import parse
from waterclock.core.domain.job.validate import DefinitionLimits, InvalidDefinition
from waterclock.core.runtime.settings import Settings
from waterclock.proto.codec import encode
from waterclock.proto.commands import JobPatch
from waterclock.proto.spec import JobRequest, JobSpec, PreviewRequest, Schedule

_LARGEST = 4 << 20
"""Bytes of a whole definition: it is one message in the log, and part of every message of the work queue."""

_BODY = 32 << 20
"""Bodies are read up to here, so that a payload that is too large can be named as such."""


class _Chosen(Struct, frozen=True):
    job_id: str | None = None
    workflow_id: str | None = None


_KINDS: dict[str, type[Refused]] = {"malformed": Malformed, "too_large": TooLarge, "invalid": Invalid}


def define(body: bytes | JobRequest, now: int, settings: Settings, caller: Caller) -> JobSpec:
    """The definition that a body or a request describes, in the caller's namespace."""
    try:
        spec = parse.define_body(body if isinstance(body, bytes) else encode(body), now, _limits(settings))
    except InvalidDefinition as error:
        raise refusal(error) from None
    namespace = _namespace(spec, caller)
    dependencies = tuple(scoped(namespace, job_id) for job_id in spec.dependencies)
    return _weighed(structs.replace(spec, namespace=namespace, dependencies=dependencies))


def chosen_id(request: bytes | JobRequest) -> str | None:
    """The id the user wants the job to have."""
    chosen = msgspec.json.decode(request, type=_Chosen) if isinstance(request, bytes) else request
    for job_id in (chosen.job_id, chosen.workflow_id):
        if isinstance(job_id, str):
            return job_id
    return None


def edited(spec: JobSpec, patch: JobPatch, now: int, settings: Settings) -> JobSpec:
    """The definition after an edit."""
    namespace = spec.namespace
    plain = structs.replace(
        spec, dependencies=tuple(unscoped(namespace, job_id) for job_id in spec.dependencies)
    )
    try:
        amended = parse.amend(plain, _changes(patch), now, _limits(settings))
        dependencies = tuple(scoped(namespace, job_id) for job_id in amended.dependencies)
        return _weighed(structs.replace(amended, dependencies=dependencies))
    except InvalidDefinition as error:
        raise refusal(error) from None


def schedule_of(request: PreviewRequest, now: int) -> Schedule:
    try:
        return parse.define_schedule(request, now)
    except InvalidDefinition as error:
        raise refusal(error) from None


def refusal(error: InvalidDefinition) -> Refused:
    return _KINDS[error.kind].because(str(error), error.errors)


def _changes(patch: JobPatch) -> JobRequest:
    """An edit without what says of which job and version. Its dependencies are as the user knows them."""
    said = {name: getattr(patch, name) for name in JobRequest.__struct_fields__ if name != "job_id"}
    return JobRequest(**said)


def _namespace(spec: JobSpec, caller: Caller) -> str:
    if spec.namespace in (DEFAULT, caller.namespace):
        return caller.namespace
    if not caller.everywhere:
        raise Forbidden.field("namespace", f"your token is for {caller.namespace}")
    return spec.namespace


def _weighed(spec: JobSpec) -> JobSpec:
    size = len(encode(spec))
    if size > _LARGEST:
        raise TooLarge.field("", f"the definition has {size} bytes; at most {_LARGEST} are taken")
    return spec


def _limits(settings: Settings) -> DefinitionLimits:
    return DefinitionLimits(payload_bytes=settings.payload_limit, body_bytes=_BODY)
