"""Schedulers killed and frozen while they fire: every fire exactly once, and none later than the takeover allows."""

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from servers.server import Server
from waterclock.core.domain.explain.audit import Auditor
from waterclock.core.domain.explain.audit_report import AuditReport
from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.frame_writer import FrameWriter
from waterclock.core.jetstream.messages import last_message, stream_state
from waterclock.core.jetstream.publisher import Expect, Publisher
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.jetstream.streams import Layout, ensure_streams, ensure_work_consumers
from waterclock.core.runtime.clock import now_us
from waterclock.proto import names
from waterclock.proto.codec import decode_frame, decode_job_frame, decode_work, encode
from waterclock.proto.events import JobCreated, JobFrame, RunQueued, RunSucceeded
from waterclock.proto.policies import CatchUp
from waterclock.proto.spec import JobSpec, Schedule, Shell

pytestmark = pytest.mark.timeout(300)

PARTITIONS = 16
JOBS = 200
SECONDS = 60.0 if os.environ.get("WATERCLOCK_CHAOS") == "long" else 16.0
LATEST = 10 * SECOND
"""Later than that would be a downtime. On a machine with nothing else to do it is about 2 s; `bench` measures it."""


class Schedulers:
    """Three scheduler processes; one that dies is replaced."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.alive: list[Process] = []

    async def start(self) -> None:
        self.alive.append(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "waterclock.api.cli",
                "scheduler",
                "--nats-url",
                self._url,
                stderr=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
            )
        )

    async def kill(self, rng: random.Random) -> None:
        victim = self.alive.pop(rng.randrange(len(self.alive)))
        victim.kill()
        await victim.wait()
        await self.start()

    async def freeze(self, rng: random.Random, seconds: float) -> None:
        """Longer than a lease: when it wakes it believes that it still owns what others have taken."""
        victim = rng.choice(self.alive)
        victim.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        victim.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        for process in self.alive:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.alive:
            assert await process.wait() in (0, -signal.SIGTERM)  # the latter if it was just being started


@asynccontextmanager
async def executing(connection: Connection, publisher: Publisher) -> AsyncIterator[None]:
    """An executor that succeeds at once."""

    async def run(line: str) -> None:
        consumer = names.work_consumer("default", "light", line)
        async with Pull.durable(connection, names.WORK, consumer) as pull:
            while True:
                for delivery in await pull.next():
                    (item,) = decode_work(delivery.data)
                    now = now_us()
                    done = RunSucceeded(
                        run_id=item.run_id, at=now, attempt=item.attempt, executor_id="chaos", started=now
                    )
                    frames.append(names.partition_of(item.run_id, PARTITIONS), done)
                    pull.ack(delivery)

    frames = FrameWriter(publisher, writer="chaos")
    task = asyncio.create_task(run("0"))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await frames.close()


async def define(publisher: Publisher, number: int) -> None:
    job_id = f"job{number}"
    now = now_us()
    spec = JobSpec(
        name=job_id,
        task=Shell(command="true"),
        schedule=Schedule(schedule_type="INTERVAL", interval_seconds=1),
        overlap="allow",
        catch_up=CatchUp(policy="all", window_seconds=60),
    )
    subject = names.job_subject(names.partition_of(job_id, PARTITIONS), job_id)
    event = JobCreated(job_id=job_id, spec=spec, at=now, created_at=now)
    await publisher.publish(
        subject, encode(JobFrame(events=(event,))), expect=Expect(last_subject_sequence=0)
    )


async def until_owned(connection: Connection) -> None:
    """Wait until somebody owns every partition."""
    async with asyncio.timeout(30):
        for partition in range(PARTITIONS):
            while await last_message(connection, names.RUNS, names.lease_subject(partition)) is None:
                await asyncio.sleep(0)


async def read_log(connection: Connection) -> tuple[Auditor, list[RunQueued]]:
    auditor, queued = Auditor(), []
    for stream, subject in ((names.JOBS, names.jobs_of_partition()), (names.RUNS, names.runs_subject())):
        last = (await stream_state(connection, stream)).last_seq
        async with Pull.ordered(connection, stream, [subject], after_sequence=0) as pull:
            while pull.pending and pull.sequence < last:
                for delivery in await pull.next(timeout=1.0):
                    if stream == names.JOBS:
                        for event in decode_job_frame(delivery.data).events:
                            auditor.job_event(delivery.sequence, event)
                    else:
                        for run_event in decode_frame(delivery.data).events:
                            auditor.run_event(run_event)
                            if isinstance(run_event, RunQueued):
                                queued.append(run_event)
    return auditor, queued


async def until_decided(connection: Connection, instant: int) -> tuple[AuditReport, list[RunQueued]]:
    """Wait until the schedulers that are left have decided everything due by an instant."""
    async with asyncio.timeout(20):
        while True:
            auditor, queued = await read_log(connection)
            report = auditor.report(0, instant, decided=instant - 1)
            if report.clean or now_us() - instant > 10 * SECOND:
                return report, queued
            await asyncio.sleep(0)


async def test_every_fire_exactly_once_while_owners_are_killed_and_frozen(nats_server: Server) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    schedulers = Schedulers(nats_server.url)
    async with Connection.open(nats_server.url, name="chaos") as connection:
        publisher = Publisher(connection)
        await ensure_streams(connection, Layout(partitions=PARTITIONS))
        await ensure_work_consumers(connection, [("default", "light", "0")])
        for _ in range(3):
            await schedulers.start()
        await until_owned(connection)
        async with executing(connection, publisher):
            await asyncio.gather(*(define(publisher, number) for number in range(JOBS)))
            end = asyncio.get_running_loop().time() + SECONDS
            while asyncio.get_running_loop().time() < end:
                await asyncio.sleep(rng.uniform(1, 3))
                if rng.random() < 0.7:
                    await schedulers.kill(rng)
                else:
                    await schedulers.freeze(rng, 2.5)
            report, queued = await until_decided(connection, now_us())
            await schedulers.stop()
    late = max(event.at - event.scheduled for event in queued) if queued else 0
    summary = f"seed {seed}: {report.expected} due, {report.accounted}, latest {late / SECOND:.2f} s"
    print(summary)
    assert report.clean, f"{summary}; {report.findings[:5]}"
    assert report.expected >= JOBS * (SECONDS - 2)
    assert report.accounted.keys() == {"ran"}, summary
    assert late <= LATEST, summary
