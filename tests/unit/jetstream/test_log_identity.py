"""Which stream can be the one that is known, and how long a new leader is waited for."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from waterclock.core.domain.instants import instant_of
from waterclock.core.jetstream import log_identity
from waterclock.core.jetstream.log_identity import (
    KnownStream,
    LogReplaced,
    LogWentBack,
    check_stream,
    compare,
)
from waterclock.core.jetstream.messages import StreamState

CREATED = datetime(2026, 11, 17, 8, tzinfo=UTC)
KNOWN = KnownStream(stream="RUNS", created=instant_of(CREATED), last_sequence=10)


def state(last: int, created: datetime = CREATED, *, replicated: bool = False) -> StreamState:
    return StreamState(created=created, first_seq=1, last_seq=last, messages=last, replicated=replicated)


def answering(*answers: StreamState) -> Callable[[str], Awaitable[StreamState]]:
    """One after the other; the last one for ever."""
    remaining = list(answers)

    async def read_state(stream: str) -> StreamState:
        assert stream == KNOWN.stream
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return read_state


@pytest.mark.parametrize("last", [10, 11])
def test_a_stream_that_has_gone_on_is_the_same(last: int) -> None:
    compare(KNOWN, state(last))


def test_a_stream_that_ends_earlier_has_lost_its_end() -> None:
    with pytest.raises(LogWentBack, match=r"ends at sequence 9.*reach 10.*lost its end.*restore"):
        compare(KNOWN, state(9))


def test_a_stream_created_at_another_time_is_another_one() -> None:
    with pytest.raises(LogReplaced, match="made anew"):
        compare(KNOWN, state(10, CREATED + timedelta(microseconds=1)))


def test_who_knows_only_how_far_it_had_read_compares_that() -> None:
    known = KnownStream(stream="RUNS", last_sequence=10)
    compare(known, state(10, CREATED + timedelta(days=1)))
    with pytest.raises(LogWentBack):
        compare(known, state(9))


async def test_a_new_leader_that_catches_up_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_identity, "_ASK_AGAIN", 0.0)
    found = await check_stream(answering(state(9, replicated=True), state(12, replicated=True)), KNOWN)
    assert found.last_seq == 12


async def test_a_leader_that_does_not_catch_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_identity, "_LEADER_CATCHES_UP", 0.05)
    monkeypatch.setattr(log_identity, "_ASK_AGAIN", 0.0)
    with pytest.raises(LogWentBack):
        await check_stream(answering(state(9, replicated=True)), KNOWN)


async def test_a_single_server_is_refused_at_once() -> None:
    with pytest.raises(LogWentBack):
        await check_stream(answering(state(9), state(12)), KNOWN)
