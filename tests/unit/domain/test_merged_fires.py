"""The fires of many schedules come in one order, page by page as at once."""

from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.instants import HOUR, MINUTE, SECOND
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.core.domain.schedule.merged_fires import FiringJob, MergedFire, MergedFires, Place
from waterclock.proto.spec import Schedule

T0 = 1_794_816_000 * SECOND
END = T0 + 6 * HOUR

SCHEDULES = (
    Schedule(schedule_type="INTERVAL", interval_seconds=600),
    Schedule(schedule_type="INTERVAL", interval_seconds=3600),
    Schedule(schedule_type="CRON", cron_expression=("*/15 * * * *",)),
    Schedule(schedule_type="CRON", cron_expression=("0 9 * * *", "30 9 * * *")),
)


@st.composite
def firing_jobs(draw: st.DrawFn) -> list[FiringJob]:
    jobs = []
    for number in range(draw(st.integers(0, 6))):
        fires = compile_schedule(draw(st.sampled_from(SCHEDULES)), "")
        first = fires.at_or_after(T0 + draw(st.integers(-120, 240)) * MINUTE)
        assert first is not None
        nearby = [fire.scheduled for fire in fires.between(first.scheduled, END)]
        jobs.append(
            FiringJob(
                job_id=f"job{number}",
                name="",
                timezone="UTC",
                fires=fires,
                since=first.scheduled,
                left=draw(st.none() | st.integers(1, 5)),
                skipped=frozenset(draw(st.sets(st.sampled_from(nearby), max_size=2)) if nearby else ()),
            )
        )
    return jobs


def expected(jobs: list[FiringJob]) -> list[tuple[Place, bool]]:
    found = []
    for job in jobs:
        taken = 0
        for fire in job.fires.between(job.since, END):
            if job.left is not None and taken >= job.left:
                break
            skipped = fire.scheduled in job.skipped
            taken += not skipped
            if fire.scheduled >= T0:
                found.append(((fire.scheduled, job.job_id), skipped))
    return sorted(found)


def page(jobs: list[FiringJob], after: Place, size: int) -> list[MergedFire]:
    merged = MergedFires(after, END)
    for job in jobs:
        merged.add(job)
        merged.forget_beyond(size)
    found: list[MergedFire] = []
    while len(found) < size and (fire := merged.pop()) is not None:
        found.append(fire)
    return found


@given(firing_jobs(), st.integers(1, 7))
def test_pages_together_are_all_fires_in_order(jobs: list[FiringJob], size: int) -> None:
    after: Place = (T0, "")
    found: list[tuple[Place, bool]] = []
    while fires := page(jobs, after, size):
        found += [(fire.place, fire.is_skipped) for fire in fires]
        after = fires[-1].place
    assert found == expected(jobs)


def test_no_more_jobs_are_kept_than_a_page_can_show() -> None:
    merged = MergedFires((T0, ""), END)
    fires = compile_schedule(SCHEDULES[0], "")
    for number in range(1000):
        merged.add(FiringJob(job_id=f"{number:04}", name="", timezone="UTC", fires=fires, since=T0))
        merged.forget_beyond(3)
    assert len(merged._heap) <= 12
    popped = [merged.pop() for _ in range(3)]
    assert [fire and fire.job.job_id for fire in popped] == ["0000", "0001", "0002"]
