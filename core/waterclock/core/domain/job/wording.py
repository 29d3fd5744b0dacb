"""What a type error says to the person who wrote the field."""

import re
from typing import Any, Literal, get_args, get_origin

from waterclock.proto.commands import DIGEST_PATTERN, ENV_PATTERN, JOB_PATTERN
from waterclock.proto.names import ID_PATTERN

_AT = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`$")
_FIELD = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<field>.*)`")
_ENUM = re.compile(r"Invalid enum value (?P<value>.*)")
_ID = "must be letters, digits, _ or -, beginning with a letter or digit, and at most"
_WORDS = (
    (ID_PATTERN, f"{_ID} 64 of them"),
    (JOB_PATTERN, "must be the id of a job"),
    (ENV_PATTERN, "must be the name of an environment variable: letters, digits and _"),
    (DIGEST_PATTERN, "must be sha256: followed by 64 hexadecimal digits"),
    ("with a timezone component", "has no offset: end it with Z or an offset such as +02:00"),
    ("of length >= 1", "must not be empty"),
    ("Invalid RFC3339", "is not an RFC 3339 time such as 2026-12-31T23:59:59Z"),
)


def explain(error: Exception, name: str, kind: Any) -> tuple[str, str]:
    """(field, reason) for what msgspec found wrong in the field `name` of that type."""
    message = str(error)
    at = _AT.search(message)
    path = name + (at["path"].replace("[...]", "") if at else "")
    reason = message[: at.start()] if at else message
    if field := _FIELD.fullmatch(reason):
        missing = field["what"] == "missing required"
        return f"{path}.{field['field']}", "is required" if missing else "there is no such field"
    if enum := _ENUM.fullmatch(reason):
        choices = ", ".join(dict.fromkeys(_choices(kind)))
        return path, f"{enum['value']} is not {f'one of {choices}' if choices else 'a choice'}"
    for fragment, words in _WORDS:
        if fragment in reason:
            return path, f"a key {words}" if at and at["key"] else words
    return path, _plain(reason)


def _choices(kind: Any) -> list[str]:
    """The texts a type allows, wherever in it they are listed."""
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    return [choice for part in get_args(kind) for choice in _choices(part)]


def _plain(reason: str) -> str:
    text = reason.replace(" | null", "").replace("`", "")
    return text[:1].lower() + text[1:]
