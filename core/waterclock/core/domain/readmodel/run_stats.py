"""How many runs went how, by minute and hour: counts that add up, and histograms that percentiles are read from.

A run counts where it was scheduled, once it has ended; one that goes on after all is taken back. So the counts of a
range are those of the runs that a listing of the same range shows.

A histogram has buckets of equal ratio, four to a doubling: a percentile is right within a tenth, and histograms of
minutes, executors or jobs add up to that of all of them. It is stored as index, count, index, count, …; an index may
come more than once.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil, log2
from typing import Any

from msgspec import Struct, field

from waterclock.core.domain.instants import HOUR, MINUTE
from waterclock.core.domain.readmodel.rows import RunRow

_MILLISECOND = 1_000
_PER_DOUBLING = 4


def histogram_index(microseconds: int) -> int:
    """0 is for less than a millisecond. The SQL function of this name does the same."""
    return bisect_right(_BOUNDS, microseconds)


def exact_index(microseconds: int) -> int:
    """The same, worked out instead of looked up."""
    return 0 if microseconds < _MILLISECOND else 1 + int(_PER_DOUBLING * log2(microseconds / _MILLISECOND))


def _lower_bound(index: int) -> int:
    """The least number of microseconds that has an index, or a higher one."""
    microseconds = ceil(_MILLISECOND * 2 ** ((index - 1) / _PER_DOUBLING)) - 2
    while exact_index(microseconds) < index:
        microseconds += 1
    return microseconds


_BOUNDS = tuple(map(_lower_bound, range(1, exact_index(2**52) + 1)))
"""To look it up takes a third of the time. Up to 140 years."""


def percentile_seconds(histogram: dict[int, int], share: float) -> float | None:
    """The value that so large a share of all does not exceed; None without values."""
    total = sum(count for count in histogram.values() if count > 0)
    wanted = share * total
    for index in sorted(histogram):
        wanted -= max(0, histogram[index])
        if total and wanted <= 0:
            return _seconds(index)
    return None


def _seconds(index: int) -> float:
    """The middle of a bucket."""
    return round(0.001 * 2 ** ((index - 0.5) / _PER_DOUBLING), 6) if index else 0.0005


class RunCounts(Struct, gc=False):
    success: int = 0
    failed: int = 0
    missed: int = 0
    skipped: int = 0
    cancelled: int = 0
    durations: dict[int, int] = field(default_factory=dict)
    """Of last attempts, from start to end."""
    lags: dict[int, int] = field(default_factory=dict)
    """From due to started."""

    def add(self, other: "RunCounts", sign: int = 1) -> None:
        self.success += sign * other.success
        self.failed += sign * other.failed
        self.missed += sign * other.missed
        self.skipped += sign * other.skipped
        self.cancelled += sign * other.cancelled
        for own, others in ((self.durations, other.durations), (self.lags, other.lags)):
            for index, count in others.items():
                own[index] = own.get(index, 0) + sign * count

    @property
    def total(self) -> int:
        return self.success + self.failed + self.missed + self.skipped + self.cancelled


def histogram_of(stored: Iterable[int]) -> dict[int, int]:
    """From the form in which it is stored."""
    found: dict[int, int] = {}
    pairs = iter(stored)
    for index, count in zip(pairs, pairs, strict=True):
        found[index] = found.get(index, 0) + count
    return found


def stored_histogram(histogram: dict[int, int]) -> list[int]:
    return [number for pair in histogram.items() if pair[1] for number in pair]


StatsKey = tuple[str, int, str, str]
"""Namespace, minute, queue and executor."""


class RunStats:
    """What a batch adds to the counts, and takes back from them."""

    def __init__(self) -> None:
        self.minutes: dict[StatsKey, RunCounts] = {}

    def add(self, row: RunRow, sign: int = 1) -> None:
        """A run that has ended; `sign` -1: it has not, after all."""
        scheduled = row.scheduled_time
        key = (row.namespace, scheduled - scheduled % MINUTE, row.queue or "", row.executor_id or "")
        counts = self.minutes.get(key)
        if counts is None:
            counts = self.minutes[key] = RunCounts()
        match row.status:
            case "SUCCESS":
                counts.success += sign
            case "FAILED" | "TIMED_OUT":
                counts.failed += sign
            case "SKIPPED":
                counts.skipped += sign
            case "MISSED":
                counts.missed += sign * row.fires
            case _:
                counts.cancelled += sign
        started, ended = row.start_time, row.end_time
        if started is not None:
            index = histogram_index(started - row.due_time)
            counts.lags[index] = counts.lags.get(index, 0) + sign
            if ended is not None:
                index = histogram_index(ended - started)
                counts.durations[index] = counts.durations.get(index, 0) + sign

    def add_successes(self, key: StatsKey, lags: Sequence[int], durations: Sequence[int]) -> None:
        """Runs that have succeeded, by their times in microseconds."""
        counts = self.minutes.setdefault(key, RunCounts())
        counts.success += len(lags)
        for histogram, times in ((counts.lags, lags), (counts.durations, durations)):
            for index, found in Counter(map(histogram_index, times)).items():
                histogram[index] = histogram.get(index, 0) + found

    def rows(self, part: int) -> list[tuple[Any, ...]]:
        """`run_stats`, to be added to what is there; in the order of the key, so that two who write wait for each other
        in the same order. `part` tells apart what several projectors count."""
        hours: dict[StatsKey, RunCounts] = {}
        for (namespace, minute, queue, executor), counts in self.minutes.items():
            hours.setdefault((namespace, minute - minute % HOUR, queue, executor), RunCounts()).add(counts)
        made = [
            (
                *(namespace, seconds, bucket, queue, executor, part),
                *(counts.success, counts.failed, counts.missed, counts.skipped, counts.cancelled),
                *(stored_histogram(counts.durations), stored_histogram(counts.lags)),
            )
            for seconds, buckets in ((60, self.minutes), (3600, hours))
            for (namespace, bucket, queue, executor), counts in buckets.items()
        ]
        return sorted(made, key=lambda row: row[:6])
