"""What the lines of a bulk call have in common, byte for byte, and the values in which each differs.

A shape is learned from one line, and a line that has it is cut into values without being decoded. That a value found
so is exactly one JSON document is for whoever decodes it to say; then the line is what it seems to be, since in JSON
any value may stand in the place of any other.
"""

import re
from collections.abc import Container
from typing import Any

import msgspec
from msgspec import Raw, Struct

_STAND_IN = b'"?"'
"""No other value, and no part of one: inside a text its first byte would end that text, and what follows is no JSON."""

_decode_raw = msgspec.json.Decoder(dict[str, Raw]).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class LineShape(Struct, frozen=True):
    fields: tuple[str, ...]
    """Those whose values differ, in the order in which the lines have them."""
    pieces: tuple[bytes, ...]
    """What is the same in all: before the first value, between two, and after the last."""
    widest: int
    """Which of the values may contain anything, also what looks like a piece. It is what the others leave."""

    def values(self, line: bytes) -> list[bytes] | None:
        """The values of a line, in the order of the fields; None if it has another shape."""
        pieces = self.pieces
        start, end = len(pieces[0]), len(line) - len(pieces[-1])
        if start > end or not line.startswith(pieces[0]) or not line.endswith(pieces[-1]):
            return None
        before: list[bytes] = []
        for piece in pieces[1 : self.widest + 1]:
            place = line.find(piece, start, end)
            if place < 0:
                return None
            before.append(line[start:place])
            start = place + len(piece)
        after: list[bytes] = []
        for piece in pieces[-2 : self.widest : -1]:
            place = line.rfind(piece, start, end)
            if place < 0:
                return None
            after.append(line[place + len(piece) : end])
            end = place
        return [*before, line[start:end], *reversed(after)]


def shape_of(line: bytes, own: Container[str], widest: str) -> LineShape | None:
    """The shape of a line whose fields in `own` are its own. None if they are not to be found for certain, or if there
    are none."""
    found = _decode_raw(line)
    fields = [name for name in found if name in own]
    pieces: list[bytes] = []
    start = 0
    for name in fields:
        value = bytes(found[name])
        match = re.compile(rb'"%b"\s*:\s*(?=%b)' % (name.encode(), re.escape(value))).search(line, start)
        if match is None:
            return None
        pieces.append(line[start : match.end()])
        start = match.end() + len(value)
    pieces.append(line[start:])
    try:
        stood_in = _decode(_STAND_IN.join(pieces))
    except ValueError:
        return None
    if not fields or stood_in != {**_decode(line), **dict.fromkeys(fields, "?")}:
        return None
    return LineShape(
        tuple(fields), tuple(pieces), fields.index(widest) if widest in fields else len(fields) - 1
    )
