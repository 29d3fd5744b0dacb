"""Requests that NATS would not carry are refused before they are sent, by the field that weighs most."""

import msgspec

from waterclock.api.errors import TooLarge


def check(data: bytes, limit: int) -> None:
    if len(data) <= limit:
        return
    parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    field = max(parts, key=lambda name: len(bytes(parts[name])), default="")
    size = len(bytes(parts[field])) if field else len(data)
    raise TooLarge.field(field, f"has {size} bytes; a request may have {limit} altogether")
