"""The fires of many schedules in one order, computed one by one as they are asked for."""

from heapq import heapify, heappop, heappush, nsmallest

from msgspec import Struct

from waterclock.core.domain.schedule.fire import Fire
from waterclock.core.domain.schedule.fires import Fires

Place = tuple[int, str]
"""An instant and a job: fires at the same instant come in the order of their jobs."""


class FiringJob(Struct, frozen=True, kw_only=True):
    job_id: str
    name: str
    timezone: str
    fires: Fires
    since: int
    """Fires before this instant are decided: the job's next one, or the first that is to be left out."""
    left: int | None = None
    """How many fires from `since` on the job may still take; None: without limit."""
    skipped: frozenset[int] = frozenset()
    """Fires that are to be left out."""


class MergedFire(Struct, frozen=True):
    job: FiringJob
    fire: Fire

    @property
    def place(self) -> Place:
        return self.fire.scheduled, self.job.job_id

    @property
    def is_skipped(self) -> bool:
        return self.fire.scheduled in self.job.skipped


class MergedFires:
    """Fires after a place and before an instant. Of jobs that are added, the next fire of each is known and no more."""

    def __init__(self, after: Place, end: int) -> None:
        self._after = after
        self._end = end
        self._heap: list[tuple[int, str, int | None, MergedFire]] = []

    @property
    def next_place(self) -> Place | None:
        return self._heap[0][:2] if self._heap else None

    def add(self, job: FiringJob) -> None:
        """A job of which nothing was handed out yet."""
        start = max(self._after[0], job.since)
        fire = job.fires.at_or_after(start)
        if fire is not None and (fire.scheduled, job.job_id) <= self._after:
            fire = job.fires.after(fire.scheduled)
        left = job.left
        if left is not None and fire is not None:
            passed = job.fires.count_between(job.since, fire.scheduled, left + len(job.skipped))
            left -= passed - sum(job.since <= time < fire.scheduled for time in job.skipped)
        self._push(job, fire, left)

    def forget_beyond(self, count: int) -> None:
        """Keep only the jobs that the first so many fires can be of."""
        if len(self._heap) > 4 * count:
            self._heap = nsmallest(count, self._heap, key=lambda entry: entry[:2])
            heapify(self._heap)

    def pop(self) -> MergedFire | None:
        if not self._heap:
            return None
        _, _, left, found = heappop(self._heap)
        if left is not None and not found.is_skipped:
            left -= 1
        self._push(found.job, found.job.fires.after(found.fire.scheduled), left)
        return found

    def _push(self, job: FiringJob, fire: Fire | None, left: int | None) -> None:
        if fire is None or fire.scheduled >= self._end or (left is not None and left <= 0):
            return
        heappush(self._heap, (fire.scheduled, job.job_id, left, MergedFire(job, fire)))
