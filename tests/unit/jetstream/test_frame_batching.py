"""How many events are sent together, and what happens when the writer itself fails."""

import asyncio
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as some

from waterclock.core.jetstream.errors import LogError, LogUnavailable, TooLarge
from waterclock.core.jetstream.frame_writer import (
    MAX_BYTES,
    MAX_EVENTS,
    FrameWriter,
    _PartitionBuffer,
    _Piece,
    _tick_before,
)
from waterclock.core.jetstream.publisher import Publisher
from waterclock.proto.codec import decode_frame
from waterclock.proto.events import RunStarted, RunSucceeded


def buffer_of(*sizes: int) -> _PartitionBuffer:
    buffer = _PartitionBuffer(0)
    for size in sizes:
        buffer.add(_Piece(b"x" * size, 1, lambda _: None))
    return buffer


def test_all_that_fits_leaves_at_once() -> None:
    buffer = buffer_of(10, 20, 30)
    assert len(buffer.take()) == 3
    assert (buffer.pieces, buffer.count, buffer.size) == ([], 0, 0)


def test_a_frame_has_a_limit_of_events() -> None:
    buffer = buffer_of(*[10] * (MAX_EVENTS + 7))
    assert buffer.is_full
    assert len(buffer.take()) == MAX_EVENTS
    assert (len(buffer.pieces), buffer.count, buffer.size) == (7, 7, 70)


def test_a_frame_has_a_limit_of_bytes() -> None:
    third = MAX_BYTES // 3 + 1
    buffer = buffer_of(third, third, third, third)
    assert [len(buffer.take()), len(buffer.take())] == [2, 2]
    assert buffer.size == 0


def test_an_event_over_the_limit_travels_alone() -> None:
    buffer = buffer_of(MAX_BYTES * 2, 1)
    assert [len(buffer.take()), len(buffer.take())] == [1, 1]


def test_what_came_together_is_not_cut() -> None:
    buffer = _PartitionBuffer(0)
    for _ in range(10):
        buffer.add(_Piece(b"x", 60, lambda _: None))
    assert [len(buffer.take()), buffer.count, len(buffer.take()), buffer.count] == [8, 120, 2, 0]


def test_what_did_not_leave_goes_first_next_time() -> None:
    buffer = buffer_of(1, 2)
    taken = buffer.take()
    buffer.add(_Piece(b"later", 3, lambda _: None))
    buffer.put_back(taken)
    assert [len(piece.data) for piece in buffer.pieces] == [1, 2, 5]
    assert (buffer.count, buffer.size) == (5, 8)


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


class KeptFrames:
    """Takes every frame, and keeps it."""

    max_payload = 1024 * 1024

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    async def publish(self, _subject: str, data: bytes, **__: object) -> int:
        self.frames.append(data)
        return len(self.frames)


_EVENTS = some.builds(
    RunSucceeded,
    run_id=some.text(min_size=1, max_size=20),
    at=some.integers(0, 2**60),
    attempt=some.integers(1, 9),
    executor_id=some.just("executor-1"),
    started=some.integers(0, 2**60),
    output=some.none() | some.text() | some.just([{"a": [1, "],["]}]),
)


@given(some.lists(some.lists(_EVENTS, min_size=1, max_size=5), min_size=1, max_size=5), some.booleans())
def test_a_frame_holds_the_events_in_their_order_however_they_came(
    groups: list[list[RunSucceeded]], each_by_itself: bool
) -> None:
    async def written() -> list[int | LogError]:
        writer = FrameWriter(cast(Publisher, publisher), writer='executor "1"', linger=0.0)
        results: list[int | LogError] = []
        for group in groups:
            if each_by_itself:
                for event in group:
                    writer.submit(3, event, results.append)
            else:
                writer.submit_all(3, group, results.append)
        assert writer.unacknowledged == sum(map(len, groups))
        await writer.flush()
        assert writer.unacknowledged == 0
        return results

    publisher = KeptFrames()
    results = asyncio.run(written())
    assert results == [1] * (sum(map(len, groups)) if each_by_itself else len(groups))
    (frame,) = map(decode_frame, publisher.frames)
    assert frame.writer == 'executor "1"'
    assert list(frame.events) == [event for group in groups for event in group]


async def test_what_is_large_is_cut_where_a_frame_is_full() -> None:
    publisher = KeptFrames()
    writer = FrameWriter(cast(Publisher, publisher), writer="executor-1", linger=0.0)
    large = [succeeded("x" * (MAX_BYTES // 3)) for _ in range(4)]
    results: list[int | LogError] = []
    writer.submit_all(3, large, results.append)
    await writer.flush()
    assert [len(decode_frame(frame).events) for frame in publisher.frames] == [2, 2]
    assert results == [2]


async def test_one_that_fits_into_no_frame_is_said_to_and_the_others_are_written() -> None:
    publisher = KeptFrames()
    writer = FrameWriter(cast(Publisher, publisher), writer="executor-1", linger=0.0)
    results: list[int | LogError] = []
    writer.submit_all(3, [succeeded("x" * publisher.max_payload), succeeded("y")], results.append)
    await writer.flush()
    assert [event.output for frame in publisher.frames for event in decode_frame(frame).events] == ["y"]  # type: ignore[union-attr]
    assert [type(result) for result in results] == [TooLarge]


def succeeded(output: str) -> RunSucceeded:
    return RunSucceeded(run_id="job@1", at=2, attempt=1, executor_id="executor-1", started=1, output=output)
