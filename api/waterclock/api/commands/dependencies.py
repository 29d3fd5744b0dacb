"""Jobs that wait for other jobs: those must exist, and no cycle may close, even when two jobs are edited at once.

The definitions in `JOBS` are the graph. An edit is announced in one key of the control bucket before it is written, by
compare-and-set; whoever edits at the same time sees the announcement, and of two edits that would close a cycle
together the second is refused.
"""

from collections.abc import Mapping, Set

import msgspec
from msgspec import Struct

from waterclock.api.application import Application
from waterclock.api.errors import Invalid, Unavailable
from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.job.nodes import find_cycle, spell
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.job_definitions import Definitions
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.quarantine import read_record
from waterclock.proto.codec import decoder
from waterclock.proto.events import DependentChanged, Instant
from waterclock.proto.spec import JobSpec

_KEY = "dependencies"
_EDIT_TIME = 60 * SECOND
"""How long an edit that was announced may take to be written."""
_ATTEMPTS = 50


class PendingEdit(Struct, frozen=True):
    """An edit that was announced and may not be written yet."""

    dependencies: tuple[str, ...]
    until: Instant


_decode = decoder(dict[str, PendingEdit])
_encode = msgspec.json.Encoder().encode


async def check(
    app: Application,
    job_id: str | None,
    spec: JobSpec,
    beside: Set[str] = frozenset(),
    *,
    announced: bool = True,
) -> None:
    """What a job waits for must exist, or be about to (`beside`), and must not wait for the job.

    Must come before the definition is written, which then has a minute. Where nothing will be written, nothing is
    announced either.
    """
    if not spec.dependencies:
        return
    for _ in range(_ATTEMPTS):
        entry = await app.control.get(_KEY)
        now = now_us()
        stored: dict[str, PendingEdit] = (
            {} if entry is None else read_record(_decode, app.control.stream, entry, {})
        )
        pending = {job: edit for job, edit in stored.items() if edit.until > now}
        await _check(app.definitions, job_id, spec, beside, pending)
        if job_id is None or not announced:
            return  # nobody can wait for a job that has no id yet
        pending[job_id] = PendingEdit(spec.dependencies, now + _EDIT_TIME)
        try:
            if entry is None:
                await app.control.create(_KEY, _encode(pending))
            else:
                await app.control.update(_KEY, _encode(pending), entry.revision)
        except Conflict:
            continue
        return
    raise Unavailable.because("many dependencies are changed at once", retry_after=1)


async def register(app: Application, job_id: str, version: int, spec: JobSpec) -> None:
    """Announce the job to those it waits for before it is answered, so that what they complete from then on counts.

    The job's own partition does this as well: here it only saves the time until then.
    """
    for dependency in spec.dependencies:
        event = DependentChanged(run_id=dependency, at=now_us(), dependent=job_id, version=version)
        await app.run_requests.append(app.partition_of(dependency), [event])


async def _check(
    definitions: Definitions,
    job_id: str | None,
    spec: JobSpec,
    beside: Set[str],
    pending: Mapping[str, PendingEdit],
) -> None:
    edges: dict[str, tuple[str, ...]] = {job_id or "": spec.dependencies}
    unread = list(spec.dependencies)
    while unread:
        known = unread.pop()
        if known in edges:
            continue
        found = await definitions.read(known)
        if (
            known in spec.dependencies
            and known not in beside
            and (found is None or found.job.spec.namespace != spec.namespace)
        ):
            raise Invalid.field("dependencies", f"there is no job {known}")
        stored = () if found is None or found.job.status == "CANCELLED" else found.job.spec.dependencies
        announced = pending[known].dependencies if known in pending else ()
        edges[known] = tuple(dict.fromkeys((*stored, *announced)))
        unread += edges[known]
    if cycle := find_cycle(edges):
        raise Invalid.field("dependencies", f"the jobs wait for each other: {spell(cycle)}")
