"""docs/benchmarks.md and its pictures, from the results alone."""

from bench.report import sections
from bench.report.overload import overload
from bench.results import FILE, Results

_QUIET = 0.05
_DIRECTORY = FILE.parent
_PAGE = _DIRECTORY.with_suffix(".md")


def write_report(results: Results) -> None:
    from bench.report.plots import write_plots

    write_plots(results, _DIRECTORY)
    _PAGE.write_text(render(results))


def render(results: Results) -> str:
    parts = [
        _head(results),
        sections.fastest(results),
        sections.targets(results),
        sections.peers(results),
        sections.start_lag(results),
        sections.stored(results),
        overload(results),
        sections.floor(results),
        sections.rates(results),
        _how(),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(results: Results) -> str:
    lines = [
        "# Benchmarks",
        "Written by `make bench`; do not edit. Every figure, with the CPU of each process, is in "
        "[results.jsonl](benchmarks/results.jsonl).",
    ]
    newest = max(results.all, key=lambda result: result.at, default=None)
    if newest is not None:
        versions = ", ".join(f"{name} {version}" for name, version in newest.versions.items())
        lines.append(
            f"- Machine: {newest.machine}\n- Versions: {versions}\n- Command: {_commands(results)}\n- When: {newest.at}"
        )
    if crowding := _crowding(results):
        lines.append(crowding)
    if len(results.runs) > 1:
        lines.append(
            f"The figures come from {len(results.runs)} runs. The machine is noisy: ratios hold within one run only."
        )
    return "\n\n".join(lines)


def _crowding(results: Results) -> str:
    """Whether the machine was ours, as the kernel's own counts tell."""
    shares = sorted(
        result.cpu["others"] / (result.cpu["others"] + result.cpu["total"])
        for result in results.all
        if result.cpu.get("others") and result.cpu.get("total")
    )
    if not shares or shares[len(shares) // 2] < _QUIET:
        return ""
    return (
        "**The machine was not quiet:** in the median result, processes that have nothing to do with the benchmark "
        f"took {shares[len(shares) // 2]:.0%} of all CPU time spent meanwhile (at worst {shares[-1]:.0%}). Rates "
        "and lags would be better on a machine of its own, and so would CPU seconds: frames fill less when crowded."
    )


def _commands(results: Results) -> str:
    commands = dict.fromkeys(result.command for result in sorted(results.all, key=lambda result: result.at))
    return ", ".join(f"`{command}`" for command in commands)


def _how() -> str:
    return (
        "## How it is measured\n\n"
        "Everything runs on one machine, on loopback, and the load takes its share of the same two cores. "
        "waterclock is started as a user starts it (`waterclock up`), with one of each process, fsync on every "
        "acknowledgement of the log and on every commit in Postgres. Jobs call an in-process handler that does "
        "nothing. Ends are counted in Postgres and nowhere else; lags are `start_time - scheduled_time` there. "
        "CPU is what the kernel has counted for each process and its children (`client` is the load itself). "
        "Redis has its append-only file synced every second; Postgres and NATS sync before they acknowledge. "
        "A peer's job notes its start in a file; that note counts as its end, before the peer has acknowledged "
        "or stored anything about it."
    )
