"""Notices between jobs that wait and jobs that are waited for: each counts once, however often and late it comes."""

from waterclock.core.domain.partition.dependency_state import dependency_progress
from waterclock.core.domain.partition.evolve import evolve
from waterclock.core.domain.partition.state import PartitionState
from waterclock.proto.events import (
    DependenciesChanged,
    DependenciesUsed,
    DependencyCompleted,
    DependentChanged,
    NoticesDelivered,
    RunQueued,
    RunSucceeded,
)
from waterclock.proto.work import CompletedDependency, DependencyReply

RUN = "first@now-1"


def changed(version: int, *, waits: bool = True, known: bool = True) -> DependentChanged:
    return DependentChanged(
        run_id="first", at=version, dependent="second", version=version, waits=waits, known=known
    )


def succeed(state: PartitionState) -> None:
    evolve(
        state,
        RunQueued(run_id=RUN, at=1, version=1, scheduled=1, due=1, attempt=1, trigger="now", once=True),
    )
    evolve(state, RunSucceeded(run_id=RUN, at=2, attempt=1, executor_id="x", started=1))


def delivered(state: PartitionState) -> NoticesDelivered:
    """What the owner says when it has sent all that is in the outbox now."""
    return NoticesDelivered(run_id="first@post", at=3, notices=tuple(state.notices.outbox))


def told(state: PartitionState) -> list[str]:
    return [notice.to for notice in state.notices.outbox.values()]


def test_a_notice_that_comes_again_is_not_answered_again() -> None:
    """A takeover sends again what is not known to have been delivered. The answer may be decided to be delivered before
    the repetition is read, which stands before that in the log: both orders must end alike."""
    state = PartitionState()
    succeed(state)
    evolve(state, changed(3))
    assert told(state) == ["second"]
    evolve(state, delivered(state))
    evolve(state, changed(3))
    assert not told(state)


def test_one_who_has_left_is_not_brought_back_by_an_older_notice() -> None:
    state = PartitionState()
    succeed(state)
    evolve(state, changed(3))
    evolve(state, changed(5, waits=False))
    evolve(state, delivered(state))
    for late in (changed(3), changed(4), changed(4, known=False)):
        evolve(state, late)
        assert not state.notices.dependents
        assert not told(state)


def test_one_who_comes_back_is_told_again_of_the_earlier_success() -> None:
    """It has forgotten what it was told before it left. That this was delivered says nothing about the new notice."""
    state = PartitionState()
    succeed(state)
    evolve(state, changed(3))
    before = delivered(state)
    evolve(state, changed(5, waits=False))
    evolve(state, changed(7))
    evolve(state, before)
    assert told(state) == ["second"]
    assert state.notices.dependents == {"first": {"second": 7}}


def test_one_who_was_told_before_it_could_hear_is_told_again() -> None:
    """The api announces a job before its owner has read it. What is told until then nobody hears."""
    state = PartitionState()
    evolve(state, changed(3, known=False))
    succeed(state)
    too_early = delivered(state)
    evolve(state, changed(3))
    evolve(state, too_early)
    assert told(state) == ["second"]


def test_the_owner_is_answered_also_when_a_newer_definition_was_announced() -> None:
    """Job 3 was edited at once, and waits for the same: of that its owner says nothing."""
    state = PartitionState()
    succeed(state)
    evolve(state, changed(4, known=False))
    evolve(state, changed(3))
    assert told(state) == ["second"]
    assert state.notices.dependents == {"first": {"second": 4}}


def test_one_who_has_announced_that_it_comes_back_does_not_leave_late() -> None:
    state = PartitionState()
    evolve(state, changed(3))
    evolve(state, changed(7, known=False))
    evolve(state, changed(5, waits=False))
    succeed(state)
    assert told(state) == ["second"]


def test_of_those_who_left_a_thousand_are_remembered() -> None:
    state = PartitionState()
    for number in range(1, 1502):
        evolve(
            state,
            DependentChanged(
                run_id="first", at=1, dependent=f"job{number}", version=number, waits=False, known=True
            ),
        )
    assert len(state.notices.left) == 1000
    assert "job1501>first" in state.notices.left
    assert not state.notices.dependents


def waits(*, same_time: bool = False) -> PartitionState:
    state = PartitionState()
    evolve(state, DependenciesChanged(run_id="c", at=1, version=1, on=("a", "b"), same_time=same_time))
    return state


def completed(job_id: str, run_id: str, at: int, scheduled: int | None = None) -> DependencyCompleted:
    return DependencyCompleted(run_id="c", at=at, dependency=job_id, of=run_id, scheduled=scheduled)


def test_what_a_job_waits_for_and_what_of_that_is_done() -> None:
    state = waits()
    assert dependency_progress(state.dependencies, "c", None) == DependencyReply(waits_for=("a", "b"))
    for run_id, at in (("a@1", 5), ("a@2", 6), ("a@1", 7)):
        evolve(state, completed("a", run_id, at))
    found = dependency_progress(state.dependencies, "c", None)
    assert found.completed == {"a": CompletedDependency(run_id="a@2", at=6)}
    evolve(state, DependenciesUsed(run_id="c", at=8))
    assert dependency_progress(state.dependencies, "c", None).completed == {}
    assert dependency_progress(state.dependencies, "nobody", None) == DependencyReply()


def test_of_the_same_time_each_time_counts_by_itself() -> None:
    state = waits(same_time=True)
    minute = 60_000_000
    evolve(state, completed("a", "a@19700101T000100Z", 5, scheduled=minute))
    evolve(state, completed("b", "b@19700101T000200Z", 6, scheduled=2 * minute))
    of_first = dependency_progress(state.dependencies, "c", minute)
    assert of_first.completed == {"a": CompletedDependency(run_id="a@19700101T000100Z")}
    newest = dependency_progress(state.dependencies, "c", None)
    assert newest.completed == {"b": CompletedDependency(run_id="b@19700101T000200Z")}
