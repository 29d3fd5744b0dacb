"""A reader of a partition's log: takes what arrives, and no more than the partition gets on with."""

import asyncio
from collections.abc import Callable

from waterclock.scheduler.ports import Entry, Feed

_ENOUGH_BYTES = 1024 * 1024


class Reader:
    """Puts entries `into` a list that a pass takes them from, and waits while that holds enough: the rest stays in the
    broker. A reader without bound used up the machine's memory while millions of definitions were stored.
    """

    def __init__(self, into: list[Entry], arrived: Callable[[], None], full: Callable[[], None]) -> None:
        self._into = into
        self._arrived = arrived
        self._full = full
        """Told when it waits: what arrived may not have been worth a pass, but nothing more can come."""
        self._taken = asyncio.Event()
        self._feed: Feed | None = None

    @property
    def unread(self) -> int:
        """How many messages have not been taken."""
        return 0 if self._feed is None else self._feed.pending + len(self._into)

    def taken(self) -> None:
        """Something was taken from the list."""
        self._taken.set()

    async def run(self, feed: Feed) -> None:
        """Until cancelled."""
        self._feed = feed
        while True:
            entries = await feed.next()
            self._into.extend(entries)
            self._arrived()
            while sum(len(entry.data) for entry in self._into) > _ENOUGH_BYTES:
                self._taken.clear()
                self._full()
                await self._taken.wait()
