"""What the system must reach, held against what was measured."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from bench.report.tables import NOTHING, milliseconds, number
from bench.results import Results

Reading = Callable[[Results], float | None]


class Target(Struct, frozen=True, kw_only=True):
    what: str
    aim: float
    wish: Literal["at least", "at most"]
    read: Reading
    unit: str = ""

    def show(self, value: float | None) -> str:
        if value is None:
            return NOTHING
        return milliseconds(value) if self.unit == " ms" else number(value, self.unit)

    def verdict(self, value: float | None) -> str:
        if value is None:
            return "not measured"
        reached = value >= self.aim if self.wish == "at least" else value <= self.aim
        if reached:
            return "reached"
        if not self.aim or not value:
            return "**missed**"
        missed = self.aim / value if self.wish == "at least" else value / self.aim
        return f"**missed by {missed:.1f}×**" if missed >= 1.05 else "**just missed**"


def figure(name: str, which: str) -> Reading:
    return lambda results: results.number(name, which)


def cpu_total(name: str) -> Reading:
    def read(results: Results) -> float | None:
        result = results.get(name)
        return None if result is None else result.cpu.get("total")

    return read


def _lag_growth(results: Results) -> float | None:
    """p99 with the most schedules stored, against 100 thousand."""
    sizes = sorted(results.of("stored"), key=lambda result: result.number("schedules") or 0)
    base, most = (
        results.number("stored/100000", "lag_p99_ms"),
        sizes[-1].number("lag_p99_ms") if sizes else None,
    )
    return None if not base or most is None or len(sizes) < 2 else round(most / base, 2)


def _of_most_stored(which: str) -> Reading:
    def read(results: Results) -> float | None:
        sizes = sorted(results.of("stored"), key=lambda result: result.number("schedules") or 0)
        return sizes[-1].number(which) if sizes else None

    return read


TARGETS = (
    Target(
        what="fire rate, due → executed → in Postgres, sustained, log fsynced",
        aim=10_000,
        wish="at least",
        read=figure("fire_rate", "rate"),
        unit="/s",
    ),
    Target(
        what="CPU of that, all processes together, for one run",
        aim=0.08,
        wish="at most",
        read=cpu_total("fire_rate"),
        unit=" ms of CPU",
    ),
    Target(
        what="bulk submit → executed → in Postgres",
        aim=8_000,
        wish="at least",
        read=figure("submit/nats_bulk", "rate"),
        unit="/s",
    ),
    Target(
        what="start lag at 50/s, p50",
        aim=3,
        wish="at most",
        read=figure("start_lag/50_per_second", "lag_p50_ms"),
        unit=" ms",
    ),
    Target(
        what="start lag at 1,000/s, p50",
        aim=10,
        wish="at most",
        read=figure("start_lag/1000_per_second", "lag_p50_ms"),
        unit=" ms",
    ),
    Target(
        what="start lag at 1,000/s, p99",
        aim=100,
        wish="at most",
        read=figure("start_lag/1000_per_second", "lag_p99_ms"),
        unit=" ms",
    ),
    Target(
        what="5,000 due at one instant, p99",
        aim=250,
        wish="at most",
        read=figure("start_lag/5000_at_once", "lag_p99_ms"),
        unit=" ms",
    ),
    Target(
        what="10,000 due at one instant, the last start",
        aim=1000,
        wish="at most",
        read=figure("start_lag/10000_at_once", "lag_max_ms"),
        unit=" ms",
    ),
    Target(
        what="most stored schedules against 100 thousand, lag p99",
        aim=1.2,
        wish="at most",
        read=_lag_growth,
        unit="×",
    ),
    Target(
        what="scheduler memory with the most stored",
        aim=300,
        wish="at most",
        read=_of_most_stored("scheduler_mb"),
        unit=" MB",
    ),
    Target(
        what="takeover after kill -9 with the most stored",
        aim=3,
        wish="at most",
        read=_of_most_stored("takeover_s"),
        unit=" s",
    ),
    Target(
        what="process jobs against a bare posix_spawn loop",
        aim=0.7,
        wish="at least",
        read=figure("process_jobs", "ratio"),
        unit="×",
    ),
    Target(
        what="rebuild of the read models, events",
        aim=50_000,
        wish="at least",
        read=figure("rebuild", "rate"),
        unit="/s",
    ),
    Target(
        what="`waterclock up` to the first finished job",
        aim=5,
        wish="at most",
        read=figure("cold_start", "first_finished_s"),
        unit=" s",
    ),
)
