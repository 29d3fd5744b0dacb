"""Which work is pulled first: pure arithmetic on what is known of each line.

A run gains 10 points of priority for each 5 minutes it is overdue, and a tier below the executor's own counts 100
less. So among fresh runs the higher priority goes first and an executor serves its own tier first; but nothing
waits for ever: a run of priority p at the executor's own tier is ahead of every fresh run after at most
(100 - p) / 10 * 5 minutes, 50 minutes for p = 0, and after 50 minutes more for each tier below.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from waterclock.core.domain.instants import SECOND
from waterclock.proto.events import Instant

POINTS_PER_SECOND = 10 / 300
POINTS_PER_TIER = 100


class Line(Protocol):
    """What is known of the work that waits behind one consumer."""

    @property
    def priority(self) -> int:
        """Of the next message. All of a line have the same, but in those of the first releases."""

    @property
    def oldest_due(self) -> Instant | None: ...

    @property
    def tiers_below(self) -> int:
        """How far under the executor's own tier."""

    @property
    def last_served(self) -> float: ...


L = TypeVar("L", bound=Line)


def base_priority(line: Line) -> int:
    """Without what it has gained by waiting."""
    return line.priority - line.tiers_below * POINTS_PER_TIER


def effective_priority(line: Line, now: Instant) -> float:
    overdue = 0 if line.oldest_due is None else max(0, now - line.oldest_due) / SECOND
    return base_priority(line) + overdue * POINTS_PER_SECOND


def in_pull_order(lines: Iterable[L], now: Instant) -> list[L]:
    """The lines in the order in which to pull from them. Among equals, the one served longest ago goes first."""
    return sorted(lines, key=lambda line: (-effective_priority(line, now), line.last_served))
