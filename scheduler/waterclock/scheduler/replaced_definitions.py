"""Definitions that a change replaces, of schedules that are not in memory.

What the old definition had due until the change is still decided by it. Of a crowd that is behind, that may be in the
index and nowhere else; so the old definition is read from the log before the new one is observed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from waterclock.core.domain.partition.owner import Owner
from waterclock.proto.events import Instant, JobCreated, JobEvent
from waterclock.scheduler.ports import Ports

Changes = Sequence[tuple[JobEvent, int]]
"""Definitions and their versions."""
Replaced = Mapping[tuple[str, int], tuple[JobEvent, int] | None]
"""By job and version, the definition before that one, and its version."""


async def read_replaced(ports: Ports, owner: Owner, changes: Changes) -> Replaced:
    """For those that are about to be observed. One that is in memory now may not be when its job is changed twice."""
    changed = [(event.job_id, version) for event, version in changes if not isinstance(event, JobCreated)]
    if not changed:
        return {}
    times = Counter(job_id for job_id, _ in changed)
    wanted = [change for change in changed if times[change[0]] > 1 or not owner.holds(change[0])]
    return await ports.definitions.before(wanted) if wanted else {}


def observe_job(owner: Owner, event: JobEvent, version: int, replaced: Replaced, now: Instant) -> None:
    before = replaced.get((event.job_id, version))
    if before is not None:
        owner.recall(*before)
    owner.observe_job(event, version, now)
