"""One try at a run: an immutable record that goes through resolve, start, perform, classify and report."""

from msgspec import Struct

from waterclock.proto.events import Instant
from waterclock.proto.work import WorkItem


class Attempt(Struct, frozen=True, kw_only=True, gc=False):
    item: WorkItem
    executor_id: str
    started: Instant
    crash_count: int = 0
    fencing_token: int | None = None

    @property
    def failures(self) -> int:
        """How many attempts will have failed if this one does, counted anew after a redrive."""
        return self.item.attempt - self.item.first_attempt + 1
