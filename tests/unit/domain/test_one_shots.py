"""One-shots are decided in a short way and a long one: both decide the same."""

from datetime import timedelta
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from unit.domain.partition_owner import START, Partition, at, every, once
from waterclock.core.domain.ids import run_id
from waterclock.core.domain.instants import SECOND, datetime_of
from waterclock.core.domain.partition.due.armed_schedule import plain_time
from waterclock.core.domain.partition.due.one_shots import OneShots
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.schedule.fires import compile as compile_schedule
from waterclock.proto.events import (
    DependentChanged,
    Frame,
    JobCancelled,
    JobUpdated,
    RunEvent,
    RunQueued,
    RunSucceeded,
    SkipRequested,
)
from waterclock.proto.policies import CatchUp
from waterclock.proto.spec import Handler, JobSpec, Node, Schedule, Shell, Workflow

seconds = st.integers(-3, 90).map(float)

schedules = st.one_of(
    st.just(Schedule()),
    st.builds(
        Schedule,
        schedule_type=st.just("FUTURE"),
        schedule_time=seconds.map(lambda late: datetime_of(at(late))),
        jitter_seconds=st.sampled_from([0, 0, 0, 20]),
        max_fires=st.sampled_from([None, None, 1]),
        end_at=st.sampled_from([None, None, datetime_of(START) + timedelta(seconds=200)]),
    ),
)
specs = st.builds(
    JobSpec,
    name=st.just("job"),
    task=st.sampled_from(
        [
            Shell(command="true"),
            Handler(handler="noop"),
            Workflow(nodes=(Node(id="a", task=Shell(command="true")),)),
        ]
    ),
    schedule=schedules,
    priority=st.integers(0, 2),
    overlap=st.sampled_from(["allow", "skip", "queue_one"]),
    start_deadline_seconds=st.sampled_from([None, None, 1.0]),
    pause_on_failure=st.sampled_from([None, 2]),
    dependencies=st.sampled_from([(), (), ("other",)]),
)
step = st.one_of(
    st.tuples(st.just("create"), specs),
    st.tuples(st.just("edit"), specs),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("skip"), st.integers(0, 5)),
    st.tuples(st.just("end"), st.integers(0, 5)),
    st.tuples(st.just("wait"), seconds),
)
steps = st.lists(step, max_size=25)


class Story:
    """The same happens to every partition that is told it. `quiet`: what needs no pass when it is read gets none."""

    def __init__(self, room: int, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.noted = 0
        self.partition = Partition(room=room)
        self.jobs: list[str] = []
        self.now = START

    def tell(self, step: str, what: object) -> None:
        partition, owner = self.partition, self.partition.owner
        match step, what:
            case "create", JobSpec() as spec:
                self.jobs.append(f"job{len(self.jobs)}")
                partition.create(self.jobs[-1], spec, self.now)
            case "edit", JobSpec() as spec if self.jobs:
                partition.version += 1
                event = JobUpdated(job_id=self.jobs[-1], spec=spec, at=self.now, created_at=START)
                owner.observe_job(event, partition.version, self.now)
            case "cancel", int(number) if self.jobs:
                partition.version += 1
                job = self.jobs[number % len(self.jobs)]
                spec = JobSpec(name="job", task=Shell(command="true"))
                cancelled = JobCancelled(job_id=job, spec=spec, at=self.now, created_at=START)
                owner.observe_job(cancelled, partition.version, self.now)
            case "skip", int(number) if owner.schedules.armed:
                armed = sorted(owner.schedules.armed.values(), key=lambda item: item.job_id)
                item = armed[number % len(armed)]
                name = run_id(item.job_id, item.scheduled)
                self._read(SkipRequested(run_id=name, at=self.now, scheduled=item.scheduled))
            case "end", int(number) if owner.state.runs:
                runs = list(owner.state.runs.values())
                run = runs[number % len(runs)]
                self._read(
                    RunSucceeded(
                        run_id=run.run_id,
                        at=self.now,
                        attempt=run.attempt,
                        executor_id="e",
                        started=self.now - 1,
                    )
                )
            case "wait", float(late):
                self.now += int(abs(late) * SECOND)
                owner.follow_up(self.now)
                partition.settle(self.now)

    def _read(self, event: RunEvent) -> None:
        owner, frame = self.partition.owner, Frame(writer="e", events=(event,))
        if self.quiet and owner.note_success(frame, 1_000_000):
            self.noted += 1
            return
        owner.observe_frame(frame, 1_000_000)
        owner.follow_up(self.now)


def told(story: list[tuple[str, object]], room: int, *, quiet: bool = False) -> Story:
    teller = Story(room, quiet=quiet)
    for step, what in story:
        teller.tell(step, what)
    teller.tell("wait", 100.0)
    return teller


@settings(max_examples=300)
@given(story=steps, room=st.sampled_from([0, 1, 3, 1000]))
def test_the_short_way_decides_what_the_long_way_does(story: list[tuple[str, object]], room: int) -> None:
    short = told(story, room)
    with (
        patch.object(OneShots, "queue", return_value=False),
        patch.object(OneShots, "end", return_value=False),
    ):
        long = told(story, room)
    assert short.partition.events == long.partition.events
    assert short.partition.owner.state == long.partition.owner.state
    assert short.partition.index == long.partition.index


recurring = specs.map(
    lambda spec: replace(
        spec,
        schedule=Schedule(schedule_type="INTERVAL", interval_seconds=7.0),
        catch_up=CatchUp(policy="all"),
    )
)


@settings(max_examples=300)
@given(
    story=st.lists(st.one_of(step, st.tuples(st.just("create"), recurring)), max_size=25),
    room=st.sampled_from([1, 3, 1000]),
)
def test_a_success_that_gets_no_pass_of_its_own_leaves_nothing_undecided(
    story: list[tuple[str, object]], room: int
) -> None:
    quiet, loud = told(story, room, quiet=True), told(story, room)
    assert quiet.partition.events == loud.partition.events
    assert quiet.partition.owner.state == loud.partition.owner.state
    assert quiet.partition.index == loud.partition.index
    assert quiet.partition.room.left == loud.partition.room.left


@pytest.mark.parametrize("spec", [once(), every(60)])
def test_the_success_of_a_lone_run_needs_no_pass(spec: JobSpec) -> None:
    story: list[tuple[str, object]] = [("create", spec), ("wait", 60.0), ("end", 0)]
    assert told(story, 1_000, quiet=True).noted == 1


def test_one_that_somebody_depends_on_needs_a_pass() -> None:
    story = Story(1_000, quiet=True)
    story.tell("create", once())
    story.tell("wait", 1.0)
    story.partition.owner.observe_frame(
        Frame(writer="s", events=(DependentChanged(run_id="job0", at=START, dependent="other", version=1),)),
        7,
    )
    story.tell("end", 0)
    assert story.noted == 0


@given(schedule=schedules, after=seconds)
def test_a_plain_time_is_what_the_compiled_schedule_fires(schedule: Schedule, after: float) -> None:
    time = plain_time(schedule)
    if time is not None:
        fire = compile_schedule(schedule, "job").after(at(after))
        assert (None if fire is None else fire.scheduled) == (time if time > at(after) else None)


def test_a_queued_one_shot_is_the_same_run_live_and_replayed() -> None:
    partition = Partition()
    partition.create("job", JobSpec(name="job", task=Handler(handler="noop"), pause_on_failure=3))
    (event,) = partition.tick(at(1))
    assert isinstance(event, RunQueued)
    replayed = Partition(state=PartitionState())
    replayed.owner.replay(Frame(writer="w", events=(event,)), 1)
    assert replayed.owner.state.runs == partition.owner.state.runs
