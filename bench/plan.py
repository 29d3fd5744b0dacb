"""How much is measured: all of it, a quick look, or what takes hours."""

from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from msgspec import Struct

from bench.result import Result

T = TypeVar("T")


class Plan(Struct, frozen=True, kw_only=True):
    quick: bool = False
    full: bool = False
    smoke: bool = False
    """A twentieth of a quick look: whether it runs at all. The figures mean nothing."""
    rate: int | None = None
    """Runs a second to offer where the rate is a choice; None: what the machine turns out to hold."""
    parts: tuple[str, ...] = ()
    """Which parts of `overload`; none: all of them."""
    seconds: int | None = None
    """How long a flood of `overload` lasts; None: as long as the plan has it."""

    def choose(self, normal: T, *, quick: T, full: T | None = None) -> T:
        if self.full and full is not None:
            return full
        return quick if self.quick or self.smoke else normal

    def count(self, normal: int, *, quick: int) -> int:
        """How many jobs."""
        chosen = self.choose(normal, quick=quick)
        return max(100, chosen // 20) if self.smoke else chosen


Scenario = Callable[[Plan], AsyncGenerator[Result, None]]
