"""Accepted jobs enter the log once, alone or together, and of two creations of one id one wins."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from waterclock.api.commands.intake import Entered, Intake
from waterclock.api.commands.job_messages import NewJob
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.definitions import Definitions
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.messages import last_message, stream_state
from waterclock.core.jetstream.publisher import Publisher
from waterclock.core.jetstream.streams import Layout, ensure_streams
from waterclock.core.runtime.clock import now_us
from waterclock.proto import names
from waterclock.proto.spec import JobSpec, Schedule, Shell

PARTITIONS = 4


class Door:
    def __init__(self, connection: Connection) -> None:
        publisher = Publisher(connection)
        self.connection = connection
        self.heard: list[tuple[int, int]] = []
        self.intake = Intake(
            connection, publisher, PARTITIONS, entered=lambda p, v: self.heard.append((p, v))
        )
        self.definitions = Definitions(connection, publisher, PARTITIONS)

    async def messages(self) -> int:
        return (await stream_state(self.connection, names.JOBS)).messages


@pytest.fixture
async def door(nats_url: str) -> AsyncIterator[Door]:
    async with Connection.open(nats_url, name="test") as connection:
        await ensure_streams(connection, Layout(partitions=PARTITIONS))
        yield Door(connection)


def job(name: str = "x", *, job_id: str | None = None, schedule: Schedule = Schedule()) -> NewJob:  # noqa: B008
    return NewJob(
        spec=JobSpec(name=name, task=Shell(command="true"), schedule=schedule), at=now_us(), job_id=job_id
    )


async def test_a_lone_job_has_an_id_and_a_message_of_its_own(door: Door) -> None:
    entered = await door.intake.create(job("alone"))
    assert "~" not in entered.job_id
    found = await door.definitions.read(entered.job_id)
    assert found is not None
    assert (found.version, found.own_sequence) == (entered.version, entered.version)
    assert found.job.spec.name == "alone"


async def test_jobs_that_arrive_together_share_messages_and_are_all_found(door: Door) -> None:
    entered = await asyncio.gather(*(door.intake.create(job(f"job {n}")) for n in range(300)))
    assert len({one.job_id for one in entered}) == 300
    assert await door.messages() < 10
    for n in (0, 1, 150, 299):
        found = await door.definitions.read(entered[n].job_id)
        assert found is not None
        assert found.job.spec.name == f"job {n}"
        assert found.version == entered[n].version


async def test_of_many_creations_of_one_id_one_wins(door: Door) -> None:
    results = await asyncio.gather(
        *(door.intake.create(job(f"{n}", job_id="same")) for n in range(20)), return_exceptions=True
    )
    assert sum(isinstance(result, Entered) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 19


async def test_in_bulk_a_taken_id_fails_alone(door: Door) -> None:
    await door.intake.create(job(job_id="taken"))
    results = await door.intake.create_many(
        [job(job_id="a"), job(job_id="taken"), job(), job(job_id="b"), job(job_id="a")]
    )
    assert [type(result).__name__ for result in results] == [
        "Entered",
        "Conflict",
        "Entered",
        "Entered",
        "Conflict",
    ]
    for result in results:
        if isinstance(result, Entered):
            found = await door.definitions.read(result.job_id)
            assert found is not None
            assert found.version == result.version


async def test_a_thousand_named_jobs_know_their_versions(door: Door) -> None:
    results = await door.intake.create_many([job(str(n), job_id=f"job-{n}") for n in range(1000)])
    for n in (0, 499, 500, 999):
        found, result = await door.definitions.read(f"job-{n}"), results[n]
        assert found is not None
        assert isinstance(result, Entered)
        assert (found.version, found.job.spec.name) == (result.version, str(n))


async def test_large_definitions_are_spread_over_frames(door: Door) -> None:
    big = [
        NewJob(spec=JobSpec(name=str(n), task=Shell(command="true"), payload="x" * 200_000), at=now_us())
        for n in range(20)
    ]
    results = await door.intake.create_many(big)
    assert all(isinstance(result, Entered) for result in results)
    assert await door.messages() >= 4


@pytest.mark.parametrize(
    ("schedule", "days"),
    [
        (Schedule(), 30),
        (Schedule(schedule_type="FUTURE", schedule_time=datetime.now(UTC) + timedelta(days=100)), 130),
        (Schedule(schedule_type="CRON", cron_expression=("* * * * *",)), None),
    ],
)
async def test_only_one_shots_leave_the_log(door: Door, schedule: Schedule, days: int | None) -> None:
    entered = await door.intake.create(job(schedule=schedule))
    subject = names.job_subject(names.partition_of(entered.job_id, PARTITIONS), entered.job_id)
    stored = await last_message(door.connection, names.JOBS, subject)
    assert stored is not None
    ttl = stored.headers.get("Nats-TTL")
    assert ttl is None if days is None else ttl is not None and round(int(ttl[:-1]) / 86_400) == days


async def test_recurring_and_one_shot_jobs_do_not_share_a_frame(door: Door) -> None:
    cron = Schedule(schedule_type="CRON", cron_expression=("* * * * *",))
    results = await door.intake.create_many([job(schedule=cron if n % 2 else Schedule()) for n in range(40)])
    roots = [result.job_id.partition("~")[0] for result in results if isinstance(result, Entered)]
    assert set(roots[::2]).isdisjoint(roots[1::2])


async def test_every_write_is_heard_of(door: Door) -> None:
    entered = await door.intake.create(job(job_id="known"))
    assert door.heard == [(names.partition_of("known", PARTITIONS), entered.version)]


async def test_an_id_that_could_not_be_a_subject_is_nobodys(door: Door) -> None:
    await door.intake.create(job(job_id="there"))
    for odd in ("*", ">", "the re", "there.x", "", "a" * 1000, "there\r\n"):
        assert await door.definitions.read(odd) is None
