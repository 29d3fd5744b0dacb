"""A definition that names its first fire leads to the same as one whose reader has to find it."""

from hypothesis import example, given
from hypothesis import strategies as st

from unit.domain.partition_owner import START, Partition
from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.schedule.fires import first_of_sparse, next_fire
from waterclock.proto.events import JobCreated
from waterclock.proto.spec import JobSpec, Schedule, Shell

HOUR = 60 * MINUTE

SCHEDULES = st.one_of(
    st.builds(
        lambda minute, hour, zone, jitter: Schedule(
            schedule_type="CRON",
            cron_expression=(f"{minute} {hour} * * *",),
            timezone=zone,
            jitter_seconds=jitter,
        ),
        st.sampled_from(["0", "37", "58,59", "*", "*/20", "H"]),
        st.sampled_from(["*", "13", "14", "*/2"]),
        st.sampled_from(["UTC", "Europe/Berlin"]),
        st.sampled_from([0.0, 0.0, 90.0]),
    ),
    st.builds(
        lambda seconds: Schedule(schedule_type="INTERVAL", interval_seconds=seconds),
        st.sampled_from([30.0, 600.0, 3_600.0, 5_400.0]),
    ),
)


def created(schedule: Schedule, *, named: bool) -> JobCreated:
    spec = JobSpec(name="job", task=Shell(command="true"), schedule=schedule, overlap="allow")
    first = first_of_sparse(schedule, spec.name, START) if named else None
    return JobCreated(job_id="j", spec=spec, at=START, created_at=START, first_fire=first)


@given(SCHEDULES, st.integers(0, 90 * 60))
@example(Schedule(schedule_type="CRON", cron_expression=("37 * * * *",)), 0)
def test_whoever_reads_it_does_the_same_with_it(schedule: Schedule, late_seconds: int) -> None:
    by_name, found = Partition(), Partition()
    read_at = START + late_seconds * SECOND
    by_name.owner.observe_job(created(schedule, named=True), 1, read_at)
    found.owner.observe_job(created(schedule, named=False), 1, read_at)
    for minutes in range(0, 200, 5):
        now = read_at + minutes * MINUTE
        assert by_name.tick(now) == found.tick(now)
    assert by_name.index == found.index
    assert by_name.owner.schedules.armed.keys() == found.owner.schedules.armed.keys()


@given(SCHEDULES)
def test_it_is_named_of_what_fires_seldom_only(schedule: Schedule) -> None:
    first = first_of_sparse(schedule, "job", START)
    following = next_fire(schedule, "job", START)
    assert following is not None
    assert first in (None, following)
    later = next_fire(schedule, "job", following)
    assert later is not None
    assert first is None or later - first >= HOUR


def test_an_hourly_cron_is_such_and_one_of_every_twenty_minutes_is_not() -> None:
    hourly, often = (
        Schedule(schedule_type="CRON", cron_expression=(f"{each} * * * *",)) for each in ("37", "*/20")
    )
    assert first_of_sparse(hourly, "job", START) == next_fire(hourly, "job", START)
    assert first_of_sparse(often, "job", START) is None


def test_what_no_clock_decides_has_none() -> None:
    assert first_of_sparse(Schedule(schedule_type="IMMEDIATE"), "job", START) is None
    assert first_of_sparse(Schedule(schedule_type="DEPENDENT"), "job", START) is None
