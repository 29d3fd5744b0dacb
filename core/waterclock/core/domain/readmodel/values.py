"""Values as Postgres takes them. What it refuses would stop the projection for good, so nothing of it gets through."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from waterclock.core.domain.instants import SECOND

_STAMP = re.compile(r"@(\d{8}T\d{6})(\d{6})?Z(?:~|$)")
_NUL_IN_JSON = b"\\u0000"
_encode = msgspec.json.Encoder(enc_hook=str).encode


def clean(text: str | None) -> str | None:
    """Text without NUL characters; None for an empty one."""
    if text and "\0" in text:
        text = text.replace("\0", "")
    return text or None


def json_value(value: Any) -> bytes:
    """JSON for a `jsonb` column."""
    encoded = _encode(value)
    return _encode(_without_nul(value)) if _NUL_IN_JSON in encoded else encoded


def scheduled_in(run_id: str) -> int | None:
    """The scheduled time that a run's id is made of; None for a run that somebody asked for."""
    if (found := _STAMP.search(run_id)) is None:
        return None
    try:
        time = datetime.strptime(found[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(time.timestamp()) * SECOND + int(found[2] or 0)


def _without_nul(value: Any) -> Any:
    value = msgspec.to_builtins(value, enc_hook=str)
    match value:
        case str():
            return value.replace("\0", "")
        case list():
            return [_without_nul(item) for item in value]
        case dict():
            return {_without_nul(key): _without_nul(item) for key, item in value.items()}
        case _:
            return value
