"""How many events are sent together, and what happens when the writer itself fails."""

from typing import cast

import pytest

from waterclock.core.jetstream.errors import LogError, LogUnavailable, TooLarge
from waterclock.core.jetstream.frame_writer import (
    MAX_BYTES,
    MAX_EVENTS,
    FrameWriter,
    _PartitionBuffer,
    _tick_before,
)
from waterclock.core.jetstream.publisher import Publisher
from waterclock.proto.events import RunStarted


def buffer_of(*sizes: int) -> _PartitionBuffer:
    buffer = _PartitionBuffer(0)
    for size in sizes:
        buffer.events.append(b"x" * size)
        buffer.callbacks.append(lambda _: None)
        buffer.size += size
    return buffer


def test_all_that_fits_leaves_at_once() -> None:
    buffer = buffer_of(10, 20, 30)
    events, callbacks = buffer.take()
    assert (len(events), len(callbacks), buffer.events, buffer.size) == (3, 3, [], 0)


def test_a_frame_has_a_limit_of_events() -> None:
    buffer = buffer_of(*[10] * (MAX_EVENTS + 7))
    assert buffer.is_full
    assert len(buffer.take()[0]) == MAX_EVENTS
    assert (len(buffer.events), len(buffer.callbacks), buffer.size) == (7, 7, 70)


def test_a_frame_has_a_limit_of_bytes() -> None:
    third = MAX_BYTES // 3 + 1
    buffer = buffer_of(third, third, third, third)
    assert [len(buffer.take()[0]), len(buffer.take()[0])] == [2, 2]
    assert buffer.size == 0


def test_an_event_over_the_limit_travels_alone() -> None:
    buffer = buffer_of(MAX_BYTES * 2, 1)
    assert [len(buffer.take()[0]), len(buffer.take()[0])] == [1, 1]


def test_frames_that_linger_leave_together_and_never_later_than_promised() -> None:
    assert {_tick_before(time) for time in (7.0201, 7.0220, 7.0249)} == {_tick_before(7.0201)}
    assert _tick_before(7.0201) < _tick_before(7.0251)
    assert 7.0249 - 0.005 < _tick_before(7.0249) <= 7.0249


class BrokenPublisher:
    max_payload = 1024 * 1024

    async def publish(self, *_: object, **__: object) -> int:
        raise RuntimeError("a bug")


async def test_what_breaks_the_writer_reaches_whoever_waits_and_its_owner() -> None:
    writer = FrameWriter(cast(Publisher, BrokenPublisher()), writer="executor-1")
    with pytest.raises(LogUnavailable, match="a bug"):
        await writer.append(1, RunStarted(run_id="job@1", at=1, attempt=1, executor_id="executor-1"))
    with pytest.raises(RuntimeError, match="a bug"):
        await writer.ready()
    assert writer.unacknowledged == 0


class OneFrameFails:
    """Refuses the first frame, and takes the others."""

    max_payload = 1024 * 1024

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.frames = 0

    async def publish(self, *_: object, **__: object) -> int:
        self.frames += 1
        if self.fails and self.frames == 1:
            raise TooLarge("refused")
        return self.frames


@pytest.mark.parametrize("fails", [False, True])
async def test_of_several_events_one_answer_comes_when_all_are_in_the_log_or_one_is_not(fails: bool) -> None:
    publisher = OneFrameFails(fails=fails)
    writer = FrameWriter(cast(Publisher, publisher), writer="executor-1")
    event = RunStarted(run_id="job@1", at=1, attempt=1, executor_id="executor-1")
    results: list[int | LogError] = []
    writer.submit_all(1, [event] * (MAX_EVENTS + 7), results.append)
    await writer.flush()
    assert publisher.frames == 2
    (result,) = results
    assert isinstance(result, TooLarge) if fails else result == 2
    assert writer.unacknowledged == 0
