"""A timer that ends on time, with Linux's timers and without."""

import asyncio
import os
import sys
import time

import pytest

from waterclock.core.runtime import precise_timer
from waterclock.core.runtime.precise_timer import PreciseTimer


@pytest.fixture(params=["a file", "the loop"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "the loop":
        monkeypatch.setattr(precise_timer, "_libc", None)
    elif precise_timer._libc is None:
        pytest.skip("there are no timers as files here")


async def test_it_ends_and_not_early() -> None:
    ended = asyncio.Event()
    timer = PreciseTimer(ended.set)
    for seconds in (0.0, 0.0004, 0.0011):
        ended.clear()
        moment = time.monotonic() + seconds
        timer.set(moment)
        await ended.wait()
        assert time.monotonic() >= moment
    timer.close()


async def test_a_moment_that_has_passed_is_now() -> None:
    ended = asyncio.Event()
    timer = PreciseTimer(ended.set)
    timer.set(0.0)
    await ended.wait()
    timer.close()


async def test_only_what_was_set_last_counts() -> None:
    ends: list[float] = []
    late = asyncio.Event()
    timer, other = PreciseTimer(lambda: ends.append(time.monotonic())), PreciseTimer(late.set)
    now = time.monotonic()
    timer.set(now + 0.001)
    timer.set(now + 0.004)
    other.set(now + 0.006)
    await late.wait()
    assert len(ends) == 1
    assert ends[0] >= now + 0.004
    timer.set(now + 3600)
    timer.cancel()
    timer.close()
    other.close()


async def test_what_was_cancelled_does_not_end() -> None:
    ends: list[float] = []
    late = asyncio.Event()
    timer, other = PreciseTimer(lambda: ends.append(time.monotonic())), PreciseTimer(late.set)
    now = time.monotonic()
    timer.set(now + 0.002)
    other.set(now + 0.004)
    timer.cancel()
    await late.wait()
    assert not ends
    timer.close()
    other.close()


async def test_nothing_stays_open() -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    if sys.platform != "linux":
        pytest.skip("no way to see what is open")
    before = opened()
    timer = PreciseTimer(lambda: None)
    timer.set(time.monotonic() + 3600)
    timer.close()
    assert opened() == before
