"""Definitions as users send them, made into the `JobSpec` that the log stores."""

import msgspec
from msgspec import UNSET, Struct, structs

from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import DEFAULT, scoped, unscoped
from waterclock.api.errors import Forbidden, TooLarge
from waterclock.api.request_bodies import refused_definition
from waterclock.core.domain.job import parse
from waterclock.core.domain.job.validate import DefinitionLimits, InvalidDefinition
from waterclock.core.runtime.settings import Settings
from waterclock.proto.codec import encode
from waterclock.proto.commands import JobPatch
from waterclock.proto.spec import JobRequest, JobSpec
from waterclock.proto.values import may_be_unfit

_MAX_BYTES = 4 << 20
"""Bytes of a whole definition: it is one message in the log, and part of every message of the work queue."""

_MAX_BODY_BYTES = 32 << 20
"""Bodies are read up to here, so that a payload that is too large can be named as such."""


_MAX_KINDS = 1000
"""Kinds of definitions that one bulk call remembers; a call with more of them has nothing in common."""

_decode = msgspec.json.Decoder(JobRequest).decode


class _Chosen(Struct, frozen=True):
    job_id: str | None = None
    workflow_id: str | None = None


def define(body: bytes | JobRequest, now: int, settings: Settings, caller: Caller) -> JobSpec:
    """The definition that a body or a request describes, in the caller's namespace."""
    try:
        spec = parse.define_body(body if isinstance(body, bytes) else encode(body), now, _limits(settings))
    except InvalidDefinition as error:
        raise refused_definition(error) from None
    namespace = _namespace(spec, caller)
    dependencies = tuple(scoped(namespace, job_id) for job_id in spec.dependencies)
    return _not_too_large(structs.replace(spec, namespace=namespace, dependencies=dependencies))


def chosen_id(request: bytes | JobRequest) -> str | None:
    """The id the user wants the job to have."""
    chosen = msgspec.json.decode(request, type=_Chosen) if isinstance(request, bytes) else request
    for job_id in (chosen.job_id, chosen.workflow_id):
        if isinstance(job_id, str):
            return job_id
    return None


def edit(spec: JobSpec, patch: JobPatch, now: int, settings: Settings) -> JobSpec:
    """The definition after an edit."""
    namespace = spec.namespace
    plain = structs.replace(
        spec, dependencies=tuple(unscoped(namespace, job_id) for job_id in spec.dependencies)
    )
    try:
        amended = parse.amend(plain, _changes(patch), now, _limits(settings))
        dependencies = tuple(scoped(namespace, job_id) for job_id in amended.dependencies)
        return _not_too_large(structs.replace(amended, dependencies=dependencies))
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


def _limits(settings: Settings) -> DefinitionLimits:
    return DefinitionLimits(payload_bytes=settings.payload_limit, body_bytes=_MAX_BODY_BYTES)


class BatchDefinitions:
    """The definitions of one bulk call. Most differ in nothing but their payload and who they are: what they have in
    common is worked out once."""

    def __init__(self, settings: Settings, caller: Caller, now: int) -> None:
        self._settings = settings
        self._caller = caller
        self._now = now
        self._known: dict[bytes, JobSpec] = {}

    def define(self, line: bytes) -> tuple[JobSpec, str | None]:
        """The definition, and the id the user wants it to have."""
        alike = self._like_one_before(line)
        if alike is not None:
            return alike
        spec = define(line, self._now, self._settings, self._caller)
        return spec, chosen_id(line)

    def _like_one_before(self, line: bytes) -> tuple[JobSpec, str | None] | None:
        """None where only the full parser will do: a line that is wrong, large or deep, or named after its id."""
        if len(line) > self._settings.payload_limit or b"\\u0000" in line or may_be_unfit(line):
            return None
        try:
            request = _decode(line)
        except (ValueError, RecursionError):
            return None
        payload, key, job_id = request.payload, request.idempotency_key, request.job_id
        named = isinstance(request.name, str) or isinstance(request.job_type, str)
        if not named or request.delay is not UNSET or (isinstance(key, str) and not key.isprintable()):
            return None
        request.payload = request.idempotency_key = request.job_id = UNSET
        common = encode(request)
        spec = self._known.get(common)
        if spec is None:
            if len(self._known) >= _MAX_KINDS:
                return None
            spec = define(common, self._now, self._settings, self._caller)
            self._known[common] = spec
        own = structs.replace(
            spec,
            payload=None if payload is UNSET else payload,
            idempotency_key=key if isinstance(key, str) else None,
        )
        return own, job_id if isinstance(job_id, str) else chosen_id(request)
