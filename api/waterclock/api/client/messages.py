"""Requests and answers as they go over the wire, the same for every client."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, structs

from waterclock.api import decoding
from waterclock.api.errors import TooLarge, Unreachable, refusal
from waterclock.proto.answers import BatchResult
from waterclock.proto.commands import JobBatch
from waterclock.proto.methods import Method
from waterclock.proto.problem import Problem

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A")

STREAM_SECONDS = 20.0
"""How long the service keeps a streaming call open before it ends it; a client that wants more asks again."""

NOT_LET_IN = "nobody knows this token, or it has expired or was revoked"
SILENCE_SECONDS = STREAM_SECONDS + 5
"""A stream that sends nothing for so long is broken."""

HEADER_ROOM = 4096
"""Bytes left for headers, which count towards the largest message too."""

_BATCH_JOBS = 500
_BATCH_BYTES = 1 << 18
_NO_RESPONDERS = "503"
_ERROR_CODE = "Nats-Service-Error-Code"

encode = msgspec.json.Encoder().encode


def request_of(method: Method[Q, A], fields: Mapping[str, Any]) -> Q:
    """The request a call makes; what is UNSET is left out, and what is wrong is refused by its field.

    What creates something carries an idempotency key, drawn here if none was given: a call without an answer is
    repeated, and the service must recognise the repeat.
    """
    said = {name: value for name, value in fields.items() if value is not UNSET}
    if "idempotency_key" in fields and not said.get("idempotency_key") and _creates(method):
        said["idempotency_key"] = new_key()
    return decoding.convert(said, method.request, text=False)


def new_key() -> str:
    return f"auto-{secrets.token_hex(10)}"


def batches(lines: Sequence[bytes]) -> Iterator[tuple[int, JobBatch]]:
    """Definitions, encoded, in requests of a size that NATS carries, each with the number of its first."""
    start = 0
    while start < len(lines):
        end, size = start + 1, len(lines[start])
        while end < len(lines) and end - start < _BATCH_JOBS and size < _BATCH_BYTES:
            size += len(lines[end])
            end += 1
        yield start, JobBatch(jobs=list(map(msgspec.Raw, lines[start:end])), idempotency_key=new_key())
        start = end


def numbered_on(results: list[BatchResult], start: int) -> list[BatchResult]:
    """The results of one request of several. They were read just now, and are nobody's yet: each is changed itself."""
    if start:
        for result in results:
            structs.force_setattr(result, "line", start + result.line)
    return results


def check_size(data: bytes, limit: int) -> None:
    """Refuses a request that NATS would not carry before it is sent, and names its largest field."""
    if len(data) <= limit:
        return
    parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    field = max(parts, key=lambda name: len(bytes(parts[name])), default="")
    size = len(bytes(parts[field])) if field else len(data)
    raise TooLarge.field(field, f"has {size} bytes; a request may have {limit} altogether")


def answer_of(data: bytes, headers: Mapping[str, str], kind: type[A], *, nobody: str) -> A:
    """The answer, or the service's own error raised again. `nobody` says what it means that no service listens."""
    if headers.get("Status") == _NO_RESPONDERS:
        raise Unreachable(nobody)
    if _ERROR_CODE in headers:
        raise refusal(msgspec.json.decode(data, type=Problem))
    return msgspec.json.decode(data, type=kind)


def _creates(method: Method[Any, Any]) -> bool:
    """An edit has the field too, for the definition it changes: there nothing may be put into it."""
    return method.rest is not None and method.rest.verb == "POST"
