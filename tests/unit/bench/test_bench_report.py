"""The report says what was measured: no more, and also what disappoints."""

from pathlib import Path

import pytest
from bench.report import render
from bench.report.comparison import ahead, entrants
from bench.report.plots import write_plots
from bench.report.tables import milliseconds, number, table
from bench.report.targets import TARGETS
from bench.result import Figure, Result
from bench.results import Results


def results(*found: Result) -> Results:
    return Results({result.name: result for result in found})


def ours(rate: int = 5_000, lag: float = 200.0) -> list[Result]:
    return [
        Result(
            name="submit/nats_bulk",
            figures={"rate": rate, "jobs": 10, "missing": 0},
            cpu={"nats": 0.1, "scheduler": 0.1, "total": 0.2},
            versions={"waterclock": "abc"},
            at="2026-11-16T10:00:00+00:00",
            machine="a machine",
            command="python -m bench",
            run="1",
        ),
        Result(
            name="start_lag/5000_at_once",
            figures={"runs": 5000, "lag_p50_ms": 90.0, "lag_p99_ms": lag, "lag_max_ms": 250.0},
            cpu={"scheduler": 0.1, "total": 0.3},
            curve=[(0.0, 0.01), (0.5, 0.09), (1.0, 0.25)],
            run="1",
        ),
    ]


def peer(title: str, rate: int, cpu: float, lag: float) -> Result:
    figures: dict[str, Figure] = {"title": title, "server": "redis", "rate": rate, "lag_p99_ms": lag}
    return Result(
        name=f"peer/{title}",
        figures=figures | {"remark": "keeps no history"},
        cpu={"worker": cpu, "total": cpu},
        run="1",
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (12_345.6, "12,346"),
        (99.96, "100.0"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.0421, "0.0421"),
        (0.0, "0"),
    ],
)
def test_three_digits_are_enough(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_counts_are_told_exactly() -> None:
    assert (number(1_234_567), number(7, "/s")) == ("1,234,567", "7/s")


def test_columns_of_numbers_stand_to_the_right() -> None:
    assert (
        table(("a", "b", "c"), [("1", "x", "2 ms"), ("2", "3", "–")]).splitlines()[1]
        == "| ---: | --- | ---: |"
    )


def test_long_lags_are_told_in_seconds() -> None:
    assert milliseconds(12_300) == "12.3 s"
    assert milliseconds(12.3) == "12.3 ms"


def test_a_bar_in_a_cell_does_not_make_a_column() -> None:
    assert table(("a", "b"), [("x|y", "1")]).splitlines()[-1] == r"| x\|y | 1 |"


def test_who_is_ahead_is_said_with_what_it_lacks() -> None:
    said = ahead(results(*ours(), peer("swift", 10_000, 0.1, 900.0), peer("slow", 100, 9.0, 9_000.0)))
    assert said == [
        "**swift** is ahead in throughput (2.0× ours) and CPU for a job (0.50× ours); it keeps no history."
    ]


def test_the_fastest_comes_first_and_ours_is_among_them() -> None:
    found = entrants(results(*ours(), peer("swift", 10_000, 0.1, 900.0), peer("slow", 100, 9.0, 9_000.0)))
    assert [each.title for each in found] == ["swift", "waterclock", "slow"]


def test_a_target_that_is_missed_says_by_how_much() -> None:
    bulk = next(target for target in TARGETS if target.what.startswith("bulk submit"))
    assert bulk.verdict(bulk.read(results(*beside_the_fastest(rate=6_000)))) == "**missed by 2.0×**"
    assert bulk.verdict(bulk.read(results(*beside_the_fastest(rate=12_000)))) == "reached"
    assert bulk.verdict(bulk.read(results())) == "not measured"
    lag = next(target for target in TARGETS if target.what.startswith("5,000"))
    assert lag.verdict(lag.read(results(*ours(lag=500.0)))) == "**missed by 2.0×**"


def test_the_two_fastest_stand_beside_ours_fastest_first() -> None:
    text = render(results(*beside_the_fastest(rate=6_000)))
    assert (
        "| graphile-worker (0.17) | 12,000/s | 12,000, 12,000 | 2.00× | 0.0700 ms | 200 ms | deletes |"
        in text
    )
    assert text.index("| graphile-worker (0.17)") < text.index("| **waterclock** | 6,000/s")


def beside_the_fastest(*, rate: int) -> tuple[Result, Result]:
    common: dict[str, float | int | str | None] = {"server": "postgres", "lag_p99_ms": 200.0}
    return (
        Result(
            name="fastest/waterclock",
            figures={
                **common,
                "title": "waterclock",
                "rate": rate,
                "rounds": f"{rate:,}",
                "remark": "keeps",
            },
            cpu={"total": 0.15},
        ),
        Result(
            name="fastest/graphile-worker",
            figures={
                **common,
                "title": "graphile-worker",
                "rate": 12_000,
                "rounds": "12,000, 12,000",
                "remark": "deletes",
                "versions": "0.17",
            },
            cpu={"total": 0.07},
        ),
    )


def test_a_peer_that_cannot_be_had_is_named() -> None:
    absent = Result(name="peer/gone", figures={"title": "Gone", "not_installed": "no such package"})
    assert "- Gone: no such package" in render(results(*ours(), absent))


def test_figures_of_several_runs_are_not_passed_off_as_one() -> None:
    other = Result(name="rebuild", figures={"rate": 1}, run="2")
    assert "2 runs" in render(results(*ours(), other))
    assert " runs. " not in render(results(*ours()))


def test_a_crowded_machine_is_admitted() -> None:
    crowded = Result(name="submit/nats_bulk", figures={"rate": 1}, cpu={"total": 1.0, "others": 3.0})
    assert "took 75% of all CPU time" in render(results(crowded))
    alone = Result(name="submit/nats_bulk", figures={"rate": 1}, cpu={"total": 1.0, "others": 0.01})
    assert "not quiet" not in render(results(alone))


def test_a_loss_is_shown_beside_its_rate() -> None:
    lossy = Result(name="submit/rest_bulk", figures={"rate": 10, "missing": 3})
    assert "missing 3" in render(results(lossy))


def test_results_are_kept_and_newer_ones_take_their_place(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    kept = results(*ours(rate=1))
    kept.store(file)
    again = Results.stored(file)
    again.add(ours(rate=2)[0])
    assert [result.name for result in again.all] == [result.name for result in kept.all]
    assert again.number("submit/nats_bulk", "rate") == 2


def test_a_whole_run_replaces_the_one_before_but_for_what_failed_in_it() -> None:
    old = [Result(name=name, figures={}, run="1") for name in ("gone", "stored/1", "peer/a", "peer/b")]
    found = results(*old, Result(name="rebuild", figures={}, run="2"))
    found.only_of("2", but={"stored", "peer/a"})
    assert [result.name for result in found.all] == ["stored/1", "peer/a", "rebuild"]


def test_every_picture_is_drawn_twice(tmp_path: Path) -> None:
    stored = [
        Result(
            name=f"stored/{size}",
            figures={
                "schedules": size,
                "lag_p99_ms": 9.0,
                "scheduler_mb": 50.0,
                "nats_mb": 90.0,
                "takeover_s": 2.4,
            },
        )
        for size in (10_000, 100_000)
    ]
    write_plots(results(*ours(), peer("swift", 10_000, 0.1, 900.0), *stored), tmp_path)
    names = {"peers", "start_lag", "cpu", "stored"}
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{n}.{kind}" for n in names for kind in ("svg", "png")
    }
