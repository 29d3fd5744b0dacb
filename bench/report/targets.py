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


def _worst(which: str, parts: tuple[str, ...], worst: Callable[[list[float]], float]) -> Reading:
    """Over those parts of `overload` that were measured."""

    def read(results: Results) -> float | None:
        found = [value for part in parts if (value := results.number(f"overload/{part}", which)) is not None]
        return worst(found) if found else None

    return read


def _bytes_a_schedule(results: Results) -> float | None:
    """What nats-server grew by between the smallest and the largest number of schedules, for each of them."""
    sizes = sorted(results.of("stored"), key=lambda result: result.number("schedules") or 0)
    if len(sizes) < 2:
        return None
    least, most = sizes[0], sizes[-1]
    grown = (most.number("nats_mb") or 0.0) - (least.number("nats_mb") or 0.0)
    return round(grown * 1e6 / ((most.number("schedules") or 0) - (least.number("schedules") or 0)))


_FLOODS = ("flood_rest", "flood_nats", "herd", "single")
_ALL_FLOODS = (
    *_FLOODS,
    "flood_spread",
    "store",
    "fairness",
    "kill_scheduler",
    "kill_executor",
    "stop_scheduler",
)


TARGETS = (
    Target(
        what="fire rate, due → executed → in Postgres, sustained, log fsynced",
        aim=16_000,
        wish="at least",
        read=figure("fire_rate", "rate"),
        unit="/s",
    ),
    Target(
        what="bulk submit → executed → in Postgres, median of three beside the peers",
        aim=12_000,
        wish="at least",
        read=figure("fastest/waterclock", "rate"),
        unit="/s",
    ),
    Target(
        what="CPU of that, all processes together, for one job",
        aim=0.12,
        wish="at most",
        read=cpu_total("fastest/waterclock"),
        unit=" ms of CPU",
    ),
    Target(
        what="CPU of a run that was stored before it was due",
        aim=0.12,
        wish="at most",
        read=cpu_total("fire_rate"),
        unit=" ms of CPU",
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
        aim=600,
        wish="at most",
        read=figure("start_lag/10000_at_once", "lag_max_ms"),
        unit=" ms",
    ),
    Target(
        what="offered three times that: goodput in the worst 5 s of any flood, of the peak",
        aim=0.9,
        wish="at least",
        read=_worst("goodput_min", _FLOODS, min),
        unit="×",
    ),
    Target(
        what="partitions given up in any flood",
        aim=0,
        wish="at most",
        read=_worst("given_up", _ALL_FLOODS, max),
    ),
    Target(
        what="scheduler memory in any flood",
        aim=400,
        wish="at most",
        read=_worst("scheduler_mb", _ALL_FLOODS, max),
        unit=" MB",
    ),
    Target(
        what="kill -9 of the scheduler in a flood: the first decision after",
        aim=3,
        wish="at most",
        read=figure("overload/kill_scheduler", "first_decision_s"),
        unit=" s",
    ),
    Target(
        what="SIGSTOP of the only scheduler for 5 s: partitions rebuilt",
        aim=0,
        wish="at most",
        read=figure("overload/stop_scheduler", "takeovers"),
    ),
    Target(
        what="one namespace floods: another's recurring runs, start lag p99",
        aim=1000,
        wish="at most",
        read=figure("overload/fairness", "recurring_p99_ms"),
        unit=" ms",
    ),
    Target(
        what="storing recurring schedules",
        aim=20_000,
        wish="at least",
        read=_of_most_stored("stored_rate"),
        unit="/s",
    ),
    Target(
        what="most stored schedules against 100 thousand, lag p99",
        aim=1.2,
        wish="at most",
        read=_lag_growth,
        unit="×",
    ),
    Target(
        what="scheduler memory with the most stored, and while storing",
        aim=400,
        wish="at most",
        read=_of_most_stored("scheduler_storing_mb"),
        unit=" MB",
    ),
    Target(
        what="nats-server, for each stored schedule",
        aim=200,
        wish="at most",
        read=_bytes_a_schedule,
        unit=" B",
    ),
    Target(
        what="takeover after kill -9 with the most stored",
        aim=3,
        wish="at most",
        read=_of_most_stored("takeover_s"),
        unit=" s",
    ),
    Target(
        what="idle, nothing due, 16 partitions",
        aim=2.5,
        wish="at most",
        read=figure("overload/idle_16", "total_percent"),
        unit=" % of a core",
    ),
    Target(
        what="idle, nothing due, 64 partitions",
        aim=3,
        wish="at most",
        read=figure("overload/idle_64", "total_percent"),
        unit=" % of a core",
    ),
    Target(
        what="CPU of a run at 50/s",
        aim=3,
        wish="at most",
        read=cpu_total("start_lag/50_per_second"),
        unit=" ms of CPU",
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
        what="single submits of 64 callers over REST",
        aim=5_000,
        wish="at least",
        read=figure("submit_single/rest_64", "rate"),
        unit="/s",
    ),
    Target(
        what="rebuild of the read models, events, overall",
        aim=50_000,
        wish="at least",
        read=figure("rebuild", "overall_rate"),
        unit="/s",
    ),
    Target(
        what="process jobs against a bare posix_spawn loop",
        aim=0.7,
        wish="at least",
        read=figure("process_jobs", "ratio"),
        unit="×",
    ),
    Target(
        what="`waterclock up` to the first finished job",
        aim=5,
        wish="at most",
        read=figure("cold_start", "first_finished_s"),
        unit=" s",
    ),
)
