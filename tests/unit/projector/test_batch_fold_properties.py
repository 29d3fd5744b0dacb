"""The rows depend on the log alone: not on where it is cut into batches, nor on how its two streams are interleaved,
nor on frames that are in it twice."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from projector_rig.builders import EVERY_MINUTE, T0, spec
from projector_rig.tables import Tables, counted
from waterclock.core.domain.ids import run_id
from waterclock.core.domain.instants import MINUTE, datetime_of
from waterclock.core.domain.readmodel.run_stats import RunStats
from waterclock.proto.events import (
    JobCancelled,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    OutcomeRejected,
    RunCancelled,
    RunCancelRequested,
    RunEvent,
    RunFailed,
    RunLost,
    RunQueued,
    RunRequested,
    RunRetryRequested,
    RunReturned,
    RunSkipped,
    RunsMissed,
    RunSnoozed,
    RunStarted,
    RunSucceeded,
    RunTimedOut,
    RunWaiting,
    ScheduleEnded,
    Trigger,
)
from waterclock.proto.spec import Schedule
from waterclock.proto.verdicts import TERMINAL

JOBS = {
    "now": Schedule(),
    "once": Schedule(schedule_type="FUTURE", schedule_time=datetime_of(T0 + MINUTE)),
    "often": EVERY_MINUTE,
}
EXECUTORS = ("executor-a", "executor-b")

instants = st.integers(0, 20).map(lambda minutes: T0 + minutes * MINUTE)
attempts = st.integers(1, 3)
maybe_later = st.one_of(st.none(), instants)


@st.composite
def run_events(draw: st.DrawFn) -> RunEvent:
    """Any event, sensible or not, about one of a few runs."""
    job = draw(st.sampled_from(sorted(JOBS)))
    scheduled = T0 + draw(st.integers(0, 1)) * MINUTE
    kind = draw(
        st.sampled_from(
            (
                *(RunQueued, RunQueued, RunStarted, RunSucceeded, RunFailed, RunFailed, RunTimedOut),
                *(RunSnoozed, RunReturned, RunLost, RunCancelled, RunCancelRequested, RunRetryRequested),
                *(RunRequested, RunWaiting, RunSkipped, RunsMissed, OutcomeRejected, ScheduleEnded),
            )
        )
    )
    base: dict[str, Any] = {"run_id": run_id(job, scheduled), "at": draw(instants)}
    outcome: dict[str, Any] = {
        "attempt": draw(attempts),
        "executor_id": draw(st.sampled_from(EXECUTORS)),
        "started": draw(instants),
    }
    decided: dict[str, Any] = {"version": draw(st.integers(1, 4)), "scheduled": scheduled, "due": scheduled}
    if kind is RunQueued:
        trigger: Trigger = draw(st.sampled_from(["schedule", "now"]))
        return RunQueued(**base, **decided, attempt=draw(attempts), trigger=trigger)
    if kind is RunWaiting or kind is RunSkipped:
        return kind(**base, **decided, reason="because")
    if kind is RunsMissed:
        return RunsMissed(
            **base, version=1, scheduled=scheduled, until=draw(instants), count=draw(attempts), reason="away"
        )
    if kind is RunRequested:
        return RunRequested(**base, version=1, actor="alice")
    if kind is RunStarted or kind is OutcomeRejected:
        return kind(**base, attempt=outcome["attempt"], executor_id=outcome["executor_id"], fencing_token=7)
    if kind is RunSucceeded or kind is RunReturned:
        return kind(**base, **outcome, output=draw(st.sampled_from([None, {"n": 1}])))
    if kind is RunFailed or kind is RunTimedOut:
        return kind(**base, **outcome, reason="failed", retry_at=draw(maybe_later))
    if kind is RunSnoozed:
        return RunSnoozed(**base, **outcome, until=draw(instants))
    if kind is RunLost:
        return RunLost(
            **base, attempt=outcome["attempt"], crash_count=draw(attempts), dead=draw(st.booleans())
        )
    if kind is RunCancelled:
        return RunCancelled(**base, attempt=draw(st.integers(0, 2)), started=draw(maybe_later))
    if kind is RunCancelRequested:
        return RunCancelRequested(**base, actor="alice")
    if kind is RunRetryRequested:
        return RunRetryRequested(**base, version=1, scheduled=scheduled, attempt=draw(attempts), actor="bob")
    return ScheduleEnded(run_id=job, at=base["at"], version=draw(st.integers(1, 6)), reason="no further fire")


@st.composite
def job_events(draw: st.DrawFn) -> JobEvent:
    """Any change of one of the jobs, its kind of schedule kept."""
    job = draw(st.sampled_from(sorted(JOBS)))
    kind = draw(st.sampled_from([JobUpdated, JobPaused, JobResumed, JobCancelled]))
    labels = {"edition": str(draw(st.integers(0, 3)))}
    base: dict[str, Any] = {
        "job_id": job,
        "spec": spec(schedule=JOBS[job], labels=labels),
        "at": draw(instants),
        "created_at": T0,
    }
    if kind is JobUpdated:
        return JobUpdated(**base, paused_at=draw(maybe_later))
    if kind is JobResumed:
        return JobResumed(**base, missed_since=draw(maybe_later))
    return JobPaused(**base) if kind is JobPaused else JobCancelled(**base)


births = tuple(
    JobCreated(job_id=job, spec=spec(schedule=schedule), at=T0, created_at=T0)
    for job, schedule in JOBS.items()
)
frames = st.lists(st.lists(run_events(), min_size=1, max_size=4).map(tuple), max_size=25)
edits = st.lists(job_events(), max_size=6)


def in_one_batch(jobs: list[JobEvent], runs: list[tuple[RunEvent, ...]]) -> Tables:
    tables = Tables()
    tables.fold(
        [(1, births), *((number, (event,)) for number, event in enumerate(jobs, 2))],
        list(enumerate(runs, 1)),
    )
    return tables


@given(jobs=edits, runs=frames, cuts=st.sets(st.integers(1, 25)), data=st.data())
def test_the_rows_do_not_depend_on_the_batches(
    jobs: list[JobEvent], runs: list[tuple[RunEvent, ...]], cuts: set[int], data: st.DataObject
) -> None:
    whole = in_one_batch(jobs, runs)
    cut = Tables()
    cut.fold([(1, births)], [])
    pending = list(enumerate(jobs, 2))
    batch: list[tuple[int, tuple[RunEvent, ...]]] = []
    for sequence, frame in enumerate(runs, 1):
        batch.append((sequence, frame))
        if sequence in cuts:
            taken = data.draw(st.integers(0, len(pending)))
            cut.fold([(number, (event,)) for number, event in pending[:taken]], batch)
            pending, batch = pending[taken:], []
    cut.fold([(number, (event,)) for number, event in pending], batch)
    assert cut.contents() == whole.contents()


@given(runs=frames, doubled=st.integers(0, 24))
def test_a_frame_that_is_in_the_log_twice_in_a_row_counts_once(
    runs: list[tuple[RunEvent, ...]], doubled: int
) -> None:
    once, twice = Tables(), Tables()
    for tables in (once, twice):
        tables.fold([(1, births)], [])
    for number, frame in enumerate(runs):
        once.fold([], [(2 * number + 1, frame)])
        twice.fold([], [(2 * number + 1, frame)])
        if number == doubled and _could_be_one_writers(frame):
            twice.fold([], [(2 * number + 2, frame)])
    assert _without_sequences(twice) == _without_sequences(once)


@given(jobs=edits, runs=frames)
def test_what_is_shown_hangs_together(jobs: list[JobEvent], runs: list[tuple[RunEvent, ...]]) -> None:
    tables = in_one_batch(jobs, runs)
    dead = {run_id for run_id, row in tables.runs.items() if row.status in ("FAILED", "TIMED_OUT")}
    assert tables.dead.keys() == dead
    for row in tables.runs.values():
        assert row.first_sequence <= row.last_sequence
        assert row.attempt_number >= 0
        if row.status in ("SUCCESS", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "MISSED"):
            assert row.end_time is not None
        if row.status == "RUNNING":
            assert row.start_time is not None
            assert row.end_time is None
    for job in tables.jobs.values():
        assert job.next_run_at is None or job.status == "SCHEDULED"
    ended = RunStats()
    for row in tables.runs.values():
        if row.status in TERMINAL:
            ended.add(row)
    assert counted(tables.stats) == counted(ended.minutes)


def _could_be_one_writers(frame: tuple[RunEvent, ...]) -> bool:
    """A writer's frame tells of a run once; in the mixture drawn here it may contradict itself."""
    return len({event.run_id for event in frame}) == len(frame)


def _without_sequences(tables: Tables) -> dict[str, Any]:
    shown = tables.contents()
    shown["runs"] = {
        run_id: tuple(
            value
            for name, value in zip(row.__struct_fields__, shown["runs"][run_id], strict=True)
            if name not in ("last_sequence", "modified_time")
        )
        for run_id, row in tables.runs.items()
    }
    shown["states"] = {
        job_id: state[:5] + state[6:8] + state[9:] for job_id, state in shown["states"].items()
    }
    return shown
