"""Alerts against a real receiver that refuses, hangs and recovers; through restarts of who tells."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.heartbeats import scheduler_heartbeat
from support.waiting import eventually
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.settings import Settings
from waterclock.projector.alerts import service
from waterclock.projector.alerts.alert import AlertState
from waterclock.projector.alerts.signing import KEY_ID, SIGNATURE, TIMESTAMP, verify
from waterclock.projector.membership import Membership
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Frame, JobCreated, JobFrame, RunEvent, RunFailed, RunsMissed, RunSucceeded
from waterclock.proto.heartbeats import SchedulerLoad
from waterclock.proto.spec import JobSpec, Shell

PARTITIONS = 4
SECRET = "a-secret-for-these-tests"


class Receiver:
    """Answers as it is told: with a status, or not at all."""

    def __init__(self) -> None:
        self.mood: int | None = 200
        self.accepted: list[tuple[dict[str, str], bytes]] = []
        self.calls = 0
        self.url = ""

    @property
    def taken(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.accepted]

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        try:
            yield
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                headers = dict(
                    line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if ": " in line
                )
                body = await reader.readexactly(int(headers["Content-Length"]))
                self.calls += 1
                if self.mood is None:
                    await asyncio.Event().wait()
                if self.mood == 200:
                    self.accepted.append((headers, body))
                writer.write(f"HTTP/1.1 {self.mood} x\r\nContent-Length: 0\r\n\r\n".encode())
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


class Log:
    """Writes what happened."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.publisher = Publisher(connection)
        self.control = Bucket(connection, self.publisher, names.CONTROL)

    async def define(self, job_id: str, **fields: Any) -> None:
        now = now_us()
        spec = JobSpec(name=job_id, task=Shell(command="true"), **fields)
        event = JobCreated(job_id=job_id, spec=spec, at=now, created_at=now)
        subject = names.job_subject(names.partition_of(job_id, PARTITIONS), job_id)
        await self.publisher.publish(subject, encode(JobFrame(events=(event,))))

    async def write(self, event: RunEvent) -> None:
        subject = names.runs_subject(names.partition_of(event.run_id, PARTITIONS))
        await self.publisher.publish(subject, encode(Frame(writer="test", events=(event,))))

    async def fail(self, job_id: str, number: int = 1) -> None:
        now = now_us()
        await self.write(
            RunFailed(
                run_id=f"{job_id}@{number}", at=now, attempt=1, executor_id="e", started=now, reason="exit 1"
            )
        )

    async def succeed(self, job_id: str, number: int = 2) -> None:
        now = now_us()
        await self.write(
            RunSucceeded(run_id=f"{job_id}@{number}", at=now, attempt=1, executor_id="e", started=now)
        )

    async def state(self) -> AlertState | None:
        entry = await self.control.get(names.ALERTS_KEY)
        return None if entry is None else msgspec.json.decode(entry.value, type=AlertState)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    async with receiver.listening():
        yield receiver


@pytest.fixture
async def log(nats_url: str) -> AsyncIterator[Log]:
    async with Connection.open(nats_url, name="alerts") as connection:
        await ensure_streams(connection, Layout(partitions=PARTITIONS))
        yield Log(connection)


@asynccontextmanager
async def appending(log: Log, receiver: Receiver, **settings: Any) -> AsyncIterator[None]:
    """The alerts, as the projector runs them; ready once their position is kept."""
    given: dict[str, Any] = {
        "data": Path("."),
        "partitions": PARTITIONS,
        "alert_webhook": receiver.url,
        "http_loopback": True,
        "alert_secret": SECRET,
        "alert_key_id": "k7",
        "alert_timeout_seconds": 0.3,
        **settings,
    }
    share = Membership(log.control, "projector-test", PARTITIONS)
    share.partitions = frozenset(range(PARTITIONS))
    task = asyncio.create_task(
        service.run(Settings(**given), log.connection, log.control, share, "projector-test")
    )
    try:
        async with asyncio.timeout(10):
            while await log.state() is None:
                await asyncio.sleep(0.01)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_critical_failure_is_told_signed_and_resolved(log: Log, receiver: Receiver) -> None:
    await log.define("backup", critical=True, labels={"team": "data"})
    async with appending(log, receiver):
        await log.fail("backup")
        await eventually(lambda: receiver.taken, what="an alert")
        await log.fail("backup", 2)
        await log.succeed("backup", 3)
        await eventually(lambda: len(receiver.taken) == 2, what="the recovery")
    fired, resolved = receiver.taken
    assert (fired["rule"], fired["severity"], fired["labels"]) == (
        "critical_failure",
        "critical",
        {"team": "data"},
    )
    assert (resolved["rule"], resolved["status"]) == ("recovered", "resolved")
    headers, body = receiver.accepted[0]
    proof = {"key_id": headers[KEY_ID], "timestamp": headers[TIMESTAMP], "signature": headers[SIGNATURE]}
    now = int(headers[TIMESTAMP])
    assert verify(body, **proof, secrets={"k7": SECRET}, now=now)
    assert not verify(body + b" ", **proof, secrets={"k7": SECRET}, now=now)


async def test_a_receiver_that_refuses_then_hangs_then_recovers_gets_everything_once(
    log: Log, receiver: Receiver
) -> None:
    receiver.mood = 500
    await log.define("one")
    await log.define("two")
    async with appending(log, receiver):
        await log.fail("one")
        await eventually(lambda: receiver.calls >= 1, what="a refused call")
        receiver.mood = None
        calls = receiver.calls
        await log.fail("two")
        await eventually(lambda: receiver.calls > calls, what="a call that hangs")
        receiver.mood = 200
        await eventually(lambda: len(receiver.taken) >= 2, within=15, what="both alerts")
    assert sorted(alert["job_id"] for alert in receiver.taken) == ["one", "two"]
    state = await log.state()
    assert state is not None
    assert state.outbox == []


async def test_a_restart_loses_and_repeats_nothing(log: Log, receiver: Receiver) -> None:
    receiver.mood = 503
    await log.define("one")
    async with appending(log, receiver):
        await log.fail("one")
        await eventually(lambda: receiver.calls >= 1, what="a refused call")
    await log.fail("two")
    receiver.mood = 200
    async with appending(log, receiver):
        await eventually(
            lambda: len(receiver.taken) >= 2, within=15, what="what waited, and what came meanwhile"
        )
    async with appending(log, receiver):
        await log.fail("three")
        await eventually(lambda: len(receiver.taken) >= 3, what="the next one")
    assert sorted(alert["job_id"] for alert in receiver.taken) == ["one", "three", "two"]


async def test_given_up_silenced_and_grouped(log: Log, receiver: Receiver) -> None:
    await log.define("quiet", labels={"env": "dev"})
    receiver.mood = 500
    async with appending(log, receiver, alert_silence="env=dev", alert_give_up_seconds=1):
        await log.fail("quiet")
        await log.fail("lost")
        await eventually(lambda: receiver.calls >= 2, within=15, what="two tries")
        deadline = asyncio.get_running_loop().time() + 10
        while (state := await log.state()) is not None and state.outbox:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.02)
        receiver.mood = 200
        now = now_us()
        for number in range(60):
            job = f"job{number}@1"
            await log.write(
                RunsMissed(run_id=job, at=now, version=1, scheduled=now, until=now, count=1, reason="down")
            )
        await eventually(
            lambda: sum(1 + alert["more"] for alert in receiver.taken) >= 60, what="all missed runs"
        )
    assert {alert["rule"] for alert in receiver.taken} == {"missed"}


async def test_the_first_reader_begins_now_and_not_with_history(log: Log, receiver: Receiver) -> None:
    await log.fail("ancient")
    async with appending(log, receiver, alert_format="slack"):
        await log.fail("fresh")
        await eventually(lambda: receiver.taken, what="an alert")
    assert len(receiver.taken) == 1
    assert "fresh@1 failed: exit 1" in receiver.taken[0]["text"]


async def test_saturated_schedulers_are_told_of(
    log: Log, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_LOOK_EVERY", 0.05)

    async def say(load: SchedulerLoad) -> None:
        beat = scheduler_heartbeat(load, at=now_us())
        await log.control.put(names.member_key("scheduler", "s"), msgspec.json.encode(beat))

    await say(
        SchedulerLoad(
            to_drain=84_000, ended_per_second=6_000, behind_seconds=9, saturated_since=now_us() - 40_000_000
        )
    )
    async with appending(log, receiver):
        await eventually(lambda: receiver.taken, "the alert")
    (told,) = receiver.taken
    assert (told["rule"], told["status"]) == ("saturated", "firing")
    assert "9 s behind, 14 s of work at 6,000 runs a second" in told["summary"]
    kept = await log.state()
    assert kept is not None
    assert kept.saturated_since is not None
