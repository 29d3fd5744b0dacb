"""Jobs that are taken out of a batch have the rows that folding their events one by one gives them: wherever the log is
cut, whatever else happens to them, and if frames are in it twice."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from projector_rig.builders import (
    EVERY_MINUTE,
    T0,
    created,
    failed,
    queued,
    requested,
    spec,
    started,
    succeeded,
)
from projector_rig.memory import MemoryStore
from waterclock.core.domain.ids import job_of, run_id
from waterclock.core.domain.instants import HOUR, MINUTE, SECOND, datetime_of
from waterclock.core.domain.readmodel import job_fold, short_life
from waterclock.core.domain.readmodel.run_stats import exact_index, histogram_index
from waterclock.projector.fold import projection
from waterclock.projector.fold.batch_fold import BatchFold
from waterclock.projector.fold.projection import FoldedBatch, RowsWereThere
from waterclock.projector.fold.short_lives import ShortLives
from waterclock.projector.read.batch_reader import Batch
from waterclock.projector.read.messages import JobsMessage, RunsMessage
from waterclock.proto.events import (
    JobCreated,
    JobEvent,
    JobPaused,
    JobUpdated,
    RunEvent,
    RunQueued,
    RunRequested,
    ScheduleEnded,
    SkipRequested,
)
from waterclock.proto.spec import Schedule

Step = JobsMessage | RunsMessage
_NEVER = 2**62

short_text = st.sampled_from(["", "a\0b", "said"])


def timed_schedules(at: int) -> list[Schedule]:
    """Of each kind, one whose time has passed and one that cannot be read among them."""
    return [
        EVERY_MINUTE,
        Schedule(schedule_type="FUTURE", schedule_time=datetime_of(at)),
        Schedule(schedule_type="FUTURE", schedule_time=datetime_of(at - SECOND)),
        Schedule(schedule_type="FUTURE", schedule_time=datetime_of(at), end_at=datetime_of(at)),
        Schedule(schedule_type="CRON", cron_expression=("30 2 29 3 *",), timezone="Europe/Paris"),
        Schedule(schedule_type="CRON", cron_expression=("H H * * *", "H 0 1 * *")),
        Schedule(schedule_type="CRON", cron_expression=("61 * * * *",)),
        Schedule(schedule_type="DEPENDENT"),
    ]


@st.composite
def lives(draw: st.DrawFn, number: int) -> list[JobEvent | RunEvent]:
    """All that happens to a job, in the order in which it does; mostly what happens to most."""
    job_id = draw(st.sampled_from([f"job{number}", f"acme=job{number}", f"frame~{number}"]))
    at = T0 + number * SECOND
    schedule = draw(st.sampled_from([{}, {}, {}, *({"schedule": each} for each in timed_schedules(at))]))
    birth = created(
        job_id,
        at,
        name=draw(st.sampled_from(["a job", "a\0job"])),
        payload=draw(st.sampled_from([None, {"n": 1}, "te\0xt"])),
        labels=draw(st.sampled_from([{}, {"team": "data"}])),
        namespace=draw(st.sampled_from(["default", "acme"])),
        **schedule,
    )
    run = queued(
        job_id,
        at + draw(st.sampled_from([0, 0, 0, -SECOND])),
        at=at + 7,
        attempt=draw(st.sampled_from([1, 1, 1, 2])),
        trigger=draw(st.sampled_from(["schedule", "schedule", "catch_up", "now"])),
        again=draw(st.sampled_from([False, False, True])),
        handler=draw(st.sampled_from([None, "noop"])),
        priority=draw(st.integers(0, 1)),
        parent=draw(st.sampled_from([None, None, "flow@1"])),
        once=birth.spec.schedule.schedule_type not in ("CRON", "INTERVAL") and draw(st.booleans()),
    )
    end = succeeded(
        run,
        at=at + 9 + draw(st.integers(0, 100_000)),
        output=draw(st.sampled_from([None, None, {"n": "\0"}])),
        log_url=draw(st.sampled_from([None, "s3://log\0"])),
        log_lost=draw(short_text),
        cpu_seconds=draw(st.sampled_from([None, 0.5])),
        attempt=draw(st.sampled_from([run.attempt, run.attempt, run.attempt, 3])),
    )
    told: list[JobEvent | RunEvent] = [birth, run, end]
    extra = draw(st.lists(st.integers(0, 6), max_size=2))
    base: dict[str, Any] = {"job_id": job_id, "spec": spec(**schedule), "at": at + 5, "created_at": at}
    others: list[JobEvent | RunEvent] = [
        JobUpdated(**base),
        JobPaused(**base),
        started(run),
        failed(run, retry_at=at + SECOND),
        requested(job_id, "c1", at + 6),
        ScheduleEnded(run_id=job_id, at=at + 8, version=draw(st.integers(0, 60)), reason="over"),
        failed(run),
    ]
    for which in extra:
        told.insert(draw(st.integers(1, len(told))), others[which])
    return told[: draw(st.sampled_from([len(told), len(told), len(told), 1, 2]))]


@st.composite
def logs(draw: st.DrawFn) -> list[Step]:
    """Several jobs' lives interleaved; some frames are in the log twice, one soon after the other or much later."""
    told = [draw(lives(number)) for number in range(draw(st.integers(1, 5)))]
    frames: list[tuple[JobEvent | RunEvent, ...]] = []
    while told:
        life = draw(st.sampled_from(told))
        frames.append((life.pop(0),))
        told = [each for each in told if each]
    for twice in draw(st.lists(st.integers(0, len(frames) - 1), max_size=3)):
        frames.insert(draw(st.integers(twice + 1, len(frames))), frames[twice])
    versions: dict[str, int] = {}
    for sequence, (event,) in enumerate(frames, 1):
        if isinstance(event, JobCreated):
            versions.setdefault(event.job_id, sequence)
    return [
        message_of(sequence, (with_version(event, versions),)) for sequence, (event,) in enumerate(frames, 1)
    ]


def with_version(event: JobEvent | RunEvent, versions: Mapping[str, int]) -> JobEvent | RunEvent:
    """A run is queued by the version in which its job was created."""
    if not isinstance(event, RunQueued):
        return event
    return replace(event, version=versions[job_of(event.run_id)])


def message_of(sequence: int, frame: Sequence[Any]) -> Step:
    if hasattr(frame[0], "job_id"):
        return JobsMessage(0, sequence, T0, tuple(frame))
    return RunsMessage(0, sequence, T0, tuple(frame), 0)


def batch_of(steps: Sequence[Step]) -> Batch:
    return Batch(
        jobs=[step for step in steps if isinstance(step, JobsMessage)],
        runs=[step for step in steps if isinstance(step, RunsMessage)],
        events=sum(len(step.events) for step in steps),
    )


def fold(
    steps: Sequence[Step],
    cuts: Iterable[int] = (),
    restarts: Iterable[int] = (),
    kills: Iterable[int] = (),
    careful: bool = False,
) -> MemoryStore:
    """The log in batches, each prepared while the one before it is being written. Beginning anew after each refusal,
    and before the steps that are named, with nothing remembered; at a kill without what was not yet written."""
    ends = sorted({*cuts, len(steps)} & set(range(1, len(steps) + 1)))
    starts = [0, *ends[:-1]]
    batches = [batch_of(steps[start:end]) for start, end in zip(starts, ends, strict=True)]
    restarts_at = {starts.index(step) for step in restarts if step in starts[1:]}
    kills_at = {starts.index(step) for step in kills if step in starts[1:]}

    async def write_all(store: MemoryStore) -> None:
        careful_through = _NEVER if careful else 0
        written = 0
        while written < len(batches):
            folding = store.projection(careful_through)
            prepared: list[FoldedBatch] = []
            try:
                for number in range(written, len(batches)):
                    if number in kills_at:
                        kills_at.remove(number)
                        prepared.clear()
                        break
                    if number in restarts_at and prepared:
                        break
                    prepared.append(await folding.prepare(batches[number]))
                    if len(prepared) == 2:
                        await folding.write(prepared.pop(0), T0)
                        written += 1
                for last in prepared:
                    await folding.write(last, T0)
                    written += 1
            except RowsWereThere as error:
                careful_through = error.through

    store = MemoryStore()
    with pytest.MonkeyPatch.context() as patched:
        for load in (store.load_runs, store.load_jobs, store.load_due_one_shots):
            patched.setattr(projection, load.__name__, load)
        asyncio.run(write_all(store))
    return store


some_steps = st.sets(st.integers(1, 25))


@given(steps=logs(), cuts=some_steps, restarts=some_steps, kills=some_steps)
def test_the_rows_are_those_of_folding_one_by_one(
    steps: list[Step], cuts: set[int], restarts: set[int], kills: set[int]
) -> None:
    one_by_one = fold(steps, cuts, careful=True)
    assert one_by_one.refused == 0
    assert fold(steps, cuts, restarts, kills).contents() == one_by_one.contents()


def test_new_jobs_and_lives_that_are_over_are_taken_out_and_the_rest_is_left() -> None:
    whole, begun, paused = (queued(job_id) for job_id in ("whole~0", "begun", "paused"))
    edit = JobPaused(job_id="paused", spec=spec(), at=T0 + 5, created_at=T0)
    steps: list[Step] = [
        JobsMessage(0, 1, T0, (created("whole~0"), created("begun"), created("paused"), edit)),
        JobsMessage(0, 1, T0, (created("stored", schedule=EVERY_MINUTE), created("not begun"))),
        RunsMessage(0, 2, T0, (whole, begun, paused), 0),
        RunsMessage(0, 3, T0, (succeeded(whole), succeeded(paused)), 0),
    ]
    batch = batch_of(steps)
    found = ShortLives(batch.jobs, batch.runs)
    assert found.ended == {"whole~0": (created("whole~0"), 1, whole, 2, succeeded(whole), 3)}
    assert found.created == {
        "stored": (created("stored", schedule=EVERY_MINUTE), 1, T0 + MINUTE),
        "not begun": (created("not begun"), 1, None),
    }
    assert {event.job_id for _, events in found.other_jobs for event in events} == {"begun", "paused"}
    assert {event.run_id for _, events in found.other_runs for event in events} == {
        begun.run_id,
        paused.run_id,
    }


STORED = created("stored", schedule=Schedule(schedule_type="FUTURE", schedule_time=datetime_of(T0 + MINUTE)))
ONLY_RUN = queued("stored", T0 + MINUTE, once=True)
ONLY_END = succeeded(ONLY_RUN)


def told(*events: JobEvent | RunEvent) -> list[Step]:
    return [message_of(sequence, (event,)) for sequence, event in enumerate(events, 1)]


stored_before = pytest.mark.parametrize(
    "restarts", [pytest.param({1, 2}, id="long before"), pytest.param(set(), id="in the batch before")]
)


@stored_before
@pytest.mark.parametrize(
    ("stored", "run"), [(STORED, ONLY_RUN), (created("stored"), queued("stored", once=True))]
)
def test_a_stored_one_shot_whose_run_is_in_a_batch_is_over_without_being_folded(
    stored: JobEvent, run: RunQueued, restarts: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = told(stored, run, succeeded(run))
    expected = fold(steps, {1}, careful=True).contents()
    monkeypatch.setattr(BatchFold, "fold_runs", lambda *_: pytest.fail("folded"))
    assert fold(steps, {1}, restarts).contents() == expected
    assert expected["job_state"][("stored",)][2] == "COMPLETED"


@stored_before
@pytest.mark.parametrize(
    "after",
    [
        (ONLY_END, started(ONLY_RUN), failed(ONLY_RUN)),
        (ONLY_RUN, ONLY_END),
        (queued("stored~part"), ONLY_RUN, ONLY_END),
        (queued("stored~part"), JobUpdated(job_id="stored", spec=STORED.spec, at=T0 + 5, created_at=T0)),
    ],
)
def test_what_comes_after_the_only_run_while_that_is_written_finds_it(
    after: Sequence[JobEvent | RunEvent], restarts: set[int]
) -> None:
    steps = told(STORED, ONLY_RUN, ONLY_END, *after)
    for cuts in ({1, 3}, {1, 4}, {1, 5}):
        assert fold(steps, cuts, restarts).contents() == fold(steps, cuts, careful=True).contents()


@stored_before
@pytest.mark.parametrize(
    "before",
    [
        ScheduleEnded(run_id="stored", at=T0 + 5, version=0, reason="over"),
        JobUpdated(job_id="stored", spec=spec(schedule=EVERY_MINUTE), at=T0 + 5, created_at=T0),
        JobPaused(job_id="stored", spec=STORED.spec, at=T0 + 5, created_at=T0),
        RunRequested(run_id=ONLY_RUN.run_id, at=T0 + 5, version=1, trigger="backfill"),
        SkipRequested(run_id=run_id("stored", T0 + HOUR), at=T0 + 5, scheduled=T0 + HOUR),
    ],
)
def test_a_one_shot_to_which_something_has_happened_is_folded(
    before: JobEvent | RunEvent, restarts: set[int]
) -> None:
    steps = told(STORED, before, ONLY_RUN, ONLY_END)
    assert fold(steps, {2}, restarts).contents() == fold(steps, {2}, careful=True).contents()


@stored_before
@pytest.mark.parametrize(
    "before",
    [
        JobUpdated(job_id="now", spec=spec(), at=T0 + 5, created_at=T0, due_now=T0 + 5),
        JobPaused(job_id="now", spec=spec(), at=T0 + 5, created_at=T0),
        RunRequested(run_id=run_id("now", T0), at=T0 + 5, version=1, trigger="backfill"),
    ],
)
def test_a_job_that_waits_to_run_and_to_which_something_has_happened_is_folded(
    before: JobEvent | RunEvent, restarts: set[int]
) -> None:
    run = queued("now", once=True)
    steps = told(created("now"), before, run, succeeded(run))
    assert fold(steps, {2}, restarts).contents() == fold(steps, {2}, careful=True).contents()


def test_a_part_of_a_job_that_is_new_in_the_same_batch_is_in_its_namespace() -> None:
    steps = [message_of(1, (created("whole", namespace="acme"),)), message_of(2, (queued("whole~part"),))]
    store = fold(steps)
    assert [row[2] for row in store.tables["run_state"].values()] == ["acme"]


def test_a_new_job_whose_first_fire_cannot_be_worked_out_is_stored_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OverflowError

    monkeypatch.setattr(short_life, "next_fire", fail)
    monkeypatch.setattr(job_fold, "compile_schedule", fail)
    store = fold([message_of(1, (created("odd", schedule=EVERY_MINUTE), created("plain")))])
    assert [(row[0], row[3]) for row in store.tables["job_state"].values()] == [
        ("odd", None),
        ("plain", None),
    ]
    assert "left out what cannot be folded" in caplog.text


@pytest.mark.parametrize("between", [False, True])
def test_a_definition_that_is_in_the_log_twice_is_refused_and_folded_again(between: bool) -> None:
    run = queued("job")
    life = [created("job"), run, succeeded(run)]
    steps = [message_of(sequence, (event,)) for sequence, event in enumerate(life * 2, 1)]
    store = fold(steps, {3}, {3} if between else set())
    assert store.refused == (1 if between else 0)
    assert store.contents() == fold(steps, {3}, careful=True).contents()
    assert len(store.tables["run_state"]) == 1
    assert store.tables["job_state"][("job",)][2] == "COMPLETED"


@given(
    st.one_of(st.integers(-10, 2**52), st.integers(0, 160).map(lambda index: int(1000 * 2 ** (index / 4))))
)
def test_a_histogram_index_is_looked_up_as_it_would_be_worked_out(microseconds: int) -> None:
    for near in range(microseconds - 2, microseconds + 3):
        assert histogram_index(near) == exact_index(near)
