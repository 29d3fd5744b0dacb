"""When a delivery is acked: when told to, or a moment later, and only while it is certainly ours."""

import asyncio
from typing import cast

import pytest

from waterclock.core.jetstream.messages import Delivery
from waterclock.core.jetstream.work_queue import Acks
from waterclock.executor.attempt import keepalive as module
from waterclock.executor.attempt.keepalive import KeepAlive
from waterclock.executor.in_flight import InFlight, Receipt


class NotedAcks:
    def __init__(self) -> None:
        self.acked: list[object] = []
        self.some = asyncio.Event()

    def ack(self, delivery: Delivery) -> None:
        self.acked.append(delivery)
        self.some.set()


def receipt(name: str, attempts: int = 1) -> Receipt:
    found = Receipt(cast(Delivery, name))
    found.attempts = attempts
    return found


def keepalive(acks: NotedAcks, ack_wait: float = 5.0) -> KeepAlive:
    return KeepAlive(InFlight(), cast(Acks, acks), ack_wait=ack_wait, connected=lambda: True)


async def test_an_ack_waits_until_acks_are_sent() -> None:
    acks = NotedAcks()
    alive = keepalive(acks)
    first = receipt("first")
    alive.delivered(first)
    alive.ack(first)
    assert acks.acked == []
    alive.send_acks()
    assert acks.acked == ["first"]
    alive.send_acks()
    assert acks.acked == ["first"], "and once"


async def test_if_nobody_sends_them_it_leaves_a_moment_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ACK_SECONDS", 0.0)
    acks = NotedAcks()
    alive = keepalive(acks)
    only = receipt("only")
    alive.delivered(only)
    alive.ack(only)
    await acks.some.wait()
    assert acks.acked == ["only"]


async def test_a_parcel_is_acked_when_the_log_has_all_of_it() -> None:
    acks = NotedAcks()
    alive = keepalive(acks)
    parcel = receipt("parcel", attempts=3)
    alive.delivered(parcel)
    alive.ack(parcel, 2)
    alive.send_acks()
    assert acks.acked == []
    alive.ack(parcel, 1)
    alive.send_acks()
    assert acks.acked == ["parcel"]


async def test_what_somebody_else_may_have_by_then_is_not_acked() -> None:
    """The gap is noticed when the ack would leave, although there was none yet when the outcome was in the log."""
    acks = NotedAcks()
    alive = keepalive(acks)
    held = receipt("held")
    alive.delivered(held)
    alive.ack(held)
    alive._last -= 6.0
    alive.send_acks()
    assert acks.acked == []
