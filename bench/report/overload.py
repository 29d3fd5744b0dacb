"""The report's section on overload: what it must reach, every flood, the faults, and what idling costs."""

from collections.abc import Callable, Iterable

from bench.report.tables import NOTHING, milliseconds, number, table
from bench.report.targets import Reading, Target, figure
from bench.result import Result
from bench.results import Results

FLOODS = {
    "flood_rest": "bulk over REST, due at once",
    "flood_nats": "bulk over NATS, due at once",
    "flood_spread": "bulk over NATS, due over the time of the flood",
    "herd": "recurring jobs of every 5 s",
    "single": "64 callers, one job a request",
    "fairness": "one namespace of two",
}
FAULTS = {
    "kill_scheduler": "`kill -9` of the scheduler",
    "kill_nats": "`kill -9` of nats-server",
    "kill_executor": "`kill -9` of the executor",
    "stop_scheduler": "the only scheduler stopped for 5 s",
    "kill_leader": "three nodes, `kill -9` of the leader of `RUNS`",
}
_CROWDED = 10.0
_IMPOSSIBLE = 1.1
"""More than the peak cannot be done for long: then it was none."""
_AT_PEAK = ("flood_rest", "flood_nats", "flood_spread", "herd")
"""Offered three times what can be done. 64 single callers offer what they are answered."""


def overload(results: Results) -> str:
    if not results.of("overload"):
        return ""
    parts = [
        "## Three times too much",
        _how(results),
        _targets(results),
        _floods(results),
        _faults(results),
        _idle(results),
    ]
    return "\n\n".join(part for part in parts if part)


def measured(results: Results, parts: dict[str, str]) -> list[tuple[str, Result]]:
    """By title, those parts of which there is a result."""
    return [(title, found) for part, title in parts.items() if (found := results.get(f"overload/{part}"))]


def _over(choose: Callable[[list[float]], float], readings: Iterable[Reading]) -> Reading:
    """One figure for several; nothing unless at least one was measured."""
    each = tuple(readings)

    def read(results: Results) -> float | None:
        found = [value for reading in each if (value := reading(results)) is not None]
        return choose(found) if found else None

    return read


def _of_parts(which: str, parts: tuple[str, ...]) -> Iterable[Reading]:
    return (figure(f"overload/{part}", which) for part in parts)


def _lost(results: Results) -> float | None:
    """Runs of any part that did not run, or ran twice. One that was given out as missed did not run either: where runs
    are looked for one by one it is among the missing already."""
    found = [
        value
        for result in results.of("overload")
        for which in ("missing", "twice", "recurring_missing", "single_missing")
        if (value := result.number(which)) is not None
    ]
    stored = results.number("overload/store", "missed")
    if stored is not None:
        found.append(stored)
    return sum(found) if found else None


_WORST = (*_AT_PEAK, "single", "fairness")

TARGETS = (
    Target(
        what="goodput in every 5 s of a flood, against the peak",
        aim=0.9,
        wish="at least",
        read=_over(min, _of_parts("goodput_min", _AT_PEAK)),
        unit="×",
    ),
    Target(
        what="the same, had the machine been as fast as when the peak was measured",
        aim=0.9,
        wish="at least",
        read=_over(min, _of_parts("at_speed_min", _AT_PEAK)),
        unit="×",
    ),
    Target(
        what="partitions given up meanwhile",
        aim=0,
        wish="at most",
        read=_over(sum, _of_parts("given_up", _WORST)),
    ),
    Target(
        what="scheduler memory meanwhile",
        aim=400,
        wish="at most",
        read=_over(max, _of_parts("scheduler_mb", _WORST)),
        unit=" MB",
    ),
    Target(what="runs missing, run twice or missed, all parts together", aim=0, wish="at most", read=_lost),
    Target(
        what="`kill -9` of the scheduler in a flood, until its first decision",
        aim=3,
        wish="at most",
        read=figure("overload/kill_scheduler", "first_decision_s"),
        unit=" s",
    ),
    Target(
        what="the only scheduler stopped for 5 s: partitions built anew",
        aim=0,
        wish="at most",
        read=figure("overload/stop_scheduler", "takeovers"),
    ),
    Target(
        what="one namespace floods: start lag p99 of the other's 10 runs a second",
        aim=1000,
        wish="at most",
        read=_over(max, (figure("overload/fairness", f"{kind}_p99_ms") for kind in ("recurring", "single"))),
        unit=" ms",
    ),
    Target(
        what="recurring schedules stored",
        aim=20_000,
        wish="at least",
        read=figure("overload/store", "stored_per_second"),
        unit="/s",
    ),
    Target(
        what="scheduler memory while they are stored",
        aim=400,
        wish="at most",
        read=figure("overload/store", "scheduler_mb"),
        unit=" MB",
    ),
    Target(
        what="memory of nats-server for one of them",
        aim=200,
        wish="at most",
        read=figure("overload/store", "nats_bytes_per_schedule"),
        unit=" B",
    ),
    Target(
        what="nothing defined, 16 partitions, all processes",
        aim=2.5,
        wish="at most",
        read=figure("overload/idle_16", "total_percent"),
        unit=" % of a core",
    ),
)


def _how(results: Results) -> str:
    text = (
        "Callers are a process of their own that offers three times what the same machine did in the same run when "
        "left alone, and does as it is told: our client waits by itself, bare HTTP sends again after `Retry-After`. "
        "Goodput is runs ended in windows of 5 s by the end times in Postgres, divided by that peak. Afterwards every "
        "accepted run is looked for; what has not ended in bounded time is missing. Postgres may show a run long after "
        "it ended: how long the last ones took is told beside it. The machine's own speed changes to half and twice as "
        "much within a minute, so a fixed loop is timed on each core four times a second: *at speed* is the goodput of "
        "a window had the machine been as fast in it as when the peak was measured."
    )
    crowd = [share for result in results.of("overload") if (share := result.number("others_percent"))]
    if crowd and max(crowd) >= _CROWDED:
        text += (
            f" **The machine was not quiet:** processes that have nothing to do with it took {max(crowd):.0f} % of a "
            "core while the worst of the floods lasted."
        )
    peak = results.get("overload/peak")
    if peak is None:
        return text
    best = max(
        (each for result in results.of("overload") if (each := result.number("goodput_median"))), default=0
    )
    if best > _IMPOSSIBLE or (peak.number("others_percent") or 0.0) >= _CROWDED:
        text += (
            " **The peak itself was disturbed** (something else ran, or a flood did more than it), so that the ratios "
            "of this run are better than the truth."
        )
    submit, fires, recurring, single = (
        number(peak.number(f"{each}_per_second"), "/s") for each in ("submit", "fires", "recurring", "single")
    )
    return (
        f"{text} The peak: {submit} submitted in bulk until they are in Postgres, {fires} of a crowd due at one "
        f"instant, {recurring} of one of recurring jobs, {single} by 64 callers with one job a request."
    )


def _targets(results: Results) -> str:
    rows = [
        (
            target.what,
            f"{target.wish} {target.show(target.aim)}",
            target.show(value := target.read(results)),
            target.verdict(value),
        )
        for target in TARGETS
    ]
    return table(("", "asked", "measured", ""), rows)


def _floods(results: Results) -> str:
    rows = [
        (
            title,
            *_common(result),
            _answers(result),
            milliseconds(result.number("accepted_p99_ms")),
            number(result.number("at_speed_min"), "×"),
            number(result.number("at_speed_median"), "×"),
        )
        for title, result in measured(results, FLOODS)
    ]
    if not rows:
        return ""
    heads = (
        "flood",
        "offered",
        "goodput, least",
        "median",
        "given up",
        "scheduler",
        "drained in",
        "in Postgres after",
        "missing",
        "answers",
        "accepted, p99",
        "at speed, least",
        "median",
    )
    picture = "![goodput over time](benchmarks/overload.svg)"
    return "\n\n".join(each for each in (table(heads, rows), _modest(results), picture) if each)


def _modest(results: Results) -> str:
    found = results.get("overload/fairness")
    if found is None:
        return ""
    of = found.figures
    return (
        "While one namespace floods, the other's ten jobs of every second start "
        f"{milliseconds(of.get('recurring_p50_ms'))} late (p50; p99 {milliseconds(of.get('recurring_p99_ms'))}), and "
        "its ten single submits a second start after "
        f"{milliseconds(of.get('single_p50_ms'))} (p99 {milliseconds(of.get('single_p99_ms'))}), counted from the call."
    )


def _faults(results: Results) -> str:
    rows = [
        (
            title,
            number(result.number("first_decision_s"), " s"),
            number(result.number("first_start_s"), " s"),
            number(result.number("longest_without_start_s"), " s"),
            number(result.number("takeovers")),
            *_common(result)[2:],
        )
        for title, result in measured(results, FAULTS)
    ]
    if not rows:
        return ""
    heads = (
        "in the middle of a flood",
        "first decision after",
        "first start after",
        "longest without a start",
        "partitions built anew",
        "goodput, median",
        "given up",
        "scheduler",
        "drained in",
        "in Postgres after",
        "missing",
    )
    return table(heads, rows)


def _idle(results: Results) -> str:
    found = [result for each in (16, 64) if (result := results.get(f"overload/idle_{each}"))]
    if not found:
        return ""
    names = [key for key in found[0].figures if key.endswith("_percent")]
    rows = [
        (number(result.figures["partitions"]), *(number(result.number(name), " %") for name in names))
        for result in found
    ]
    heads = ("partitions", *(name.removesuffix("_percent") for name in names))
    return f"With nothing defined, in percent of a core:\n\n{table(heads, rows)}"


def _common(result: Result) -> tuple[str, ...]:
    of = result.number
    return (
        number(of("offered_to_peak"), "×"),
        number(of("goodput_min"), "×"),
        number(of("goodput_median"), "×"),
        number(of("given_up")),
        number(of("scheduler_mb"), " MB"),
        number(of("drain_s"), " s"),
        number(of("postgres_behind_s"), " s"),
        _lost_runs(result),
    )


def _lost_runs(result: Result) -> str:
    """With the reason why they were not waited for any longer, if some are missing."""
    lost = [
        f"{name} {number(value)}" for name in ("missing", "twice", "missed") if (value := result.number(name))
    ]
    why = result.figures.get("waited_until")
    if result.number("missing") and why:
        lost.append(str(why))
    return ", ".join(lost) or "0"


def _answers(result: Result) -> str:
    named = {"accepted": "answers_accepted", "503": "answers_503", "others": "answers_other"}
    said = [f"{name} {number(value)}" for name, which in named.items() if (value := result.number(which))]
    return ", ".join(said) or NOTHING
