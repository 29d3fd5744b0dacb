"""Where a page ends: the sort key and id of its last row, so that rows added meanwhile neither shift nor repeat."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

import msgspec

from waterclock.api.errors import Invalid

T = TypeVar("T")


def write(place: tuple[object, ...]) -> str:
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read(cursor: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=kind)
    except (ValueError, msgspec.MsgspecError):
        raise Invalid.field(
            "cursor", "not one of ours; take it from next_cursor of the page before"
        ) from None
