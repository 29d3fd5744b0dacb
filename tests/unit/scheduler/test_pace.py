"""When the next pass of a partition is."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import uvloop

from waterclock.scheduler.pace import Pace, next_stroke


@pytest.fixture
async def pace() -> AsyncIterator[Pace]:
    with Pace() as pace:
        yield pace


def test_after_a_pass_that_decided_little_the_next_is_a_moment_later() -> None:
    assert next_stroke(100.001, 1, 16, before=99.99) == pytest.approx(100.004)


def test_what_follows_from_a_lone_fire_waits_for_no_stroke() -> None:
    assert next_stroke(100.001, 1, 16, before=99.5) == 100.001


def test_passes_that_decide_nothing_keep_their_distance() -> None:
    """As while definitions are read: each pass takes those of a few milliseconds."""
    assert next_stroke(100.001, 0, 16, before=99.5) == pytest.approx(100.004)


@pytest.mark.parametrize(("decided", "partitions"), [(3, 16), (14, 64), (15, 1), (500, 16), (500, 64)])
def test_under_load_all_partitions_have_their_passes_at_the_same_moments(
    decided: int, partitions: int
) -> None:
    strokes = {
        round(next_stroke(began, decided, partitions, before=0.0), 6)
        for began in (100.0001, 100.003, 100.0179)
    }
    assert len(strokes) == 1


def test_the_more_partitions_the_longer_the_stroke_under_load_but_not_without_end() -> None:
    lengths = [next_stroke(0.0, 100, partitions, before=0.0) for partitions in (1, 4, 8, 16, 64)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[3]
    assert lengths[3] == lengths[4]


async def test_a_pass_is_never_early(pace: Pace) -> None:
    for late in (0.0004, 0.0011, 0.0037, 0.0142):
        due = time.monotonic() + late
        await pace.wait(not_before=0.0, due=due)
        assert time.monotonic() >= due


def test_it_is_never_early_on_the_loop_that_services_run_on() -> None:
    async def on_this_loop() -> None:
        with Pace() as pace:
            await test_a_pass_is_never_early(pace)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(on_this_loop())


async def test_who_is_woken_waits_for_the_stroke_and_not_for_what_is_due(pace: Pace) -> None:
    stroke = time.monotonic() + 0.02
    waits = asyncio.create_task(pace.wait(not_before=stroke, due=stroke + 1_000))
    await asyncio.sleep(0)
    pace.wake()
    await waits
    assert time.monotonic() >= stroke


async def test_what_arrives_during_a_pass_makes_the_next_one_begin_at_once(pace: Pace) -> None:
    pace.wake()
    await pace.wait(not_before=0.0, due=time.monotonic() + 1_000)


async def test_a_wake_counts_once(pace: Pace) -> None:
    pace.wake()
    await pace.wait(not_before=0.0, due=time.monotonic() + 1_000)
    again = asyncio.create_task(pace.wait(not_before=0.0, due=time.monotonic() + 1_000))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not again.done()
    pace.wake()
    await again


async def test_others_have_their_turn_even_if_there_is_always_something_to_do(pace: Pace) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for _ in range(5):
        pace.wake()
        await pace.wait(not_before=0.0, due=0.0)
    task.cancel()
    assert turns >= 4
