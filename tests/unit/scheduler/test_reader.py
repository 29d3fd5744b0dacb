"""What a partition does not get on with stays in the broker."""

import asyncio
from collections.abc import Sequence

from support.waiting import eventually
from waterclock.scheduler.ports import Entry
from waterclock.scheduler.reader import Reader


class Message:
    def __init__(self, data: bytes) -> None:
        self.sequence = 1
        self.data = data


class EndlessFeed:
    def __init__(self, data: bytes) -> None:
        self.pending = 1000
        self._data = data

    async def next(self) -> Sequence[Entry]:
        await asyncio.sleep(0)
        self.pending -= 1
        return [Message(self._data)]


async def test_it_stops_while_enough_is_there_and_goes_on_when_it_was_taken() -> None:
    inbox: list[Entry] = []
    feed = EndlessFeed(b"x" * 100_000)
    full: list[int] = []
    reader = Reader(inbox, lambda: None, lambda: full.append(len(inbox)))
    reading = asyncio.create_task(reader.run(feed))
    try:
        await eventually(lambda: len(inbox) == 11)
        assert full == [11]
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(inbox) == 11
        del inbox[:5]
        reader.taken()
        await eventually(lambda: len(inbox) == 11)
        assert feed.pending == 1000 - 16
    finally:
        reading.cancel()


async def test_it_tells_how_many_messages_are_unread() -> None:
    inbox: list[Entry] = []
    feed = EndlessFeed(b"x" * 600_000)
    reader = Reader(inbox, lambda: None, lambda: None)
    assert reader.unread == 0
    reading = asyncio.create_task(reader.run(feed))
    try:
        await eventually(lambda: len(inbox) == 2)
        assert reader.unread == 1000
    finally:
        reading.cancel()
