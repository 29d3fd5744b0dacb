"""What can go wrong with the log, as callers need to tell it apart.

LogError
├── LogUnavailable      the server is away, or the outcome is still unknown at the deadline
│   ├── LoginRefused    the server does not let us in with what we brought
│   ├── NoResponders    nobody listens on that subject (yet)
│   └── NotAllowed      the server does not let our user ask that
├── Conflict            a compare-and-set was lost: somebody else wrote first
├── Duplicate           an id in an atomic batch was seen before, so the whole batch was refused
├── LogFull             a limit was reached; nothing old is dropped for the new
├── AlreadyQueued       the work queue still holds a message on this subject
├── TooLarge            the message is bigger than the server takes
├── NameInUse           a stream of that name exists, in another shape
├── NotFound            no such stream, consumer, message or object
├── Damaged             stored content is incomplete, or its digest differs
├── LayoutError         a stream exists in a shape that cannot become the one asked for
└── ServerRefused       any other refusal by the server, with its code
"""

from typing import Any


class LogError(Exception):
    pass


class LogUnavailable(LogError):
    pass


class LoginRefused(LogUnavailable):
    pass


class NoResponders(LogUnavailable):
    pass


class NotAllowed(LogUnavailable):
    pass


class Conflict(LogError):
    pass


class Duplicate(LogError):
    pass


class LogFull(LogError):
    pass


class AlreadyQueued(LogError):
    pass


class TooLarge(LogError):
    pass


class NameInUse(LogError):
    pass


class NotFound(LogError):
    pass


class Damaged(LogError):
    pass


class LayoutError(LogError):
    pass


class ServerRefused(LogError):
    def __init__(self, code: int, description: str) -> None:
        super().__init__(f"{description} ({code})")
        self.code = code


_BY_CODE: dict[int, type[LogError]] = {
    10002: LogFull,  # resource limits exceeded for account
    10014: NotFound,  # consumer not found
    10023: LogFull,  # insufficient resources
    10037: NotFound,  # no message found
    10047: LogFull,  # insufficient storage resources available
    10054: TooLarge,  # message size exceeds maximum allowed
    10058: NameInUse,  # stream name already in use with a different configuration
    10059: NotFound,  # stream not found
    10071: Conflict,  # wrong last sequence: <n>
    10097: TooLarge,  # header size exceeds maximum allowed
    10149: NotFound,  # consumer does not exist
    10164: Conflict,  # wrong last sequence
    10176: LogUnavailable,  # atomic batch is incomplete: part of it got lost on the way
    10201: Duplicate,  # atomic batch contains a duplicate message id
}
_STORE_FAILED = 10077
_COME_BACK_LATER = (429, 503)


def error_of(error: dict[str, Any]) -> LogError:
    """The exception for the `error` object of a JetStream reply."""
    code, description = int(error.get("err_code", 0)), str(error.get("description", ""))
    if code == _STORE_FAILED and description.startswith("maximum"):
        return AlreadyQueued(description) if "per subject" in description else LogFull(description)
    kind = _BY_CODE.get(code)
    if kind is None and error.get("code") in _COME_BACK_LATER:
        kind = LogUnavailable
    return ServerRefused(code, description) if kind is None else kind(f"{description} ({code})")


def reason_of(error: BaseException | None) -> str:
    """What to print: some exceptions (a timeout) say it by their name alone."""
    return str(error) or type(error).__name__
