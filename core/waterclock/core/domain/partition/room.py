"""Room among the executors: how much work a route may have that is queued or running.

A route is where work goes: a queue, the handler if it has one, a tier. What is due and has no room waits undecided
(due/backlog.py), so that the state of a partition is bounded by what can be done and not by what is wanted.
"""

from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from waterclock.proto import names
from waterclock.proto.spec import Handler, JobSpec, Workflow

PARTS = "~parts"
"""The route of runs that are made of others: they have no work of their own, but begin what has."""


UNSERVED = "~unserved"
"""The line of all routes that nobody serves."""


class Room(Protocol):
    @property
    def saturated(self) -> bool:
        """Whether more is due than can be done soon, so that callers are slowed down."""

    @property
    def served(self) -> frozenset[str] | None:
        """Routes of which work waits for room in a line of its own; that of all others waits together. None: each has a
        line. It is the same object until it changes."""

    def has(self, route: str, priority: int = 0) -> bool:
        """Whether one more of this priority may be queued there. What goes before or after it does not count: so of
        each priority the first are in the queue, and executors choose among them."""

    def waits_for_slots(self, route: str) -> bool:
        """Whether what has no room there waits for slow work to end, and not for the system."""

    def parcel_size(self, route: str) -> int:
        """How many attempts may travel there in one message: 1 unless they are short, and there are many."""

    def has_exact_lines(self, route: str) -> bool:
        """Whether all who serve it take work from the lines of exactly one priority."""

    def began(self, route: str, priority: int = 0) -> None:
        """One more run is queued there."""

    def ended(self, route: str, ran: int | None, priority: int = 0, count: int = 1) -> None:
        """One that was queued or running is so no more, or so many of them. `ran`: how long they were executed, all
        together, in microseconds, if they were."""


class UnlimitedRoom:
    saturated = False
    served = None

    def has(self, route: str, priority: int = 0) -> bool:
        return True

    def waits_for_slots(self, route: str) -> bool:
        return False

    def parcel_size(self, route: str) -> int:
        return 1

    def has_exact_lines(self, route: str) -> bool:
        return True

    def began(self, route: str, priority: int = 0) -> None:
        pass

    def ended(self, route: str, ran: int | None, priority: int = 0, count: int = 1) -> None:
        pass


class Lane(Struct, frozen=True):
    """What decides who goes next among those that wait."""

    priority: int
    recurring: bool
    namespace: str
    route: str


@lru_cache(maxsize=4096)
def route_of(queue: str, handler: str | None, tier: str) -> str:
    return f"{names.route_of(queue, handler)}/{tier}"


@lru_cache(maxsize=4096)
def lane(priority: int, recurring: bool, namespace: str, route: str) -> Lane:
    """The same object for the same lane: there may be a million schedules in a few of them."""
    return Lane(priority, recurring, namespace, route)


def no_executor(room: Room, route: str) -> str:
    """Why work of a route has not begun, in words."""
    where, _, tier = route.rpartition("/")
    queue, equals, handler = where.partition("=")
    if route == PARTS or room.served is None or route in room.served:
        return "no executor had room for it"
    what = f"handler {handler}" if equals else f"{tier} commands"
    return f"no executor serves {what} in queue {queue}"


def route_of_spec(spec: JobSpec) -> str:
    task = spec.task
    if type(task) is Workflow or spec.fan_out is not None:
        return PARTS
    return route_of(spec.queue, task.handler if type(task) is Handler else None, spec.tier)


def lane_of(spec: JobSpec) -> Lane:
    kind = spec.schedule.schedule_type
    return lane(spec.priority, kind == "CRON" or kind == "INTERVAL", spec.namespace, route_of_spec(spec))
