"""Accepted jobs enter the log once, alone or together, and of two creations of one id one wins."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from waterclock.api.eventlog.job_frames import NewJob
from waterclock.api.eventlog.job_writer import Created, JobWriter
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.job_definitions import Definitions
from waterclock.core.jetstream.messages import last_message, stream_state
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.clock import now_us
from waterclock.proto import names
from waterclock.proto.spec import JobSpec, Schedule, Shell

PARTITIONS = 4


@dataclass
class Rig:
    connection: Connection
    writer: JobWriter
    definitions: Definitions
    written: list[tuple[int, int]]

    async def messages(self) -> int:
        return (await stream_state(self.connection, names.JOBS)).messages


@pytest.fixture
async def rig(nats_url: str) -> AsyncIterator[Rig]:
    async with Connection.open(nats_url, name="test") as connection:
        await ensure_streams(connection, Layout(partitions=PARTITIONS))
        publisher = Publisher(connection)
        written: list[tuple[int, int]] = []

        def note(partition: int, version: int) -> None:
            written.append((partition, version))

        async with JobWriter.open(connection, publisher, PARTITIONS, written=note) as writer:
            yield Rig(connection, writer, Definitions(connection, publisher, PARTITIONS), written)


def job(name: str = "x", *, job_id: str | None = None, schedule: Schedule = Schedule()) -> NewJob:  # noqa: B008
    return NewJob(
        spec=JobSpec(name=name, task=Shell(command="true"), schedule=schedule), at=now_us(), job_id=job_id
    )


async def test_a_lone_job_has_an_id_and_a_message_of_its_own(rig: Rig) -> None:
    created = await rig.writer.create(job("alone"))
    assert "~" not in created.job_id
    found = await rig.definitions.read(created.job_id)
    assert found is not None
    assert (found.version, found.own_sequence) == (created.version, created.version)
    assert found.job.spec.name == "alone"


async def test_jobs_that_arrive_together_share_messages_and_are_all_found(rig: Rig) -> None:
    created = await asyncio.gather(*(rig.writer.create(job(f"job {n}")) for n in range(300)))
    assert len({one.job_id for one in created}) == 300
    assert await rig.messages() < 10
    for n in (0, 1, 150, 299):
        found = await rig.definitions.read(created[n].job_id)
        assert found is not None
        assert found.job.spec.name == f"job {n}"
        assert found.version == created[n].version


async def test_of_many_creations_of_one_id_one_wins(rig: Rig) -> None:
    results = await asyncio.gather(
        *(rig.writer.create(job(f"{n}", job_id="same")) for n in range(20)), return_exceptions=True
    )
    assert sum(isinstance(result, Created) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 19


async def test_in_bulk_a_taken_id_fails_alone(rig: Rig) -> None:
    await rig.writer.create(job(job_id="taken"))
    results = await rig.writer.create_many(
        [job(job_id="a"), job(job_id="taken"), job(), job(job_id="b"), job(job_id="a")]
    )
    assert [type(result).__name__ for result in results] == [
        "Created",
        "Conflict",
        "Created",
        "Created",
        "Conflict",
    ]
    for result in results:
        if isinstance(result, Created):
            found = await rig.definitions.read(result.job_id)
            assert found is not None
            assert found.version == result.version


async def test_a_thousand_named_jobs_know_their_versions(rig: Rig) -> None:
    results = await rig.writer.create_many([job(str(n), job_id=f"job-{n}") for n in range(1000)])
    for n in (0, 499, 500, 999):
        found, result = await rig.definitions.read(f"job-{n}"), results[n]
        assert found is not None
        assert isinstance(result, Created)
        assert (found.version, found.job.spec.name) == (result.version, str(n))


async def test_large_definitions_are_spread_over_frames(rig: Rig) -> None:
    big = [
        NewJob(spec=JobSpec(name=str(n), task=Shell(command="true"), payload="x" * 200_000), at=now_us())
        for n in range(20)
    ]
    results = await rig.writer.create_many(big)
    assert all(isinstance(result, Created) for result in results)
    assert await rig.messages() >= 4


@pytest.mark.parametrize(
    ("schedule", "days"),
    [
        (Schedule(), 30),
        (Schedule(schedule_type="FUTURE", schedule_time=datetime.now(UTC) + timedelta(days=100)), 130),
        (Schedule(schedule_type="CRON", cron_expression=("* * * * *",)), None),
    ],
)
async def test_only_one_shots_leave_the_log(rig: Rig, schedule: Schedule, days: int | None) -> None:
    created = await rig.writer.create(job(schedule=schedule))
    subject = names.job_subject(names.partition_of(created.job_id, PARTITIONS), created.job_id)
    stored = await last_message(rig.connection, names.JOBS, subject)
    assert stored is not None
    ttl = stored.headers.get("Nats-TTL")
    assert ttl is None if days is None else ttl is not None and round(int(ttl[:-1]) / 86_400) == days


async def test_recurring_and_one_shot_jobs_do_not_share_a_frame(rig: Rig) -> None:
    cron = Schedule(schedule_type="CRON", cron_expression=("* * * * *",))
    results = await rig.writer.create_many([job(schedule=cron if n % 2 else Schedule()) for n in range(40)])
    roots = [result.job_id.partition("~")[0] for result in results if isinstance(result, Created)]
    assert set(roots[::2]).isdisjoint(roots[1::2])


async def test_every_write_is_reported(rig: Rig) -> None:
    created = await rig.writer.create(job(job_id="known"))
    assert rig.written == [(names.partition_of("known", PARTITIONS), created.version)]


async def test_an_id_that_could_not_be_a_subject_is_nobodys(rig: Rig) -> None:
    await rig.writer.create(job(job_id="there"))
    for odd in ("*", ">", "the re", "there.x", "", "a" * 1000, "there\r\n"):
        assert await rig.definitions.read(odd) is None


async def test_an_error_is_told_to_those_who_wait_and_the_writer_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> int:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", broken)
        patch.setattr(Publisher, "publish_batch", broken)
        failed = await asyncio.gather(
            *(rig.writer.create(job(job_id=f"failed-{n}")) for n in range(10)), return_exceptions=True
        )
    assert all(isinstance(error, Exception) for error in failed)
    assert (await rig.writer.create(job(job_id="after"))).job_id == "after"
