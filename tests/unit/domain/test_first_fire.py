"""A definition that names its first fire leads to the same as one whose reader has to find it."""

from hypothesis import example, given
from hypothesis import strategies as st

from unit.domain.partition_owner import START, Partition
from waterclock.core.domain.instants import MINUTE, SECOND
from waterclock.core.domain.schedule.fires import compile, is_plainly_sparse, next_fire
from waterclock.proto.events import JobCreated
from waterclock.proto.spec import JobSpec, Schedule, Shell

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
    first = next_fire(schedule, spec.name, START) if named else None
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
def test_what_looks_sparse_is(schedule: Schedule) -> None:
    assert compile(schedule, "job").is_sparse or not is_plainly_sparse(schedule)


def test_an_hourly_cron_is_and_one_of_every_twenty_minutes_or_with_seconds_is_not() -> None:
    hourly, often, seconds = (
        Schedule(schedule_type="CRON", cron_expression=(text,))
        for text in ("37 * * * *", "*/20 * * * *", "37 * * * * *")
    )
    assert is_plainly_sparse(hourly)
    assert not is_plainly_sparse(often)
    assert not is_plainly_sparse(seconds)
