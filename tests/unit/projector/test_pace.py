"""How long events gather between batches, and that somebody who waits shortens it."""

import asyncio

import pytest

from waterclock.projector.pace import MOST_EVENTS, Pace
from waterclock.projector.read.batch_reader import LULL, BatchReader
from waterclock.projector.read.positions import Positions


class NothingArrives(BatchReader):
    """Notes for how long it is to gather, and is told at once that somebody waits, or that the time is over."""

    def __init__(self, hurries: int = 0) -> None:
        super().__init__(None, Positions({}))  # type: ignore[arg-type]
        self.asked: list[float] = []
        self.pace: Pace | None = None
        self._hurries = hurries

    async def gather(self, most: int, seconds: float) -> bool:
        assert most == MOST_EVENTS
        self.asked.append(seconds)
        if self._hurries and self.pace is not None:
            self._hurries -= 1
            self.pace.hurry()
            return False
        return True


async def gaps(events: int, hurries: int = 0) -> list[float]:
    reader = NothingArrives()
    reader.pace = pace = Pace(reader)
    await pace.next_batch()
    pace.folded(events)
    reader._hurries = hurries
    await pace.next_batch()
    assert reader.asked[0] < 0, "the first event is folded at once"
    return reader.asked[1:]


@pytest.mark.parametrize(
    ("events", "longest"), [(1, 0.25), (19, 0.25), (20, 0.5), (200, 0.5), (2_000, 1.0), (10_000, 1.5)]
)
async def test_events_gather_for_longer_the_more_there_are(events: int, longest: float) -> None:
    (asked,) = await gaps(events)
    assert 0 < asked <= longest


async def test_somebody_who_waits_cuts_the_gap_short() -> None:
    asked, then = await gaps(events=1, hurries=1)
    assert then <= 0.01 < asked


async def test_gathering_ends_with_the_word_that_somebody_waits() -> None:
    reader = NothingArrives()
    gathering = asyncio.create_task(BatchReader.gather(reader, MOST_EVENTS, 3600.0))
    await asyncio.sleep(0)
    reader.enough()
    assert await gathering is False


async def test_gathering_ends_when_nothing_more_arrives() -> None:
    """Of an hour only as long as it takes to see that."""
    assert await BatchReader.gather(NothingArrives(), MOST_EVENTS, 3600.0)


async def test_gathering_goes_on_while_something_arrives() -> None:
    reader = NothingArrives()
    gathering = asyncio.create_task(BatchReader.gather(reader, MOST_EVENTS, 2 * LULL))
    began = asyncio.get_running_loop().time()
    while not gathering.done():
        reader._note_arrival()
        await asyncio.sleep(0)
    assert asyncio.get_running_loop().time() - began >= 2 * LULL


@pytest.mark.parametrize(("events", "in_the_log"), [(1, True), (199, True), (200, False)])
async def test_few_events_gather_in_the_log(events: int, in_the_log: bool) -> None:
    reader = NothingArrives()
    Pace(reader).folded(events)
    assert reader.rests is in_the_log
