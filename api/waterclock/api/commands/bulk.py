"""Definitions of one bulk call. Most differ in nothing but their payload and who they are; what they have in common is
worked out once."""

import msgspec
from msgspec import UNSET, structs

from waterclock.api.auth.caller import Caller
from waterclock.api.commands import definitions
from waterclock.core.runtime.settings import Settings
from waterclock.proto.codec import encode
from waterclock.proto.spec import JobRequest, JobSpec

_MOST = 1000
"""Kinds of definitions remembered; a call with more of them has nothing in common."""

_DEPTH = 64
_decode = msgspec.json.Decoder(JobRequest).decode


class Lines:
    def __init__(self, settings: Settings, caller: Caller, now: int) -> None:
        self._settings = settings
        self._caller = caller
        self._now = now
        self._known: dict[bytes, JobSpec] = {}

    def define(self, line: bytes) -> tuple[JobSpec, str | None]:
        """The definition, and the id the user wants it to have."""
        alike = self._like_others(line)
        if alike is not None:
            return alike
        spec = definitions.define(line, self._now, self._settings, self._caller)
        return spec, definitions.chosen_id(line)

    def _like_others(self, line: bytes) -> tuple[JobSpec, str | None] | None:
        """None where only the full reader can tell: a line that is wrong, large or deep, or named after its id."""
        if (
            len(line) > self._settings.payload_limit
            or b"\\u0000" in line
            or line.count(b"[") + line.count(b"{") > _DEPTH
        ):
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
            if len(self._known) >= _MOST:
                return None
            spec = definitions.define(common, self._now, self._settings, self._caller)
            self._known[common] = spec
        own = structs.replace(
            spec,
            payload=None if payload is UNSET else payload,
            idempotency_key=key if isinstance(key, str) else None,
        )
        return own, job_id if isinstance(job_id, str) else definitions.chosen_id(request)
