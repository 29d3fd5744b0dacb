"""One holder at a time, and the broker refuses the one who was."""

import asyncio
import time

import pytest

from integration.jetstream.outage import restart
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict, ServerRefused
from waterclock.core.jetstream.lease import Lease
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.publisher import Expect, Publisher

SUBJECT = "wc.lease.1"


def lease(connection: Connection, publisher: Publisher, holder: str, ttl: float = 1) -> Lease:
    return Lease(connection, publisher, "RUNS", SUBJECT, holder=holder, ttl=ttl)


async def append(publisher: Publisher, token: int) -> int:
    fence = Expect(last_subject_sequence=token, subject=SUBJECT)
    return await publisher.publish("wc.runs.1", b"frame", expect=fence)


async def test_only_one_of_many_gets_it(connection: Connection, publisher: Publisher) -> None:
    rivals = [lease(connection, publisher, f"rival-{n}", ttl=5) for n in range(10)]
    tokens = await asyncio.gather(*(rival.acquire() for rival in rivals))
    winners = [rival for rival, token in zip(rivals, tokens, strict=True) if token is not None]
    assert len(winners) == 1
    state = await winners[0].read()
    assert state is not None
    assert (state.holder, state.token) == (f"rival-{rivals.index(winners[0])}", winners[0].token)
    assert winners[0].held
    assert sum(rival.held for rival in rivals) == 1


async def test_a_renewal_is_a_new_token_and_a_new_term(connection: Connection, publisher: Publisher) -> None:
    held = lease(connection, publisher, "a", ttl=4)
    first = await held.acquire()
    assert first is not None
    term = held.expires
    assert time.monotonic() + 2.9 < term < time.monotonic() + 3.1
    second = await held.renew()
    assert second > first
    assert held.expires > term
    assert await append(publisher, second)
    with pytest.raises(Conflict):
        await append(publisher, first)
    assert (await stream_state(connection, "RUNS")).messages == 2


async def test_it_expires_and_passes_to_the_next(connection: Connection, publisher: Publisher) -> None:
    a, b = lease(connection, publisher, "a"), lease(connection, publisher, "b")
    began = time.monotonic()
    token = await a.acquire()
    assert token is not None
    assert await b.acquire() is None
    await eventually(b.acquire, wanted=lambda taken: taken is not None, within=3)
    assert time.monotonic() - began >= 1
    assert not a.held
    with pytest.raises(Conflict):
        await append(publisher, token)
    with pytest.raises(Conflict):
        await a.renew()
    assert a.token is None


async def test_an_old_token_does_not_come_back_when_the_newer_lease_expires(
    connection: Connection, publisher: Publisher
) -> None:
    """A holds for long, B takes over (compare-and-set on A's message) and expires, A wakes up."""
    a = lease(connection, publisher, "a", ttl=60)
    old = await a.acquire()
    assert old is not None
    await publisher.publish(
        SUBJECT,
        b'{"holder":"b"}',
        expect=Expect(last_subject_sequence=old),
        ttl_seconds=1,
        rollup=True,
    )
    await eventually(a.read, wanted=lambda state: state is None, within=3)
    with pytest.raises(Conflict):
        await append(publisher, old)
    with pytest.raises(Conflict):
        await a.renew()
    assert await a.acquire() is not None


async def test_a_release_frees_it_at_once(connection: Connection, publisher: Publisher) -> None:
    a, b = lease(connection, publisher, "a", ttl=60), lease(connection, publisher, "b", ttl=60)
    token = await a.acquire()
    assert token is not None
    await a.release()
    assert a.token is None
    assert await a.read() is None
    taken = await b.acquire()
    assert taken is not None
    with pytest.raises(Conflict):
        await append(publisher, token)
    await a.release()
    state = await b.read()
    assert state is not None
    assert state.holder == "b"


async def test_what_a_release_leaves_goes_away(connection: Connection, publisher: Publisher) -> None:
    a = lease(connection, publisher, "a")
    await a.acquire()
    await a.release()
    await eventually(
        lambda: stream_state(connection, "RUNS"), wanted=lambda state: state.messages == 0, within=3
    )
    assert await a.acquire() is not None


async def test_our_own_lease_that_we_do_not_know_of_is_taken_up(
    connection: Connection, publisher: Publisher
) -> None:
    """A renewal that was stored although its caller was told that it is unknown."""
    a = lease(connection, publisher, "a", ttl=60)
    first = await a.acquire()
    assert first is not None
    await lease(connection, publisher, "a", ttl=60).acquire()
    second = await a.renew()
    assert second > first
    assert await append(publisher, second)


async def test_renewals_wait_for_a_fenced_append(connection: Connection, publisher: Publisher) -> None:
    a = lease(connection, publisher, "a", ttl=60)
    await a.acquire()
    async with a.fenced() as fence:
        renewing = asyncio.create_task(a.renew())
        await publisher.publish("wc.runs.1", b"1", expect=fence)
        await publisher.publish("wc.runs.1", b"2", expect=fence)
    assert await renewing == 4
    await a.release()
    with pytest.raises(Conflict):
        async with a.fenced():
            pass


async def test_a_holder_stops_itself_before_the_server_forgets_it(
    connection: Connection, publisher: Publisher
) -> None:
    a = Lease(connection, publisher, "RUNS", SUBJECT, holder="a", ttl=60, margin=60)
    assert await a.acquire() is not None
    assert not a.held
    with pytest.raises(Conflict):
        async with a.fenced():
            pass
    assert await a.read() is not None


async def test_the_lease_survives_a_crash_of_the_server_and_still_expires(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    a, b = lease(connection, publisher, "a", ttl=2), lease(connection, publisher, "b", ttl=2)
    await a.acquire()
    await restart(nats_server)
    token = await a.renew()
    assert await append(publisher, token)
    assert await b.acquire() is None
    await eventually(b.acquire, wanted=lambda taken: taken is not None, within=4)


async def test_the_shortest_term_is_a_second(connection: Connection, publisher: Publisher) -> None:
    with pytest.raises(ServerRefused, match="TTL"):
        await publisher.publish(SUBJECT, b"{}", headers={"Nats-TTL": "500ms"})
