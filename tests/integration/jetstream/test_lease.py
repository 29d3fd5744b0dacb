"""One holder at a time, and the broker refuses the one who was."""

import asyncio

import pytest

from integration.jetstream.outage import hanging, restart
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream import lease as lease_module
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.lease import Lease, LeaseState
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.publisher import Expect, Publisher

SUBJECT = "wc.lease.1"


def alive(_: LeaseState) -> bool:
    return False


def dead(_: LeaseState) -> bool:
    return True


def lease(connection: Connection, holder: str) -> Lease:
    return Lease(connection, Publisher(connection, deadline=None), "RUNS", SUBJECT, holder=holder)


async def taken(connection: Connection, holder: str) -> Lease:
    held = lease(connection, holder)
    assert await held.acquire(alive) is not None
    return held


async def append(publisher: Publisher, fence: Expect) -> int:
    return await publisher.publish("wc.runs.1", b"frame", expect=fence)


async def test_only_one_of_many_gets_it(connection: Connection) -> None:
    rivals = [lease(connection, f"rival-{n}") for n in range(10)]
    tokens = await asyncio.gather(*(rival.acquire(alive) for rival in rivals))
    winners = [rival for rival, token in zip(rivals, tokens, strict=True) if token is not None]
    assert len(winners) == 1
    state = await winners[0].read()
    assert state is not None
    assert (state.holder, state.token) == (f"rival-{rivals.index(winners[0])}", winners[0].token)
    for loser in rivals:
        if loser is not winners[0]:
            with pytest.raises(Conflict):
                loser.fence()


async def test_the_token_stays_for_as_long_as_the_holder(
    connection: Connection, publisher: Publisher
) -> None:
    held = await taken(connection, "a")
    token = held.token
    for _ in range(3):
        await append(publisher, held.fence())
        await held.keep_stored()
        await held.confirm()
    assert held.token == token


async def test_it_passes_on_only_when_the_holder_is_said_to_be_dead(
    connection: Connection, publisher: Publisher
) -> None:
    a, b = await taken(connection, "a"), lease(connection, "b")
    old = a.fence()
    assert await b.acquire(lambda state: state.holder != "a") is None
    assert await b.acquire(lambda state: state.holder == "a") is not None
    with pytest.raises(Conflict):
        await append(publisher, old)
    await append(publisher, b.fence())
    with pytest.raises(Conflict):
        await a.confirm()
    assert a.token is None
    assert (await stream_state(connection, "RUNS")).messages == 2, "a lease replaces the one before it"


async def test_of_two_who_find_the_holder_dead_one_gets_it(connection: Connection) -> None:
    def a_is_dead(state: LeaseState) -> bool:
        return state.holder == "a"

    await taken(connection, "a")
    tokens = await asyncio.gather(*(lease(connection, holder).acquire(a_is_dead) for holder in "bcdefgh"))
    assert len([token for token in tokens if token is not None]) == 1


async def test_a_release_frees_it_at_once_and_for_good(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    a, b = await taken(connection, "a"), lease(connection, "b")
    old = a.fence()
    await a.release()
    assert a.token is None
    await restart(nats_server)
    assert await b.read() is None
    assert await b.acquire(alive) is not None
    with pytest.raises(Conflict):
        await append(publisher, old)
    await a.release()
    state = await b.read()
    assert state is not None
    assert state.holder == "b"


async def test_our_own_lease_that_we_do_not_know_of_gets_a_new_token(
    connection: Connection, publisher: Publisher
) -> None:
    """A partition that failed and could not give its lease back; what it had under way must not arrive any more."""
    before = await taken(connection, "a")
    again = await taken(connection, "a")
    with pytest.raises(Conflict):
        await append(publisher, before.fence())
    await append(publisher, again.fence())


async def test_it_is_written_again_before_the_stream_forgets_it(
    connection: Connection, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await taken(connection, "a")
    first = held.token
    monkeypatch.setattr(lease_module, "_REFRESH_AFTER", -1.0)
    await held.keep_stored()
    assert first is not None
    assert held.token is not None
    assert held.token > first
    await append(publisher, held.fence())
    await lease(connection, "b").acquire(dead)
    with pytest.raises(Conflict):
        await held.keep_stored()


async def test_a_lease_of_the_version_before_is_respected_until_it_expires(
    connection: Connection, publisher: Publisher
) -> None:
    await publisher.publish(SUBJECT, b'{"holder":"old"}', ttl_seconds=1, rollup=True)
    b = lease(connection, "b")
    assert await b.acquire(alive) is None
    await eventually(lambda: b.acquire(alive), wanted=lambda token: token is not None, within=4)


async def test_it_survives_a_crash_of_the_server(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    a = await taken(connection, "a")
    await restart(nats_server)
    await a.confirm()
    assert await append(publisher, a.fence())
    assert await lease(connection, "b").acquire(alive) is None


async def test_a_server_that_hangs_does_not_end_it(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    a = await taken(connection, "a")
    patient = Publisher(connection, deadline=None)
    async with hanging(nats_server):
        appending = asyncio.create_task(append(patient, a.fence()))
        confirming = asyncio.create_task(a.confirm())
        await asyncio.wait([appending, confirming], timeout=3)
        assert not appending.done()
    await confirming
    sequence = await appending
    assert (await stream_state(connection, "RUNS")).last_seq == sequence, "it is there once"
