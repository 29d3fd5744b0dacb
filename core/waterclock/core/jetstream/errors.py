"""What can go wrong with the log, as callers need to tell it apart.

LogError
├── LogUnavailable      the server is away, or the outcome is unknown after the deadline
│   └── NoResponders    nobody listens on that subject
├── Conflict            a compare-and-set was lost: somebody else wrote first
├── LogFull             a limit with `discard: new` was reached; nothing old is dropped for the new
├── AlreadyQueued       the work queue still holds a message on this subject
├── Duplicate           a message id of an atomic batch was seen before; the whole batch was refused
├── NotFound            no such stream, consumer or message
├── TooLarge            the message exceeds what the server takes
├── LayoutError         a stream exists in a shape that cannot become the one asked for
└── ApiError            any other refusal by the server, with its code
"""

from typing import Any


class LogError(Exception):
    pass


class LogUnavailable(LogError):
    pass


class NoResponders(LogUnavailable):
    pass


class Conflict(LogError):
    pass


class LogFull(LogError):
    pass


class AlreadyQueued(LogError):
    pass


class Duplicate(LogError):
    pass


class NotFound(LogError):
    pass


class TooLarge(LogError):
    pass


class LayoutError(LogError):
    pass


class ApiError(LogError):
    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description} ({code})")
        self.code = code
        self.description = description


_BY_CODE: dict[int, type[LogError]] = {
    10071: Conflict,  # wrong last sequence
    10164: Conflict,  # wrong last sequence, value unknown
    10201: Duplicate,  # atomic batch contains a duplicate message id
    10037: NotFound,  # no message found
    10059: NotFound,  # stream not found
    10014: NotFound,  # consumer not found
    10149: NotFound,  # consumer does not exist
    10054: TooLarge,  # message size exceeds maximum allowed
    10097: TooLarge,  # header size exceeds maximum allowed
    10023: LogFull,  # insufficient resources
    10047: LogFull,  # insufficient storage resources available
    10002: LogFull,  # resource limits exceeded for account
    10008: LogUnavailable,  # JetStream system temporarily unavailable
    10118: LogUnavailable,  # stream is offline
    10119: LogUnavailable,  # consumer is offline
    10167: LogUnavailable,  # too many requests
    10176: LogUnavailable,  # atomic publish batch is incomplete
}

_STORE_FAILED = 10077


def error_of(error: dict[str, Any]) -> LogError:
    """The exception for the `error` object of a JetStream reply."""
    code = int(error.get("err_code", 0))
    description = str(error.get("description", "no description"))
    if code == _STORE_FAILED:
        if "per subject" in description:
            return AlreadyQueued(description)
        if description.startswith("maximum"):
            return LogFull(description)
    kind = _BY_CODE.get(code)
    return ApiError(code, description) if kind is None else kind(f"{description} ({code})")
