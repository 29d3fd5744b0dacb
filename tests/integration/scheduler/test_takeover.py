"""Taking over costs little, and a little at a time: what a rebuild may not do to a system that is behind."""

import asyncio
from pathlib import Path

import pytest

from integration.scheduler.rig import PARTITIONS, rig, scheduler
from support.waiting import eventually
from waterclock.core.jetstream import job_definitions, messages
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.messages import Stored, stream_state
from waterclock.core.jetstream.publisher import Expect
from waterclock.core.runtime.clock import now_us
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import JobCreated, JobFrame, RunQueued
from waterclock.proto.spec import JobSpec, Shell
from waterclock.scheduler import loop
from waterclock.scheduler.jetstream.logs import StreamLog
from waterclock.scheduler.ports import Ports
from waterclock.scheduler.takeover import Rebuilt, take_over

ONCE = JobSpec(name="once", task=Shell(command="true"))
CROWD = 100
"""Fewer than a new scheduler queues before it knows what becomes of them."""


async def test_a_message_with_many_definitions_is_read_once_to_recover_their_work(
    nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    message_at = messages.message_at

    async def note(connection: Connection, stream: str, sequence: int) -> Stored | None:
        read.append(sequence)
        return await message_at(connection, stream, sequence)

    async with rig(nats_url) as r:
        async with scheduler(nats_url, tmp_path):
            now = now_us()
            created = tuple(
                JobCreated(job_id=f"crowd~{number}", spec=ONCE, at=now, created_at=now)
                for number in range(CROWD)
            )
            subject = names.job_subject(names.partition_of("crowd", PARTITIONS), "crowd")
            version = await r.publisher.publish(
                subject, encode(JobFrame(events=created)), expect=Expect(last_subject_sequence=0)
            )
            await r.until(lambda events: sum(isinstance(event, RunQueued) for event in events) == CROWD)
        held = await stream_state(r.connection, names.WORK)
        assert held.messages == CROWD
        await r.connection.api(f"STREAM.PURGE.{names.WORK}", {})
        monkeypatch.setattr(job_definitions, "message_at", note)
        async with scheduler(nats_url, tmp_path):
            await eventually(
                lambda: stream_state(r.connection, names.WORK),
                "the work to be in the queue again",
                wanted=lambda state: state.messages == CROWD,
            )
        assert read == [version]


async def test_definitions_that_have_left_the_log_are_not_waited_for(nats_url: str) -> None:
    """Those that fire once leave some days later. An owner may have read them and died before the log says that the
    index is cleaned up to there: the next one reads up to a message that is gone, and none comes after it."""
    async with rig(nats_url) as r:
        await r.publisher.publish("wc.jobs.3.stays", b"1")
        through = await r.publisher.publish("wc.jobs.3.left", b"2")
        await r.connection.api(f"STREAM.PURGE.{names.JOBS}", {"filter": "wc.jobs.3.left"})
        log = StreamLog(r.connection, names.JOBS, names.jobs_of_partition(3))
        async with asyncio.timeout(20):
            found = [entry.data async for entries in log.read(0, through) for entry in entries]
    assert found == [b"1"]


async def test_two_partitions_are_rebuilt_at_a_time(
    nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = most = 0
    rebuilt: list[int] = []
    go_on = asyncio.Event()

    async def hold(ports: Ports) -> Rebuilt:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await go_on.wait()
        taken = await take_over(ports)
        inside -= 1
        rebuilt.append(ports.partition)
        return taken

    monkeypatch.setattr(loop, "take_over", hold)
    async with rig(nats_url) as r, scheduler(nats_url, tmp_path):

        async def held() -> int:
            await r.events()  # others have had their turn
            return inside

        await eventually(held, "two takeovers to have begun", wanted=lambda count: count == 2)
        for _ in range(20):
            assert await held() == 2
        go_on.set()
        await eventually(held, "all to be taken over", wanted=lambda _: len(rebuilt) == PARTITIONS)
    assert sorted(rebuilt) == list(range(PARTITIONS))
    assert most == 2
