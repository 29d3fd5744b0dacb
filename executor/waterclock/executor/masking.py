"""Replaces the values of secrets by asterisks, in whatever an attempt says."""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

MASK = b"***"
_MASK = MASK.decode()
_SHORTEST = 3
"""Shorter values would turn up everywhere, and masking them would only garble the text."""
_SHORTEST_PART = 8
"""Of a value of several words or lines each that is as long is masked by itself: `Bearer …`, the lines of a key."""


class SecretValues:
    """The values that one attempt must not say. More may be added while it runs, from any thread."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._forms: frozenset[bytes] = frozenset()
        self.pattern: re.Pattern[bytes] | None = None
        self.longest = 0
        for value in values:
            self.add(value)

    def __repr__(self) -> str:
        return f"SecretValues({len(self._forms)} forms)"

    def add(self, value: str) -> None:
        new = {form for form in _forms(value) if len(form) >= _SHORTEST}
        if new <= self._forms:
            return
        forms = self._forms | new
        ordered = sorted(forms, key=len, reverse=True)
        self._forms, self.longest = forms, len(ordered[0])
        self.pattern = re.compile(b"|".join(map(re.escape, ordered)))

    def mask(self, text: str) -> str:
        if self.pattern is None:
            return text
        return self.pattern.sub(MASK, text.encode(errors="replace")).decode(errors="replace")

    def mask_json(self, value: Any) -> Any:
        """A JSON value without them, wherever in it they are: keys and numbers count, too."""
        match value:
            case _ if self.pattern is None:
                return value
            case str():
                return self.mask(value)
            case msgspec.Raw():
                return msgspec.Raw(msgspec.json.encode(self.mask_json(msgspec.json.decode(value))))
            case dict():
                return {self.mask(str(key)): self.mask_json(part) for key, part in value.items()}
            case list() | tuple():
                return [self.mask_json(part) for part in value]
            case bool() | None:
                return value
            case int() | float() if self.pattern.search(msgspec.json.encode(value)):
                return _MASK
            case _:
                return value

    def beginning_at_end(self, text: bytes) -> int:
        """From where on the text may be the beginning of one of them that was cut off; its length if nowhere."""
        for start in range(max(0, len(text) - self.longest + 1), len(text) - _SHORTEST + 1):
            rest = text[start:]
            if any(form.startswith(rest) for form in self._forms):
                return start
        return len(text)


class Masker:
    """Replaces secrets in a byte stream, also where a secret lies across two pieces."""

    def __init__(self, secrets: SecretValues | Iterable[str]) -> None:
        self._secrets = secrets if isinstance(secrets, SecretValues) else SecretValues(secrets)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        secrets = self._secrets
        if secrets.pattern is None:
            return data
        text = secrets.pattern.sub(MASK, self._held + data)
        keep = max(0, len(text) - secrets.longest + 1)
        self._held = text[keep:]
        return text[:keep]

    def end(self) -> bytes:
        """What was held back because it might have been the beginning of a secret. If it is, the rest was cut off."""
        held, self._held = self._held, b""
        cut = self._secrets.beginning_at_end(held)
        return held if cut == len(held) else held[:cut] + MASK

    def mask(self, text: str) -> str:
        return self._secrets.mask(text)


def _forms(value: str) -> Iterator[bytes]:
    """The value as it may turn up: as it is, quoted for JSON or a URL, in base64, and its longer parts."""
    plain = value.encode(errors="replace")
    yield plain
    yield value.strip().encode(errors="replace")
    for ascii_only in (True, False):
        yield _json_text(value, ascii_only)
    yield quote(value, safe="", errors="replace").encode()
    yield quote_plus(value, errors="replace").encode()
    if len(plain) >= _SHORTEST_PART:
        yield b64encode(plain).rstrip(b"=")
        yield urlsafe_b64encode(plain).rstrip(b"=")
    parts = value.split()
    if len(parts) > 1:
        yield from (part.encode(errors="replace") for part in parts if len(part) >= _SHORTEST_PART)


def _json_text(value: str, ascii_only: bool) -> bytes:
    import json

    return json.dumps(value, ensure_ascii=ascii_only)[1:-1].encode(errors="replace")
