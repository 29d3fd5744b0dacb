"""`Range` on a run's log: bytes of it by their place, or the last ones. One range; more of them get the whole log."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from litestar import Request, Response
from msgspec import Struct, structs

from waterclock.proto.answers import LogChunk
from waterclock.proto.problem import MEDIA_TYPE, Problem
from waterclock.proto.queries import LogQuery

_RANGE = re.compile(
    r"\s*bytes\s*=\s*(?:(?P<first>\d{1,18})-(?P<last>\d{1,18})?|-(?P<suffix>\d{1,18}))\s*", re.ASCII
)
MOST_BYTES = 16 << 20
"""What is kept in memory for one answer; who asks for more gets so much of it, and asks on."""
_FARTHEST = 2**53
SIZE_HEADER = "Waterclock-Log-Size"
"""The bytes of the whole log, or of the attempt that was asked for, however much of it is in the answer."""


class Wanted(Struct, frozen=True):
    first: int = 0
    last: int | None = None
    suffix: int | None = None
    """The last so many bytes, wherever they begin."""


def wanted_range(http: Request[Any, Any, Any], asked: LogQuery) -> Wanted | None:
    """None for the whole; for what is followed, since that has no end; and for what is a part already."""
    match = _RANGE.fullmatch(http.headers.get("range", ""))
    if match is None or asked.follow or asked.offset or asked.tail is not None:
        return None
    if match["suffix"] is not None:
        return Wanted(suffix=int(match["suffix"]))
    first, last = int(match["first"]), None if match["last"] is None else int(match["last"])
    return None if last is not None and last < first else Wanted(first=first, last=last)


def query_of(wanted: Wanted, asked: LogQuery) -> LogQuery:
    """What is before the range is not read."""
    if wanted.suffix is not None:
        return structs.replace(asked, tail=min(wanted.suffix, MOST_BYTES))
    return structs.replace(asked, offset=min(wanted.first, _FARTHEST))


async def part_of(wanted: Wanted, chunks: AsyncGenerator[LogChunk, None]) -> Response[Any]:
    """`chunks`: as `query_of` asks for them. What comes after the range is not read either."""
    first, total, kept = 0, 0, bytearray()
    room = MOST_BYTES if wanted.last is None else min(MOST_BYTES, wanted.last + 1 - wanted.first)
    async with aclosing(chunks):
        async for chunk in chunks:
            if chunk.size is not None:
                first, total = chunk.offset, chunk.size
            kept += chunk.text.encode() if chunk.data is None else chunk.data
            if len(kept) >= room:
                break
    del kept[room:]
    if not kept:
        return _beyond(total)
    headers = {
        "Content-Range": f"bytes {first}-{first + len(kept) - 1}/{total}",
        "Accept-Ranges": "bytes",
        "Cache-Control": "no-store",
        SIZE_HEADER: str(total),
    }
    return Response(bytes(kept), status_code=206, media_type="text/plain", headers=headers)


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
