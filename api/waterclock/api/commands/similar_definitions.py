"""Definitions that differ from one before in nothing but their payload, their schedule and who they are.

Most are such: what they have in common is checked once, for the life of the process. Nothing of it depends on the time:
only the schedule does, and that is worked out for each.
"""

from copy import copy

import msgspec
from msgspec import UNSET, structs

from waterclock.api.auth.gate import Caller
from waterclock.api.commands.job_specs import DefaultsOf, chosen_id
from waterclock.api.commands.job_specs import define as define_from_scratch
from waterclock.api.errors import Refused
from waterclock.core.domain.job.parse import schedule_like
from waterclock.core.domain.job.schedule import SCHEDULE_FIELDS
from waterclock.core.domain.job.validate import Defaults
from waterclock.core.runtime.settings import Settings
from waterclock.proto.codec import encode
from waterclock.proto.names import is_user_id
from waterclock.proto.spec import JobRequest, JobSpec
from waterclock.proto.values import may_be_unfit

_MOST_KINDS = 1_000
_MOST_BYTES = 4_096
"""Of what is remembered of a kind. Larger ones are rare, and checked each time."""
OWN = ("payload", "idempotency_key", "job_id", *SCHEDULE_FIELDS)

_BACKSLASH = ord("\\")

_decode = msgspec.json.Decoder(JobRequest).decode

_known: dict[tuple[int, Defaults, str, bool, bytes], JobSpec] = {}
"""By the limit on payloads, the defaults, the caller's namespace and reach, and what the requests have in common."""


def define_line(
    line: bytes, now: int, settings: Settings, caller: Caller, defaults: DefaultsOf
) -> tuple[JobSpec, str | None]:
    """The definition of a line of a bulk call, and the id the user wants it to have."""
    request = read_plain(line, settings)
    if request is not None:
        spec = _like_one_before(request, now, settings, caller, defaults)
        if spec is not None:
            return spec, chosen_id(request)
    return define_from_scratch(line, now, settings, caller, defaults), chosen_id(line)


def is_plain(line: bytes, payload_limit: int) -> bool:
    """Whether a line is surely within all bounds, whatever its values are."""
    return (
        len(line) <= payload_limit
        and not (_BACKSLASH in line and b"\\u0000" in line)
        and not may_be_unfit(line)
    )


def read_plain(line: bytes, settings: Settings) -> JobRequest | None:
    if not is_plain(line, settings.payload_limit):
        return None
    try:
        return _decode(line)
    except (ValueError, RecursionError):
        return None


def define(
    request: JobRequest, now: int, settings: Settings, caller: Caller, defaults: DefaultsOf
) -> JobSpec:
    """The definition of a request that was read, and so checked field by field."""
    if request.payload is UNSET or len(encode(request.payload)) <= settings.payload_limit:
        spec = _like_one_before(request, now, settings, caller, defaults)
        if spec is not None:
            return spec
    return define_from_scratch(request, now, settings, caller, defaults)


def _like_one_before(
    request: JobRequest, now: int, settings: Settings, caller: Caller, defaults: DefaultsOf
) -> JobSpec | None:
    """None where only the full parser will do: something is wrong, or it is named after its id."""
    payload, key, job_id = request.payload, request.idempotency_key, request.job_id
    if not (may_be_key(key) and may_be_id(job_id)):
        return None
    spec = common_of(request, now, settings, caller, defaults)
    schedule = None if spec is None else schedule_like(spec, request, now)
    if spec is None or schedule is None:
        return None
    return structs.replace(
        spec,
        payload=None if payload is UNSET else payload,
        idempotency_key=key if isinstance(key, str) else None,
        schedule=schedule,
    )


def may_be_key(key: object) -> bool:
    return not isinstance(key, str) or key.isprintable()


def may_be_id(job_id: object) -> bool:
    return not isinstance(job_id, str) or is_user_id(job_id)


def common_of(
    request: JobRequest, now: int, settings: Settings, caller: Caller, defaults: DefaultsOf
) -> JobSpec | None:
    """The definition of what a request has in common with others like it. None where it is named after its id, is too
    large to be remembered, or where something is wrong with it."""
    if not (isinstance(request.name, str) or isinstance(request.job_type, str)):
        return None
    bare = copy(request)
    for field in OWN:
        setattr(bare, field, UNSET)
    common = encode(bare)
    if len(common) > _MOST_BYTES:
        return None
    namespace = bare.namespace if isinstance(bare.namespace, str) else caller.namespace
    kind = (settings.payload_limit, defaults(namespace), caller.namespace, caller.everywhere, common)
    spec = _known.get(kind)
    if spec is None:
        try:
            spec = define_from_scratch(bare, now, settings, caller, defaults)
        except Refused:
            return None
        if len(_known) >= _MOST_KINDS:
            _known.clear()
        _known[kind] = spec
    return spec
