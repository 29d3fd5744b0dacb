"""Who waits for whom, who has completed, and the notices about it that go from one partition to another.

Whatever one partition has to tell another follows from events in its own log and stays in its outbox, part of the
state, until it is known to be in the other's log. A notice is named after what it says, and may arrive twice.
In the log and in snapshots notices are called letters, and all that is kept of them the post.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from waterclock.core.domain import ids
from waterclock.proto.events import (
    DependenciesChanged,
    DependenciesUsed,
    DependencyCompleted,
    DependentChanged,
    Instant,
)
from waterclock.proto.work import CompletedDependency, DependencyReply

_TIMES_KEPT = 1000
_SEEN_KEPT = 200
_SUCCEEDED_KEPT = 1000
_LEFT_KEPT = 1000
_NAMED = 5


class Notice(Struct, frozen=True, kw_only=True):
    key: str
    sender: str
    """The job it is about here."""
    to: str
    """The job it is for."""
    event: DependentChanged | DependencyCompleted


class Notices(Struct, kw_only=True, omit_defaults=True):
    dependents: dict[str, dict[str, int]] = field(default_factory=dict)
    """By job: who waits for it, and the version of their definition that says so."""
    outbox: dict[str, Notice] = field(default_factory=dict)
    succeeded: dict[str, tuple[str, Instant]] = field(default_factory=dict)
    """The newest success of each job without times of its own, and when that was scheduled. Nobody may have waited
    for it yet: who is defined next, and depends on it, would wait for ever. At least the last thousand."""
    succeeded_before: dict[str, tuple[str, Instant]] = field(default_factory=dict)
    """The thousand before those."""
    heard: dict[str, int] = field(default_factory=dict)
    """By dependent and job, the version of the last notice in which the dependent's owner said that it waits. It may
    come again when it has been answered."""
    left: dict[str, int] = field(default_factory=dict)
    """The same of the last notice that it waits no longer; the newest thousand. An older one that says that it waits
    may come after it."""


class Dependencies(Struct, kw_only=True, omit_defaults=True):
    """What a job waits for."""

    version: int
    on: tuple[str, ...]
    same_time: bool = False
    paused: bool = False
    seen: dict[str, list[str]] = field(default_factory=dict)
    """By job waited for, its newest runs whose completion was read."""
    completed: dict[str, Instant] = field(default_factory=dict)
    """Those that have completed since the last run, and when."""
    times: dict[int, list[str]] = field(default_factory=dict)
    """By scheduled time, those that have completed; the newest thousand times."""


# -- the side that waits --------------------------------------------------------------------------------


def dependencies_changed(
    notices: Notices, dependencies: dict[str, Dependencies], event: DependenciesChanged
) -> None:
    """A job waits for others than before: those it no longer waits for and the new ones are told."""
    job_id = event.run_id
    before = dependencies.get(job_id)
    if before is not None and before.version > event.version:
        return
    old = () if before is None else before.on
    for other in (*event.on, *(job for job in old if job not in event.on)):
        if other not in old or other not in event.on:
            changed = DependentChanged(
                run_id=other,
                at=event.at,
                dependent=job_id,
                version=event.version,
                waits=other in event.on,
                known=True,
            )
            key = f"{job_id}/{event.version}>{other}"
            notices.outbox[key] = Notice(key=key, sender=job_id, to=other, event=changed)
    if not event.on:
        dependencies.pop(job_id, None)
        return
    now = dependencies[job_id] = Dependencies(
        version=event.version, on=event.on, same_time=event.same_time, paused=event.paused
    )
    if before is not None:
        now.seen = before.seen
        if not event.reset:
            now.completed = {job: at for job, at in before.completed.items() if job in event.on}
            now.times = before.times


def dependency_completed(dependencies: dict[str, Dependencies], event: DependencyCompleted) -> None:
    job = dependencies.get(event.run_id)
    if job is None or event.dependency not in job.on:
        return
    seen = job.seen.setdefault(event.dependency, [])
    if event.of in seen:
        return
    seen.append(event.of)
    del seen[:-_SEEN_KEPT]
    job.completed[event.dependency] = event.at
    if job.same_time and event.scheduled is not None:
        at_that_time = job.times.setdefault(event.scheduled, [])
        if event.dependency not in at_that_time:
            at_that_time.append(event.dependency)
        if len(job.times) > _TIMES_KEPT:
            del job.times[next(iter(job.times))]


def dependencies_used(dependencies: dict[str, Dependencies], event: DependenciesUsed) -> None:
    job = dependencies.get(event.run_id)
    if job is not None:
        job.completed = {}
        if event.scheduled is not None:
            job.times.pop(event.scheduled, None)


def missing_dependencies(
    dependencies: dict[str, Dependencies], job_id: str, scheduled: Instant | None
) -> Sequence[str]:
    """The jobs that a run of this one still waits for. `scheduled` matters where times are kept apart."""
    job = dependencies.get(job_id)
    if job is None:
        return ()
    there = job.times.get(scheduled or 0, ()) if job.same_time else job.completed
    return [other for other in job.on if other not in there]


def dependency_progress(
    dependencies: dict[str, Dependencies], job_id: str, scheduled: Instant | None
) -> DependencyReply:
    """What a job, or a run of it, waits for, and what of that has completed. Where times are kept apart and none is
    named, it is about the newest of which anything has."""
    job = dependencies.get(job_id)
    if job is None:
        return DependencyReply()
    if job.same_time:
        time = max(job.times, default=None) if scheduled is None else scheduled
        there = job.times.get(time, ()) if time is not None else ()
        completed = {
            other: CompletedDependency(run_id=ids.run_id(other, time or 0))
            for other in job.on
            if other in there
        }
    else:
        completed = {
            other: CompletedDependency(run_id=job.seen[other][-1], at=job.completed[other])
            for other in job.on
            if other in job.completed and job.seen.get(other)
        }
    return DependencyReply(waits_for=job.on, completed=completed)


def waits_for(others: Sequence[str]) -> str:
    """The reason that is shown."""
    return "waits for " + ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")


# -- the side that is waited for ------------------------------------------------------------------------


def dependent_changed(notices: Notices, event: DependentChanged) -> None:
    """Another job begins or ceases to wait for one of ours. What its owner says counts once, however often and late it
    comes."""
    job_id, dependent, version = event.run_id, event.dependent, event.version
    pair = f"{dependent}>{job_id}"
    if version <= max(notices.heard.get(pair, 0), notices.left.get(pair, 0)):
        return
    dependents = notices.dependents.setdefault(job_id, {})
    announced = dependents.get(dependent, 0)
    if event.waits:
        dependents[dependent] = max(version, announced)
    elif version >= announced:
        dependents.pop(dependent, None)
    if not dependents:
        del notices.dependents[job_id]
    if event.known:
        _remember_notice(notices, pair, event)


def _remember_notice(notices: Notices, pair: str, event: DependentChanged) -> None:
    heard, left = notices.heard, notices.left
    heard.pop(pair, None)
    left.pop(pair, None)
    if event.waits:
        heard[pair] = event.version
        _notify_of_earlier_success(notices, event)
    else:
        left[pair] = event.version
        if len(left) > _LEFT_KEPT:
            del left[next(iter(left))]


def notify_dependents(notices: Notices, job_id: str, run_id: str, scheduled: Instant, at: Instant) -> None:
    """A run of the job succeeded."""
    for dependent in notices.dependents[job_id]:
        _notify(notices, f"{run_id}>{dependent}", dependent, job_id, run_id, scheduled, at)


def remember_success(notices: Notices, job_id: str, run_id: str, scheduled: Instant) -> None:
    """A run of a job without times of its own succeeded, and may stay its only one."""
    if len(notices.succeeded) >= _SUCCEEDED_KEPT:
        notices.succeeded_before, notices.succeeded = notices.succeeded, {}
    notices.succeeded[job_id] = run_id, scheduled


def notices_delivered(notices: Notices, keys: Sequence[str]) -> None:
    for key in keys:
        notices.outbox.pop(key, None)


def _notify_of_earlier_success(notices: Notices, event: DependentChanged) -> None:
    """For who begins to wait for a job that has succeeded already, that success counts. It may have been told of it
    before it could hear: this is another notice, and that one's delivery does not count for it."""
    past = notices.succeeded.get(event.run_id) or notices.succeeded_before.get(event.run_id)
    if past is not None:
        key = f"{past[0]}>{event.dependent}/{event.version}"
        _notify(notices, key, event.dependent, event.run_id, *past, event.at)


def _notify(
    notices: Notices, key: str, dependent: str, job_id: str, run_id: str, scheduled: Instant, at: Instant
) -> None:
    by_schedule = run_id == ids.run_id(job_id, scheduled)
    completed = DependencyCompleted(
        run_id=dependent,
        at=at,
        dependency=job_id,
        of=run_id,
        scheduled=scheduled if by_schedule else None,
    )
    notices.outbox[key] = Notice(key=key, sender=job_id, to=dependent, event=completed)
