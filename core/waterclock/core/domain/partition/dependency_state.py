"""What jobs in different partitions have to say to each other: who waits for whom, and who has completed.

Whatever one partition has to tell another follows from events in its own log and stays in its outbox, part of the
state, until it is known to be in the other's log. A letter is named after what it says, and may arrive twice.
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

_TIMES_KEPT = 1000
_SEEN_KEPT = 200
_SUCCEEDED_KEPT = 1000
_NAMED = 5


class Letter(Struct, frozen=True, kw_only=True):
    key: str
    sender: str
    """The job it is about here."""
    to: str
    """The job it is for."""
    event: DependentChanged | DependencyCompleted


class Post(Struct, kw_only=True, omit_defaults=True):
    dependents: dict[str, dict[str, int]] = field(default_factory=dict)
    """By job: who waits for it, and the version of their definition that says so."""
    outbox: dict[str, Letter] = field(default_factory=dict)
    succeeded: dict[str, tuple[str, Instant]] = field(default_factory=dict)
    """The newest success of each job without times of its own, and when that was scheduled. Nobody may have waited
    for it yet: who is defined next, and depends on it, would wait for ever. At least the last thousand."""
    succeeded_before: dict[str, tuple[str, Instant]] = field(default_factory=dict)
    """The thousand before those."""


class Dependencies(Struct, kw_only=True, omit_defaults=True):
    """What a job waits for."""

    version: int
    on: tuple[str, ...]
    same_time: bool = False
    paused: bool = False
    seen: dict[str, list[str]] = field(default_factory=dict)
    """The newest runs of each of them that were heard of."""
    completed: dict[str, Instant] = field(default_factory=dict)
    """Those that have completed since the last run, and when."""
    times: dict[int, list[str]] = field(default_factory=dict)
    """By scheduled time, those that have completed; the newest thousand times."""


def dependencies_changed(
    post: Post, dependencies: dict[str, Dependencies], event: DependenciesChanged
) -> None:
    job_id = event.run_id
    before = dependencies.get(job_id)
    if before is not None and before.version > event.version:
        return
    old = () if before is None else before.on
    for other in (*event.on, *(job for job in old if job not in event.on)):
        if other not in old or other not in event.on:
            _write(
                post,
                f"{job_id}/{event.version}>{other}",
                job_id,
                other,
                DependentChanged(
                    run_id=other,
                    at=event.at,
                    dependent=job_id,
                    version=event.version,
                    waits=other in event.on,
                    known=True,
                ),
            )
    if not event.on:
        dependencies.pop(job_id, None)
        return
    changed = dependencies[job_id] = Dependencies(
        version=event.version, on=event.on, same_time=event.same_time, paused=event.paused
    )
    if before is not None:
        changed.seen = before.seen
        if not event.reset:
            changed.completed = {job: at for job, at in before.completed.items() if job in event.on}
            changed.times = before.times


def dependent_changed(post: Post, event: DependentChanged) -> None:
    listening = post.dependents.setdefault(event.run_id, {})
    if event.version >= listening.get(event.dependent, 0):
        if event.waits:
            listening[event.dependent] = event.version
            if event.known:
                _tell_of_the_past(post, event)
        else:
            listening.pop(event.dependent, None)
    if not listening:
        del post.dependents[event.run_id]


def announce(post: Post, job_id: str, run_id: str, scheduled: Instant, at: Instant) -> None:
    """A run of the job succeeded: everybody who waits for it is told."""
    for dependent in post.dependents[job_id]:
        _tell(post, dependent, job_id, run_id, scheduled, at)


def remember(post: Post, job_id: str, run_id: str, scheduled: Instant) -> None:
    """A run of a job without times of its own succeeded, and may stay its only one."""
    if len(post.succeeded) >= _SUCCEEDED_KEPT:
        post.succeeded_before, post.succeeded = post.succeeded, {}
    post.succeeded[job_id] = run_id, scheduled


def _tell_of_the_past(post: Post, event: DependentChanged) -> None:
    """Who begins to wait for a job that has succeeded already has that from now on."""
    past = post.succeeded.get(event.run_id) or post.succeeded_before.get(event.run_id)
    if past is not None:
        _tell(post, event.dependent, event.run_id, *past, event.at)


def _tell(post: Post, dependent: str, job_id: str, run_id: str, scheduled: Instant, at: Instant) -> None:
    by_schedule = run_id == ids.run_id(job_id, scheduled)
    _write(
        post,
        f"{run_id}>{dependent}",
        job_id,
        dependent,
        DependencyCompleted(
            run_id=dependent,
            at=at,
            dependency=job_id,
            of=run_id,
            scheduled=scheduled if by_schedule else None,
        ),
    )


def completed(dependencies: dict[str, Dependencies], event: DependencyCompleted) -> None:
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


def used(dependencies: dict[str, Dependencies], event: DependenciesUsed) -> None:
    job = dependencies.get(event.run_id)
    if job is not None:
        job.completed = {}
        if event.scheduled is not None:
            job.times.pop(event.scheduled, None)


def delivered(post: Post, letters: Sequence[str]) -> None:
    for key in letters:
        post.outbox.pop(key, None)


def missing(dependencies: dict[str, Dependencies], job_id: str, scheduled: Instant | None) -> Sequence[str]:
    """The jobs that a run of this one still waits for. `scheduled` matters where times are kept apart."""
    job = dependencies.get(job_id)
    if job is None:
        return ()
    there = job.times.get(scheduled or 0, ()) if job.same_time else job.completed
    return [other for other in job.on if other not in there]


def waits_for(others: Sequence[str]) -> str:
    return "waits for " + ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")


def _write(post: Post, key: str, sender: str, to: str, event: DependentChanged | DependencyCompleted) -> None:
    post.outbox[key] = Letter(key=key, sender=sender, to=to, event=event)
