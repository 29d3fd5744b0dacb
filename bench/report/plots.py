"""The report's pictures, each as SVG and PNG."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bench.report.comparison import entrants
from bench.report.overload import FAULTS, FLOODS, measured
from bench.result import Result
from bench.results import Results

_OURS, _OTHERS = "#0b6e99", "#b8c4cc"
PROCESS_COLORS = {
    "nats": "#0b6e99",
    "postgres": "#5b8c5a",
    "scheduler": "#d9822b",
    "executor": "#a23b72",
    "projector": "#6f6bb3",
    "api": "#c7b446",
    "client": "#b8c4cc",
}

pyplot.rcParams.update(
    {
        "svg.hashsalt": "waterclock",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)


def write_plots(results: Results, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    pictures = {"peers": peers, "start_lag": start_lag, "cpu": cpu, "stored": stored, "overload": overload}
    for name, draw in pictures.items():
        figure = draw(results)
        if figure is None:
            continue
        figure.savefig(directory / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
        figure.savefig(directory / f"{name}.png", bbox_inches="tight", dpi=130)
        pyplot.close(figure)


def peers(results: Results) -> Figure | None:
    everyone = list(reversed(entrants(results)))
    if len(everyone) < 2:
        return None
    figure, axes = pyplot.subplots(1, 3, figsize=(11, 0.32 * len(everyone) + 1.2), sharey=True)
    panels = (
        ("jobs a second, log scale (more is better)", [each.rate or 0.0 for each in everyone]),
        ("CPU ms for a job (less is better)", [each.cpu or 0.0 for each in everyone]),
        ("lag p99 in ms of 5,000 at once (less is better)", [each.lag_p99 or 0.0 for each in everyone]),
    )
    for axis, (title, values) in zip(axes, panels, strict=True):
        colors = [_OURS if each.ours else _OTHERS for each in everyone]
        bars = axis.barh([each.title for each in everyone], values, color=colors)
        axis.bar_label(
            bars, [f"{value:,.0f}" if value >= 10 else f"{value:.2f}" for value in values], padding=2
        )
        axis.set_title(title, fontsize=9)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(NullLocator())
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xlim(min(filter(None, values), default=1) / 2, max(values, default=1) * 4)
    return figure


def start_lag(results: Results) -> Figure | None:
    found = [result for result in results.of("start_lag") if result.curve]
    if not found:
        return None
    figure, axis = pyplot.subplots(figsize=(7, 4))
    for result in found:
        shares, seconds = zip(*result.curve, strict=True)
        style = "--" if "at_once" in result.name else "-"
        label = (
            result.name.partition("/")[2].replace("_per_second", "/s").replace("_at_once", " at one instant")
        )
        axis.plot([each * 1000 for each in seconds], [each * 100 for each in shares], style, label=label)
    axis.set_xscale("log")
    axis.set_xlabel("start lag, ms")
    axis.set_ylabel("runs started, %")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    return figure


def cpu(results: Results) -> Figure | None:
    found = [
        result
        for result in results.all
        if result.scenario != "peer" and set(result.cpu) & {"scheduler", "projector"}
    ]
    # Where little runs, it is what an idle system costs that is divided by few jobs.
    found = [result for result in found if result.cpu.get("total", 0.0) < 5.0]
    if not found:
        return None
    found.reverse()
    figure, axis = pyplot.subplots(figsize=(8, 0.32 * len(found) + 1.2))
    _stacked(axis, found)
    axis.set_xlabel("CPU seconds for 1,000 jobs")
    axis.legend(frameon=False, ncols=len(PROCESS_COLORS), loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def stored(results: Results) -> Figure | None:
    found = sorted(results.of("stored"), key=lambda result: result.number("schedules") or 0)
    if len(found) < 2:
        return None
    sizes = [result.number("schedules") for result in found]
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 2.8))
    panels = (
        ("start lag p99, ms", ("lag_p99_ms",)),
        ("memory, MB", ("scheduler_mb", "nats_mb")),
        ("first start after kill -9, s", ("takeover_s", "restart_s")),
    )
    for axis, (title, names) in zip(axes, panels, strict=True):
        for name in names:
            axis.plot(sizes, [result.number(name) for result in found], "o-", label=name.rpartition("_")[0])
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("stored schedules")
        axis.grid(alpha=0.3)
        if len(names) > 1:
            axis.legend(frameon=False)
    figure.tight_layout()
    return figure


def overload(results: Results) -> Figure | None:
    """Goodput over time: the floods beside each other, then those with a fault in the middle."""
    rows = [measured(results, group) for group in (FLOODS, FAULTS)]
    rows = [row for row in rows if any(result.curve for _, result in row)]
    if not rows:
        return None
    figure, axes = pyplot.subplots(len(rows), 1, figsize=(8, 3.2 * len(rows)), squeeze=False)
    for axis, row in zip(axes[:, 0], rows, strict=True):
        _goodput(axis, row)
    axes[-1, 0].set_xlabel("seconds since the flood began")
    figure.tight_layout()
    return figure


def _goodput(axis: Axes, row: list[tuple[str, Result]]) -> None:
    axis.axhline(0.9, color=_OTHERS, linewidth=0.8, linestyle="--")
    for title, result in row:
        if not result.curve:
            continue
        seconds, ratios = zip(*result.curve, strict=True)
        (line,) = axis.plot(seconds, ratios, "o-", markersize=3, label=title.replace("`", ""))
        fault = result.number("fault_at_s")
        if fault is not None:
            lasted = result.number("fault_lasted_s") or 0.0
            axis.axvline(fault, color=line.get_color(), linestyle=":", linewidth=1)
            if lasted:
                axis.axvspan(fault, fault + lasted, color=line.get_color(), alpha=0.12)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("goodput / peak")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=7)


def _stacked(axis: Axes, found: list[Result]) -> None:
    names = [result.name for result in found]
    left = [0.0] * len(found)
    for process, color in PROCESS_COLORS.items():
        values = [result.cpu.get(process, 0.0) for result in found]
        axis.barh(names, values, left=left, color=color, label=process)
        left = [begun + value for begun, value in zip(left, values, strict=True)]
