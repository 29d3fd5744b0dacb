"""Fires that need no calendar: a fixed interval, and a single instant."""

from waterclock.core.domain.schedule.fire import Fire


class Interval:
    """Fires when (t - anchor) mod every = 0, whoever evaluates it and whenever: there is no last run in it."""

    def __init__(self, every: int, anchor: int) -> None:
        self._every = every
        self._anchor = anchor

    def at_or_after(self, instant: int) -> Fire | None:
        return Fire(instant + (self._anchor - instant) % self._every)

    def at_or_before(self, instant: int) -> Fire | None:
        return Fire(instant - (instant - self._anchor) % self._every)

    def count(self, start: int, end: int) -> int:
        first = start + (self._anchor - start) % self._every
        return max(0, -((first - end) // self._every))


class Once:
    def __init__(self, instant: int) -> None:
        self._fire = Fire(instant)

    def at_or_after(self, instant: int) -> Fire | None:
        return self._fire if instant <= self._fire.scheduled else None

    def at_or_before(self, instant: int) -> Fire | None:
        return self._fire if instant >= self._fire.scheduled else None

    def count(self, start: int, end: int) -> int:
        return int(start <= self._fire.scheduled < end)
