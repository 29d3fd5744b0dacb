"""`Range` on a run's log: bytes of it by their place, or the last ones. One range; more of them get the whole log."""

import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from litestar import Request, Response
from msgspec import Struct

from waterclock.proto.answers import LogChunk
from waterclock.proto.problem import MEDIA_TYPE, Problem

_RANGE = re.compile(
    r"\s*bytes\s*=\s*(?:(?P<first>\d{1,18})-(?P<last>\d{1,18})?|-(?P<suffix>\d{1,18}))\s*", re.ASCII
)
_MOST_BYTES = 16 << 20
"""What is kept in memory for one answer; who asks for more gets so much of it, and asks on."""


class Wanted(Struct, frozen=True):
    first: int = 0
    last: int | None = None
    suffix: int | None = None
    """The last so many bytes, wherever they begin."""


def wanted_range(http: Request[Any, Any, Any], asked: Any) -> Wanted | None:
    """None for the whole, and for what is followed: it has no end."""
    match = _RANGE.fullmatch(http.headers.get("range", ""))
    if match is None or asked.follow:
        return None
    if match["suffix"] is not None:
        return Wanted(suffix=int(match["suffix"]))
    first, last = int(match["first"]), None if match["last"] is None else int(match["last"])
    return None if last is not None and last < first else Wanted(first=first, last=last)


async def part_of(wanted: Wanted, chunks: AsyncIterator[LogChunk]) -> Response[Any]:
    total, kept = 0, bytearray()
    async for chunk in chunks:
        data = chunk.text.encode() if chunk.data is None else chunk.data
        if wanted.suffix is None:
            kept += _overlap(wanted, total, data)[: _MOST_BYTES - len(kept)]
        else:
            kept += data
            del kept[: max(0, len(kept) - min(wanted.suffix, _MOST_BYTES))]
        total += len(data)
    if not kept:
        return _beyond(total)
    first = wanted.first if wanted.suffix is None else total - len(kept)
    headers = {
        "Content-Range": f"bytes {first}-{first + len(kept) - 1}/{total}",
        "Accept-Ranges": "bytes",
        "Cache-Control": "no-store",
    }
    return Response(bytes(kept), status_code=206, media_type="text/plain", headers=headers)


def _overlap(wanted: Wanted, place: int, data: bytes) -> bytes:
    end = len(data) if wanted.last is None else max(0, wanted.last + 1 - place)
    return data[max(0, wanted.first - place) : end]


def _beyond(total: int) -> Response[Any]:
    problem = Problem(
        status=416, title="Range Not Satisfiable", detail=f"the log has {total} bytes, and none of those"
    )
    return Response(
        msgspec.json.encode(problem),
        status_code=416,
        media_type=MEDIA_TYPE,
        headers={"Content-Range": f"bytes */{total}", "Accept-Ranges": "bytes"},
    )
