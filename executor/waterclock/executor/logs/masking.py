"""Replaces the values of secrets in output by asterisks."""

import re
from collections.abc import Iterable

MASK = b"***"
_SHORTEST = 3
"""Shorter values would turn up everywhere, and masking them would only garble the text."""


class Masker:
    """Replaces secrets in a byte stream, also where a secret lies across two pieces."""

    def __init__(self, secrets: Iterable[str]) -> None:
        values = sorted({s.encode() for s in secrets if len(s) >= _SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, values))) if values else None
        self._longest = len(values[0]) if values else 0
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if self._pattern is None:
            return data
        text = self._pattern.sub(MASK, self._held + data)
        keep = self._start_of_secret(text)
        self._held = text[keep:]
        return text[:keep]

    def end(self) -> bytes:
        """What was held back because it might have been the beginning of a secret."""
        held, self._held = self._held, b""
        return held

    def mask(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(MASK, text.encode(errors="replace")).decode(errors="replace")

    def _start_of_secret(self, text: bytes) -> int:
        """From where on the text may be the beginning of a secret."""
        return max(0, len(text) - self._longest + 1)


NOTHING_SECRET = Masker(())
