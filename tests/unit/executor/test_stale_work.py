"""How long a restarted server is looked after."""

import asyncio
from collections.abc import Callable

import pytest

from waterclock.core.jetstream.errors import LogUnavailable
from waterclock.core.jetstream.work_queue import SweepResult
from waterclock.executor.intake.sources import Source
from waterclock.executor.intake.stale_work import sweep_after_restarts


class Server:
    """Answers sweeps from a script, and lets time pass only from look to look."""

    def __init__(self, *looks: SweepResult | None, restart_at: int = 0) -> None:
        self._looks = list(looks)
        self._restart_at = restart_at
        self.waits: list[float] = []
        self.restart: Callable[[], None] = lambda: None

    def on_reconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.restart = callback
        return lambda: None

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        if len(self.waits) == self._restart_at:
            self.restart()

    async def sweep(self, consumer: str, subject: str) -> SweepResult:
        look = self._looks.pop(0)
        if look is None:
            raise LogUnavailable("away")
        return look

    async def looked_after(self) -> list[float]:
        """The waits until it was left alone."""
        task = asyncio.create_task(
            sweep_after_restarts(self, self, [Source("default", "light", "0", 0)], sleep=self.sleep)
        )
        while self._looks:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return self.waits


def look(done: int, given_out: int) -> SweepResult:
    return SweepResult(0, done, given_out)


async def test_it_is_looked_at_twice_where_nothing_was_under_way() -> None:
    assert await Server(look(7, 7), look(7, 7)).looked_after() == [1, 10]


async def test_it_is_looked_after_until_what_it_had_given_out_is_done() -> None:
    server = Server(look(3, 9), look(3, 12), look(8, 20), look(9, 30))
    assert await server.looked_after() == [1, 10, 10, 10], "9 were given out when it came back"


async def test_a_server_that_is_away_again_is_asked_again() -> None:
    assert await Server(None, look(3, 9), None, look(9, 9)).looked_after() == [1, 10, 10, 10]


async def test_the_next_restart_begins_anew() -> None:
    server = Server(look(3, 9), look(3, 9), look(9, 9), look(9, 9), restart_at=2)
    assert await server.looked_after() == [1, 10, 1, 10]
