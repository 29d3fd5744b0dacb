"""waterclock beside its peers: the rows of the comparison, and where somebody else is ahead."""

from msgspec import Struct

from bench.result import Result
from bench.results import Results


class Entrant(Struct, frozen=True, kw_only=True):
    title: str
    rate: float | None
    cpu: float | None
    """CPU milliseconds for one job, all processes."""
    lag_p99: float | None
    """Of 5,000 due at one instant, in milliseconds."""
    server: str = ""
    remark: str = ""
    versions: str = ""
    ours: bool = False


def entrants(results: Results) -> list[Entrant]:
    """Fastest first."""
    found = [_peer(result) for result in results.of("peer") if "not_installed" not in result.figures]
    bulk = results.get("submit/nats_bulk")
    if bulk is not None:
        found.append(
            Entrant(
                title="waterclock",
                rate=bulk.number("rate"),
                cpu=bulk.cpu.get("total"),
                lag_p99=results.number("start_lag/5000_at_once", "lag_p99_ms"),
                server="nats, postgres",
                remark="every run and its history in Postgres, log fsynced",
                versions=bulk.versions.get("waterclock", ""),
                ours=True,
            )
        )
    return sorted(found, key=lambda each: -(each.rate or 0.0))


def missing(results: Results) -> list[tuple[str, str]]:
    """Peers that could not be installed, and why."""
    return [
        (str(result.figures["title"]), str(result.figures["not_installed"]))
        for result in results.of("peer")
        if "not_installed" in result.figures
    ]


def ahead(results: Results) -> list[str]:
    """One sentence for each thing in which a peer beats us."""
    everyone = entrants(results)
    ours = next((each for each in everyone if each.ours), None)
    if ours is None:
        return []
    said = []
    for each in everyone:
        wins = []
        if each.rate and ours.rate and each.rate > ours.rate:
            wins.append(f"throughput ({each.rate / ours.rate:.1f}× ours)")
        if each.cpu and ours.cpu and each.cpu < ours.cpu:
            wins.append(f"CPU for a job ({each.cpu / ours.cpu:.2f}× ours)")
        if each.lag_p99 and ours.lag_p99 and each.lag_p99 < ours.lag_p99:
            wins.append(f"start lag of a crowd ({each.lag_p99 / ours.lag_p99:.2f}× ours)")
        if wins and not each.ours:
            said.append(f"**{each.title}** is ahead in {' and '.join(wins)}; it {each.remark}.")
    return said


def _peer(result: Result) -> Entrant:
    return Entrant(
        title=str(result.figures["title"]),
        rate=result.number("rate"),
        cpu=result.cpu.get("total"),
        lag_p99=result.number("lag_p99_ms"),
        server=str(result.figures.get("server", "")),
        remark=str(result.figures.get("remark", "")),
        versions=str(result.figures.get("versions", "")),
    )
