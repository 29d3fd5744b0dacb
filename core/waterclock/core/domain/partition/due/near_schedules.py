"""The schedules of a partition that are in memory: which, how many, and up to when that is all there is.

What fires within the horizon is to be here. If that is too much, only the first of it is: the rest stays in the timing
index alone until there is room again. What recurs and one-shots are told apart, so that a crowd of the one does not
keep the other out. Hot schedules are always here, and not counted.
"""

from collections import Counter
from collections.abc import Callable

from waterclock.core.domain.partition.due.armed_schedule import ArmedSchedule
from waterclock.core.domain.partition.due.timing_wheel import Wheel
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.timing_groups import PART
from waterclock.proto.events import Instant


class NearSchedules:
    def __init__(self, wheel: Wheel[ArmedSchedule | Run]) -> None:
        self._wheel = wheel
        self.by_job: dict[str, ArmedSchedule] = {}
        self._counts = [0, 0]
        """One-shots, and what recurs: by whether they do. So are the next two."""
        self._until: list[Instant] = [0, 0]
        self._unread_version = [0, 0]
        self.unread = 0
        """How many are due that only the index has, about."""

    def __len__(self) -> int:
        return len(self.by_job)

    def arm(self, item: ArmedSchedule) -> None:
        self.disarm(item.job_id)
        self.by_job[item.job_id] = item
        if not item.hot:
            self._counts[item.lane.recurring] += 1

    def disarm(self, job_id: str) -> ArmedSchedule | None:
        item = self.by_job.pop(job_id, None)
        if item is not None and not item.hot:
            self._counts[item.lane.recurring] -= 1
        return item

    def count(self, *, recurring: bool) -> int:
        return self._counts[recurring]

    # -- up to when -------------------------------------------------------------------------------------

    def loaded(self, until: Instant, *, recurring: bool, unread_version: int = 0) -> None:
        """What is due before this instant is in memory. `unread_version`: the lowest that the index may have of what is
        due at it; 0: that is not known."""
        self._until[recurring] = until
        self._unread_version[recurring] = unread_version

    @property
    def loaded_until(self) -> Instant:
        return min(self._until)

    def is_near(self, item: ArmedSchedule) -> bool:
        """Whether it belongs into memory."""
        return item.hot or item.due < self._until[item.lane.recurring]

    def unread_version(self, at: Instant) -> int | None:
        """The lowest version of what is due at an instant and not in memory; None: all of it is."""
        versions = [self._unread_version[kind] for kind in (0, 1) if self._until[kind] <= at]
        return min(versions) if versions else None

    # -- too many ---------------------------------------------------------------------------------------

    def shed(self, most: int, not_before: Instant, *, recurring: bool) -> Instant | None:
        """Keep about so many of one kind, those that are due first, and whatever is due before an instant. The index
        has the others. Answers from when on nothing is in memory any more; None: there was nothing to leave out."""

        def may_go(item: ArmedSchedule) -> bool:
            return not (item.hot or item.waiting or item.unsettled or item.paused)

        parts = Counter(
            item.due // PART
            for item in self.by_job.values()
            if item.lane.recurring == recurring and may_go(item)
        )
        kept = 0
        for part in sorted(parts):
            if kept + parts[part] > most and part * PART > not_before:
                until = part * PART
                break
            kept += parts[part]
        else:
            return None
        self._drop(lambda item: item.lane.recurring == recurring and item.due >= until and may_go(item))
        self.loaded(min(until, self._until[recurring]), recurring=recurring)
        return until

    def _drop(self, unwanted: Callable[[ArmedSchedule], bool]) -> None:
        for item in [item for item in self.by_job.values() if unwanted(item)]:
            self.disarm(item.job_id)
        by_job = self.by_job
        self._wheel.keep(lambda item: isinstance(item, Run) or by_job.get(item.job_id) is item)
