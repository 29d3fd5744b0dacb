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
    begin: bytes
    """What is the same in all, before the first value."""
    before: tuple[bytes, ...]
    """What is the same in all, after each of the values that come before the widest. That one may contain anything,
    also what looks like one of these pieces: it is what the others leave."""
    after: tuple[bytes, ...]
    """Before each of the values that come after the widest, from the last to the first."""
    end: bytes

    def values(self, line: bytes) -> list[bytes] | None:
        """The values of a line, in the order of the fields; None if it has another shape."""
        start, end = len(self.begin), len(line) - len(self.end)
        if start > end or not line.startswith(self.begin) or not line.endswith(self.end):
            return None
        values: list[bytes] = []
        for piece in self.before:
            place = line.find(piece, start, end)
            if place < 0:
                return None
            values.append(line[start:place])
            start = place + len(piece)
        last: list[bytes] = []
        for piece in self.after:
            place = line.rfind(piece, start, end)
            if place < 0:
                return None
            last.append(line[place + len(piece) : end])
            end = place
        return [*values, line[start:end], *reversed(last)]


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
    place = fields.index(widest) if widest in fields else len(fields) - 1
    return LineShape(
        fields=tuple(fields),
        begin=pieces[0],
        before=tuple(pieces[1 : place + 1]),
        after=tuple(pieces[-2:place:-1]),
        end=pieces[-1],
    )
