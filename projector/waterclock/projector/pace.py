"""When the next batch is folded: a lone event at once, a stream of them in batches.

A transaction costs the same for one row and for a dozen, and a run that was queued and ended within a batch is one row,
written once. So events gather for a while after each batch; less while somebody waits for them, which the api says when
it has looked in vain (`names.FRESHNESS_WANTED`). Few events gather in the log, from where they are read together: a
message that is delivered by itself costs the server and us more than to fold it.
"""

import asyncio

from waterclock.projector.read.batch_reader import BatchReader

MOST_EVENTS = 60_000
"""Events folded at once."""
_GAPS = ((10_000, 1.5, 1.0), (2_000, 1.0, 0.4), (200, 0.5, 0.1), (20, 0.5, 0.01), (0, 0.25, 0.01))
"""After a batch of so many events the next one begins so many seconds later, or so many if somebody waits."""
_FEW = 200
"""Events of a batch after which the next gathers in the log."""
_WANTED = 0.1
"""How long a word that somebody waits is heeded. What they wait for may not have arrived here yet."""


class Pace:
    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._began = 0.0
        self._events = 0
        self._wanted_until = 0.0

    def hurry(self) -> None:
        """Somebody waits."""
        self._wanted_until = self._loop.time() + _WANTED
        self._reader.enough()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits, or has just now."""
        return self._loop.time() < self._wanted_until

    async def next_batch(self) -> float:
        """Wait until it is time to fold; answers the time."""
        while not await self._reader.gather(MOST_EVENTS, self._began + self._gap() - self._loop.time()):
            pass  # somebody waits: what is left of the gap is less now
        await self._reader.fetch()
        self._began = self._loop.time()
        return self._began

    def folded(self, events: int) -> None:
        self._events = events
        if events < _FEW:
            self._reader.rest()
        else:
            self._reader.flow()

    def _gap(self) -> float:
        gap, wanted = next(gaps for least, *gaps in _GAPS if self._events >= least)
        return wanted if self.is_wanted else gap
