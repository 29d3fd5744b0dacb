"""A job that is given an instant that is over runs at once, and once; everybody who is asked says so."""

import pytest
from msgspec.structs import replace

from unit.domain.partition_owner import START, Partition, at, every
from waterclock.core.domain.explain.audit import Auditor
from waterclock.core.domain.explain.definition_spans import spans
from waterclock.core.domain.explain.explanation import Recorded
from waterclock.core.domain.explain.why_moment import explain_moment
from waterclock.core.domain.ids import run_id
from waterclock.core.domain.instants import datetime_of
from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import PartitionState
from waterclock.proto.events import (
    Frame,
    JobCreated,
    JobEvent,
    JobPaused,
    JobResumed,
    JobUpdated,
    RunQueued,
    ScheduleEnded,
)
from waterclock.proto.spec import JobSpec, Schedule, Shell

NOW = JobSpec(name="job", task=Shell(command="true"))
PAST = replace(NOW, schedule=Schedule(schedule_type="FUTURE", schedule_time=datetime_of(START - 10**9)))
FUTURE = replace(NOW, schedule=Schedule(schedule_type="FUTURE", schedule_time=datetime_of(at(60))))
EDITED = at(5)


def edited(spec: JobSpec) -> JobUpdated:
    return JobUpdated(job_id="job", spec=spec, at=EDITED, created_at=START, due_now=EDITED)


@pytest.mark.parametrize("before", [every(3600), FUTURE])
@pytest.mark.parametrize("after", [NOW, PAST])
def test_it_runs_at_the_instant_of_the_edit(before: JobSpec, after: JobSpec) -> None:
    partition = Partition()
    partition.create("job", before)
    partition.settle(at(1))
    partition.owner.observe_job(edited(after), 2, EDITED)
    partition.settle(at(6))
    partition.settle(at(120))
    assert [run.run_id for run in partition.queued] == [run_id("job", EDITED)]

    history: list[tuple[int, JobEvent]] = [
        (1, JobCreated(job_id="job", spec=before, at=START, created_at=START)),
        (2, edited(after)),
    ]
    [_, span] = spans(history, at(120))
    assert span.at_once == EDITED
    records = [Recorded(sequence=n, writer="x/1", event=event) for n, event in enumerate(partition.events, 1)]
    assert explain_moment("job", history, records, EDITED, at(130)).run_id == run_id("job", EDITED)
    other = explain_moment("job", history, records, at(50), at(130))
    assert "it was due once" in other.answer
    assert "when it was changed to run at once" in other.answer


def test_whoever_takes_over_before_it_was_decided_decides_it_and_no_other_does() -> None:
    partition = Partition()
    partition.create("job", every(3600))
    partition.settle(at(1))
    partition.owner.observe_job(edited(PAST), 2, EDITED)
    decided = partition.tick(at(6))
    assert [type(event) for event in decided] == [RunQueued]

    for events, runs in (((), 1), (tuple(decided), 0)):
        state = PartitionState()
        successor = Owner(3, state, START)
        successor.replay(Frame(writer="before", events=events), 1)
        state.cursor = replace(state.cursor, jobs=2)
        successor.observe_again(edited(PAST), 2, at(7))
        successor.wake(at(7), lived=True)
        successor.loaded(at(10**6))
        successor.tick(at(7))
        found = [event for event in successor.take_pass().events if isinstance(event, RunQueued)]
        assert len(found) == runs


def test_a_one_shot_whose_time_passed_in_a_pause_has_ended_when_it_is_resumed() -> None:
    partition = Partition()
    partition.create("job", FUTURE)
    paused = JobPaused(job_id="job", spec=FUTURE, created_at=START, at=at(5))
    resumed = JobResumed(job_id="job", spec=FUTURE, created_at=START, at=at(90))
    partition.owner.observe_job(paused, 2, at(5))
    partition.owner.observe_job(resumed, 3, at(90))
    partition.settle(at(91))
    assert partition.queued == []
    [ended] = [event for event in partition.events if isinstance(event, ScheduleEnded)]
    assert ended.reason == "its time passed while it was paused"


def test_the_audit_expects_it() -> None:
    auditor = Auditor(START, at(100))
    auditor.job_event(1, JobCreated(job_id="job", spec=every(3600), at=START, created_at=START))
    auditor.job_event(2, edited(PAST))
    report = auditor.report(decided=at(200))
    assert [finding.fault for finding in report.findings] == ["unaccounted"]
