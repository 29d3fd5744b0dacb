"""Publishing while the server dies, hangs or loses its voice: nothing acknowledged is lost, nothing is stored
twice, nobody waits beyond the deadline, and what failed does not appear later."""

import asyncio
import time
from collections.abc import Callable

import pytest

from integration.jetstream.outage import hanging, kill, restart, start
from integration.jetstream.relay import Relay, relay
from servers.server import Server
from support.waiting import eventually
from waterclock.core.jetstream import publisher as publisher_module
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict, LogFull, LogUnavailable
from waterclock.core.jetstream.messages import last_message, message_at, stream_state
from waterclock.core.jetstream.publisher import Expect, Message, Publisher


async def test_every_acknowledged_message_survives_kill_nine(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    acknowledged: dict[str, int] = {}
    enough = asyncio.Event()

    async def write(writer: int) -> None:
        number = 0
        while not enough.is_set():
            subject = f"wc.jobs.{writer}.{number}"
            number += 1
            acknowledged[subject] = await publisher.publish(
                subject, subject.encode(), expect=Expect(last_subject_sequence=0), deadline=20
            )

    async with asyncio.TaskGroup() as writers:
        for writer in range(16):
            writers.create_task(write(writer))
        for _ in range(2):
            before = len(acknowledged)
            while len(acknowledged) < before + 200:
                await asyncio.sleep(0.01)
            await restart(nats_server)
        enough.set()

    assert (await stream_state(connection, "JOBS")).messages == len(acknowledged)
    for subject, sequence in acknowledged.items():
        stored = await message_at(connection, "JOBS", sequence)
        assert stored is not None
        assert stored.subject == subject


async def test_batches_under_kill_nine_are_whole_and_single(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    finished = 0
    enough = asyncio.Event()

    async def write(writer: int) -> int:
        nonlocal finished
        number = 0
        while not enough.is_set():
            batch = [Message(subject=f"wc.jobs.{writer}.{number}-{n}", data=b"x" * 200) for n in range(50)]
            await publisher.publish_batch(batch, deadline=20)
            number += 1
            finished += 1
        return number

    async with asyncio.TaskGroup() as group:
        writers = [group.create_task(write(writer)) for writer in range(4)]
        for _ in range(2):
            before = finished
            while finished < before + 20:
                await asyncio.sleep(0.01)
            await restart(nats_server)
        enough.set()

    batches = sum(writer.result() for writer in writers)
    assert (await stream_state(connection, "JOBS")).messages == batches * 50


async def test_while_the_server_is_away_calls_fail_at_their_deadline_and_leave_nothing(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    await kill(nats_server)
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        await publisher.publish("wc.runs.1", b"ghost", deadline=0.5)
    with pytest.raises(LogUnavailable):
        await publisher.publish_work([Message(subject="wc.work.a.light.0.r.1", data=b"ghost")], deadline=0.5)
    with pytest.raises(LogUnavailable):
        await last_message_within(connection, 0.5)
    assert time.monotonic() - began < 2.5
    await start(nats_server)
    assert await publisher.publish("wc.runs.1", b"real") == 1
    assert (await stream_state(connection, "WORK")).messages == 0


async def last_message_within(connection: Connection, timeout: float) -> None:
    await connection.api("STREAM.MSG.GET.RUNS", {"last_by_subj": "wc.runs.1"}, timeout=timeout)


async def test_a_publish_made_while_the_server_is_away_goes_through_when_it_returns(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    await kill(nats_server)
    waiting = asyncio.create_task(publisher.publish("wc.runs.1", b"x", deadline=20))
    await start(nats_server)
    assert await waiting == 1


async def test_a_server_that_hangs_is_unknown_and_a_repeat_is_not_a_second_message(
    connection: Connection, publisher: Publisher, nats_server: Server
) -> None:
    async with hanging(nats_server):
        with pytest.raises(LogUnavailable):
            await publisher.publish("wc.runs.1", b"x", msg_id="once", deadline=0.5)
    await publisher.publish("wc.runs.1", b"x", msg_id="once")
    assert (await stream_state(connection, "RUNS")).messages == 1


async def stored_but_unheard(wire: Relay, connection: Connection, stream: str, before: int) -> None:
    """Wait until the server has stored what the muted client sent, then break the wire."""
    await wire.swallowed.wait()
    assert (await stream_state(connection, stream)).messages > before
    wire.muted = False
    wire.cut()


async def test_a_compare_and_set_whose_answer_was_lost_is_recognised_as_won(
    connection: Connection, log_url: str
) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="muted") as far:
        publisher = Publisher(far)
        wire.muted = True
        writing = asyncio.create_task(
            publisher.publish("wc.jobs.1.a", b"mine", expect=Expect(last_subject_sequence=0))
        )
        await stored_but_unheard(wire, connection, "JOBS", 0)
        assert await writing == 1
        # Also when somebody has built on it before we could ask.
        wire.swallowed.clear()
        wire.muted = True
        writing = asyncio.create_task(
            publisher.publish("wc.jobs.1.a", b"mine too", expect=Expect(last_subject_sequence=1))
        )
        await wire.swallowed.wait()
        await Publisher(connection).publish("wc.jobs.1.a", b"next", expect=Expect(last_subject_sequence=2))
        await stored_but_unheard(wire, connection, "JOBS", 2)
        assert await writing == 2
    assert (await stream_state(connection, "JOBS")).messages == 3


async def test_a_compare_and_set_that_lost_while_unheard_is_a_conflict(
    connection: Connection, log_url: str
) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="muted") as far:
        wire.muted = True
        await Publisher(connection).publish("wc.jobs.1.a", b"rival")
        writing = asyncio.create_task(
            Publisher(far).publish("wc.jobs.1.a", b"mine", expect=Expect(last_subject_sequence=0))
        )
        await stored_but_unheard(wire, connection, "JOBS", 0)
        with pytest.raises(Conflict):
            await writing
    assert (await stream_state(connection, "JOBS")).messages == 1


async def test_a_fenced_batch_whose_answer_was_lost_is_stored_once(
    connection: Connection, log_url: str
) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="muted") as far:
        publisher = Publisher(far)
        token = await publisher.publish("wc.lease.1", b"{}", ttl_seconds=30, rollup=True)
        wire.muted = True
        frames = [Message(subject="wc.runs.1", data=b"1"), Message(subject="wc.runs.1", data=b"2")]
        fence = Expect(last_subject_sequence=token, subject="wc.lease.1")
        writing = asyncio.create_task(publisher.publish_batch(frames, expect=fence))
        await wire.swallowed.wait()
        await Publisher(connection).publish("wc.runs.1", b"of an executor")
        await stored_but_unheard(wire, connection, "RUNS", 3)
        assert await writing == token + 2
    assert (await stream_state(connection, "RUNS")).messages == 4


async def test_work_whose_answer_was_lost_is_left_to_the_owner(connection: Connection, log_url: str) -> None:
    async with relay(log_url) as wire, Connection.open(wire.url, name="muted") as far:
        wire.muted = True
        writing = asyncio.create_task(
            Publisher(far).publish_work([Message(subject="wc.work.a.light.0.r.1", data=b"x")])
        )
        await stored_but_unheard(wire, connection, "WORK", 0)
        with pytest.raises(LogUnavailable):
            await writing
    assert (await stream_state(connection, "WORK")).messages == 1
    assert await last_message(connection, "WORK", "wc.work.a.light.0.r.1") is not None


async def test_a_repeat_that_the_server_does_not_recognize_is_not_stored_again(
    connection: Connection, log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is lost, and the server has forgotten the id before the repeat comes. The expectation still holds."""
    monkeypatch.setattr(publisher_module, "_ATTEMPT", 1.0)
    monkeypatch.setattr(publisher_module, "_IDS_KEPT", 0.5)
    config = (await connection.api("STREAM.INFO.RUNS"))["config"]
    await connection.api("STREAM.UPDATE.RUNS", config | {"duplicate_window": 100_000_000})
    async with relay(log_url) as wire, Connection.open(wire.url, name="far") as far:
        patient = Publisher(far, deadline=None)
        token = await patient.publish("wc.lease.1", b"{}")
        fence = Expect(last_subject_sequence=token, subject="wc.lease.1")
        wire.swallowed.clear()
        wire.muted = True
        publishing = asyncio.create_task(patient.publish("wc.runs.1", b"frame", expect=fence))
        await wire.swallowed.wait()
        wire.muted = False
        sequence = await publishing
        state = await stream_state(connection, "RUNS")
        assert (sequence, state.last_seq) == (token + 1, token + 1)


async def test_without_a_deadline_a_full_stream_is_waited_for(
    connection: Connection, publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    config = (await connection.api("STREAM.INFO.RUNS"))["config"]
    await connection.api("STREAM.UPDATE.RUNS", config | {"max_msgs": 1})
    await publisher.publish("wc.runs.1", b"1")
    with pytest.raises(LogFull):
        await publisher.publish("wc.runs.1", b"2")
    patient = Publisher(connection, deadline=None)
    publishing = asyncio.create_task(patient.publish("wc.runs.1", b"2"))
    await eventually(lambda: "wc.runs.1 waits for the log" in caplog.text)
    assert not publishing.done()
    await connection.api("STREAM.UPDATE.RUNS", config)
    assert await publishing == 2


class Hesitant(Publisher):
    """Its first attempt is under way when it is sent again, as in a cluster that waits for a majority."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.attempts = 0

    async def _attempt(self, write: Callable[[str], bytes], seconds: float) -> int:
        self.attempts += 1
        match self.attempts:
            case 1:
                raise TimeoutError
            case 2 | 3:
                raise Conflict("wrong last sequence (10164)")
            case _:
                return await super()._attempt(write, seconds)


async def test_a_refusal_that_the_log_contradicts_is_none(connection: Connection) -> None:
    hesitant = Hesitant(connection)
    sequence = await hesitant.publish("wc.jobs.1.a", b"a", expect=Expect(last_subject_sequence=0))
    stored = await message_at(connection, "JOBS", sequence)
    assert stored is not None
    assert (stored.data, hesitant.attempts) == (b"a", 4)


async def test_a_refusal_because_of_somebody_else_is_believed(
    connection: Connection, publisher: Publisher
) -> None:
    await publisher.publish("wc.jobs.1.b", b"another's")
    with pytest.raises(Conflict):
        await Hesitant(connection).publish("wc.jobs.1.b", b"b", expect=Expect(last_subject_sequence=0))
    assert (await stream_state(connection, "JOBS")).messages == 1
