"""How a refusal looks on the wire: one RFC 9457 document over REST and NATS alike; and the words for what msgspec finds
wrong with a field."""

import re
from math import ceil
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct, UnsetType

from waterclock.proto.names import ID_PATTERN
from waterclock.proto.policies import DIGEST_PATTERN, ENV_PATTERN, JOB_PATTERN

MEDIA_TYPE = "application/problem+json"


class FieldError(Struct, frozen=True, kw_only=True):
    """What is wrong with one field. `field` is its path in the request (`retry.factor`), or "" for the whole."""

    field: str
    reason: str


class Difference(Struct, frozen=True, kw_only=True):
    """One field in which a repeated request differs from what was accepted the first time."""

    field: str
    stored: Any = None
    given: Any = None


class Problem(Struct, frozen=True, kw_only=True):
    status: int
    title: str
    type: str = "about:blank"
    detail: str = ""
    errors: tuple[FieldError, ...] = ()
    differences: tuple[Difference, ...] | UnsetType = UNSET
    retry_after: float | UnsetType = UNSET
    """Seconds after which the same request may succeed."""
    drain_seconds: float | UnsetType = UNSET
    """How much work the system has to do, where the request is refused because of that and nothing else."""
    jobs_per_second: float | UnsetType = UNSET
    """How many the system takes meanwhile."""
    waiting: int | UnsetType = UNSET
    """How many runs of the namespace wait for executors, where the request is refused because of that."""


def retry_after(problem: Problem) -> dict[str, str]:
    """The header that says the same, in whole seconds; none where nobody knows."""
    wait = problem.retry_after
    return {} if isinstance(wait, UnsetType) else {"Retry-After": str(max(1, ceil(wait)))}


_AT = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`$")
_FIELD = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<field>.*)`")
_ENUM = re.compile(r"Invalid enum value (?P<value>.*)")
_WORDS = (
    (ID_PATTERN, "must be letters, digits, _ or -, beginning with a letter or digit, and at most 64 of them"),
    (JOB_PATTERN, "must be the id of a job"),
    (ENV_PATTERN, "must be the name of an environment variable: letters, digits and _"),
    (DIGEST_PATTERN, "must be sha256: followed by 64 hexadecimal digits"),
    ("with a timezone component", "has no offset: end it with Z or an offset such as +02:00"),
    ("of length >= 1", "must not be empty"),
    ("Invalid RFC3339", "is not an RFC 3339 time such as 2026-12-31T23:59:59Z"),
)


def field_error(error: msgspec.ValidationError, kind: Any, name: str = "") -> FieldError:
    """What was wrong in a value of that type, for the person who wrote it. `name` is the field it is the value of; ""
    for a whole request."""
    message = str(error)
    at = _AT.search(message)
    path = (name + (at["path"].replace("[...]", "") if at else "")).removeprefix(".")
    reason = message[: at.start()] if at else message
    if field := _FIELD.fullmatch(reason):
        missing = field["what"] == "missing required"
        inner = f"{path}.{field['field']}" if path else field["field"]
        return FieldError(field=inner, reason="is required" if missing else "there is no such field")
    if enum := _ENUM.fullmatch(reason):
        choices = ", ".join(dict.fromkeys(_choices(_type_at(kind, path))))
        return FieldError(
            field=path, reason=f"{enum['value']} is not {f'one of {choices}' if choices else 'a choice'}"
        )
    for fragment, words in _WORDS:
        if fragment in reason:
            return FieldError(field=path, reason=f"a key {words}" if at and at["key"] else words)
    return FieldError(field=path, reason=_plain(reason))


def _type_at(kind: Any, path: str) -> Any:
    """Of a whole request the type of the field that a path leads into; any other type as it is."""
    if not isinstance(kind, type) or not issubclass(kind, Struct):
        return kind
    first = re.split(r"[.\[]", path, maxsplit=1)[0]
    return next((field.type for field in msgspec.structs.fields(kind) if field.encode_name == first), kind)


def _choices(kind: Any) -> list[str]:
    """The texts a type allows, wherever in it they are listed."""
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    return [choice for part in get_args(kind) for choice in _choices(part)]


def _plain(reason: str) -> str:
    text = reason.replace(" | null", "").replace("`", "")
    return text[:1].lower() + text[1:]
