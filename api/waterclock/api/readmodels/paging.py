"""What listings have in common: where a page ends, and texts to search for."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

import msgspec

from waterclock.api.errors import Invalid

T = TypeVar("T")

SQL = Path(__file__).parent / "sql"
_LITERALLY = str.maketrans({"%": r"\%", "_": r"\_", "\\": r"\\"})


def encode_cursor(last: tuple[object, ...]) -> str:
    """The sort key and id of a page's last row, so that rows added meanwhile neither shift nor repeat."""
    return urlsafe_b64encode(msgspec.json.encode(last)).decode().rstrip("=")


def decode_cursor(cursor: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=kind)
    except (ValueError, msgspec.MsgspecError):
        raise Invalid.field(
            "cursor", "not one of ours; take it from next_cursor of the page before"
        ) from None


def containing(text: str | None) -> str | None:
    """A pattern for LIKE that matches the text anywhere, taken literally."""
    return None if not text else f"%{text.translate(_LITERALLY)}%"


def labels_of(labels: Collection[str]) -> tuple[str | None, list[str] | None]:
    """Labels to look for: those with a value, as JSON, and those that must just be there; None if there are none."""
    pairs = dict(label.split("=", 1) for label in labels if "=" in label)
    keys = [label for label in labels if "=" not in label]
    return msgspec.json.encode(pairs).decode() if pairs else None, keys or None
