"""A reader of a partition's log: takes what arrives, and no more than the partition gets on with."""

import asyncio
from collections.abc import Callable

from waterclock.scheduler.ports import Entry, Feed

_ENOUGH_BYTES = 1024 * 1024
_WEIGHT = 0.1
"""Of the last message, in what is known about how much is in one."""


class Reader:
    """Puts entries `into` a list that a pass takes them from, and waits while that holds enough: the rest stays in the
    broker. A reader without bound used up the machine's memory while millions of definitions were stored.
    """

    def __init__(self, into: list[Entry], arrived: Callable[[], None]) -> None:
        self._into = into
        self._arrived = arrived
        self._taken = asyncio.Event()
        self._feed: Feed | None = None
        self._each = 1.0
        """How many definitions there are in a message, about."""

    @property
    def unread(self) -> int:
        """How many definitions have not been read, about."""
        if self._feed is None:
            return 0
        return round((self._feed.pending + len(self._into)) * self._each)

    def taken(self) -> None:
        """Something was taken from the list."""
        self._taken.set()

    async def run(self, feed: Feed) -> None:
        """Until cancelled."""
        self._feed = feed
        while True:
            entries = await feed.next()
            self._weigh(entries[-1])
            self._into.extend(entries)
            self._arrived()
            while sum(len(entry.data) for entry in self._into) > _ENOUGH_BYTES:
                self._taken.clear()
                await self._taken.wait()

    def _weigh(self, entry: Entry) -> None:
        """Without decoding it: every definition's event says its type."""
        found = max(1, entry.data.count(b'"type":"job_'))
        self._each += _WEIGHT * (found - self._each)
