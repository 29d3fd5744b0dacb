"""The lifecycle contract: whatever runs until told to stop must pass through this unharmed.

`await exercise_lifecycle(lambda stop: run(settings, stop))`
"""

import asyncio
from collections.abc import Awaitable, Callable

from waterclock.core.runtime.lifecycle import StopSignal, exit_code_of

Run = Callable[[StopSignal], Awaitable[None]]

_MOMENTS = (0, 1, 2, 3, 5, 8, 13, 50, 500)
"""After so many turns of the loop it is stopped: from before its first step until well into its work."""


async def exercise_lifecycle(run: Run, *, within: float = 10.0) -> None:
    """Stop it and cancel it at every stage of its life; it ends each time, cleanly and with nothing left behind."""
    for turns in _MOMENTS:
        await _stopped_after(run, turns, within)
        await _cancelled_after(run, turns, within)
    await _stopped_before_start(run, within)
    await _stopped_twice(run, within)


async def _stopped_before_start(run: Run, within: float) -> None:
    stop = StopSignal()
    stop.set()
    await _ends(asyncio.ensure_future(run(stop)), stop, within, "stopped before it started")


async def _stopped_after(run: Run, turns: int, within: float) -> None:
    stop = StopSignal()
    service = asyncio.ensure_future(run(stop))
    await _turn(turns)
    stop.set()
    await _ends(service, stop, within, f"stopped after {turns} turns")


async def _stopped_twice(run: Run, within: float) -> None:
    stop = StopSignal()
    service = asyncio.ensure_future(run(stop))
    await _turn(_MOMENTS[-1])
    stop.set()
    await _turn(1)
    stop.set()
    await _ends(service, stop, within, "stopped twice")


async def _ends(service: "asyncio.Future[None]", stop: StopSignal, within: float, when: str) -> None:
    before = asyncio.all_tasks() - {service}
    assert await asyncio.wait_for(exit_code_of(service, stop, grace=within), within) == 0, when
    _nothing_left(before, when)


async def _cancelled_after(run: Run, turns: int, within: float) -> None:
    """As when the grace is over, or the process is on its way out."""
    before = asyncio.all_tasks()
    service = asyncio.ensure_future(run(StopSignal()))
    await _turn(turns)
    service.cancel()
    done, _ = await asyncio.wait([service], timeout=within)
    assert done, f"cancelled after {turns} turns, it went on"
    assert service.cancelled(), f"cancelled after {turns} turns, it swallowed the cancellation"
    _nothing_left(before, f"cancelled after {turns} turns")


def _nothing_left(before: "set[asyncio.Task[object]]", when: str) -> None:
    left = {task for task in asyncio.all_tasks() - before if not task.done()}
    assert not left, f"{when}, it left tasks behind: {left}"


async def _turn(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
