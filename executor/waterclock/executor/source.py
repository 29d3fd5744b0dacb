"""One consumer of the work queue, as the puller sees it."""

from collections.abc import Callable

from waterclock.proto import names
from waterclock.proto.events import Instant
from waterclock.proto.work import WorkItem


class Source:
    def __init__(self, route: str, tier: str, band: int, tiers_below: int) -> None:
        self.route = route
        self.tier = tier
        self.tiers_below = tiers_below
        self.lowest = names.BANDS[band]
        self.consumer = names.work_consumer(route, tier, band)
        self.subject = names.work_filter(route, tier, band)
        self.priority = self.lowest
        self.oldest_due: Instant | None = None
        self.last_served = 0.0
        self.pending = 0
        self.asked = 0
        """How many messages of the current ask are still to come."""
        self.quiet = False
        """Known to be empty. A hint will tell when that changes, or a look now and then."""
        self.hinted = False
        """Something was just published; it may not be stored yet."""
        self.end_listening: Callable[[], None] | None = None

    def saw(self, item: WorkItem) -> None:
        """The item is at the head of the line, or was when it was taken."""
        self.priority = item.spec.priority
        self.oldest_due = item.due

    def is_empty(self) -> None:
        self.pending = 0
        self.priority = self.lowest
        self.oldest_due = None
