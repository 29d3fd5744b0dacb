"""Lines come out whole wherever the file is cut into pieces, and a reader goes back when it must."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.core.domain.partition.decisions import LinesNeeded
from waterclock.core.store.store import Missing, Stored
from waterclock.scheduler.fan_out_lines import LONGEST, StoredLines
from waterclock.scheduler.ports import UnreadableLines


class Pieces:
    """A store with one object, in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.opened = 0

    async def get(self, name: str, start: int = 0) -> AsyncIterator[bytes]:
        if name != "there":
            raise Missing(name)
        self.opened += 1
        for piece in self._pieces:
            yield piece

    async def put(self, name: str, content: AsyncIterator[bytes]) -> int:
        raise NotImplementedError

    async def size(self, name: str) -> int | None:
        raise NotImplementedError

    async def delete(self, name: str) -> None:
        raise NotImplementedError

    async def check(self) -> None:
        raise NotImplementedError

    async def list(self, prefix: str = "") -> AsyncIterator[Stored]:
        raise NotImplementedError
        yield


def needed(start: int, count: int, *, counted: bool = True, artifact: str = "there") -> LinesNeeded:
    return LinesNeeded(artifact=artifact, start=start, count=count, counted=counted)


@settings(max_examples=60)
@given(
    st.lists(st.text(alphabet="aé \t", max_size=6), max_size=12),
    st.integers(1, 7),
    st.integers(1, 5),
    st.booleans(),
)
async def test_every_line_once_and_in_order(lines: list[str], size: int, count: int, ends: bool) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ends and lines else b"")
    expected = data.decode().split("\n")
    if expected[-1] == "":
        expected.pop()
    reader = StoredLines(Pieces(*(data[at : at + size] for at in range(0, len(data), size))))
    found: list[str] = []
    _, total = await reader.read("run", needed(0, count, counted=False))
    assert total == len(expected)
    while len(found) < len(expected):
        more, _ = await reader.read("run", needed(len(found), count))
        assert more
        found += more
    assert found == expected


async def test_reading_on_opens_the_file_once_and_going_back_opens_it_again() -> None:
    store = Pieces(b"a\r\nb\nc\nd\n")
    reader = StoredLines(store)
    assert (await reader.read("run", needed(0, 2)))[0] == ["a", "b"]
    assert (await reader.read("run", needed(2, 1)))[0] == ["c"]
    assert store.opened == 1
    assert (await reader.read("run", needed(1, 2)))[0] == ["b", "c"]
    assert store.opened == 2
    assert (await reader.read("another", needed(3, 5)))[0] == ["d"]


@pytest.mark.parametrize(
    ("pieces", "artifact", "reason"),
    [
        ((), "gone", "not in the store"),
        ((b"\xff\n",), "there", "not text"),
        ((b"x" * (LONGEST + 1),), "there", "longer than"),
    ],
)
async def test_what_cannot_be_read_is_said(pieces: tuple[bytes, ...], artifact: str, reason: str) -> None:
    with pytest.raises(UnreadableLines, match=reason):
        await StoredLines(Pieces(*pieces)).read("run", needed(0, 5, artifact=artifact))
