"""The soak's page: what was accepted and what became of it, and memory and disk over time."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

_DOCS = Path(__file__).parent.parent / "docs"
_PAGE = _DOCS / "soak.md"
_KEPT = _DOCS / "soak" / "soak.json"
_PICTURE = _DOCS / "soak" / "soak.svg"
_BEGIN, _END = "<!-- measured -->", "<!-- /measured -->"
_WARM_UP = 0.34
"""Growth is judged from here on: by then caches are filled and every component has been killed."""


class Sample(Struct, frozen=True, kw_only=True):
    at: float
    accepted: int
    memory_mb: dict[str, float]
    disk_mb: dict[str, float]


class Soak(Struct, frozen=True, kw_only=True):
    minutes: float
    rate: int
    seed: int
    machine: str
    accepted: int
    succeeded: int
    others: dict[str, int]
    """Runs that did not succeed, by status."""
    faults: int
    """What the audit complains of."""
    disagreements: int = 0
    """Where REST, SQL, why, queues and the log do not say the same; 0 also in what was kept before that was asked."""
    kills: list[tuple[float, str]]
    samples: list[Sample]

    @property
    def clean(self) -> bool:
        return (
            self.succeeded == self.accepted and not self.others and not self.faults and not self.disagreements
        )

    def verdict(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "accepted": self.accepted,
            "succeeded": self.succeeded,
            "others": self.others,
            "audit_faults": self.faults,
            "disagreements": self.disagreements,
            "kills": len(self.kills),
            "memory_mb": {name: list(self.memory(name)) for name in self.processes},
            "clean": self.clean,
        }

    @property
    def processes(self) -> list[str]:
        return list(self.samples[0].memory_mb)

    def memory(self, name: str) -> tuple[float, float, float]:
        """After the warm-up, at the end, and the greatest."""
        seen = [sample.memory_mb.get(name, 0.0) for sample in self.samples]
        return seen[int(len(seen) * _WARM_UP)], seen[-1], max(seen)

    def disk_bytes_per_run(self, name: str) -> float:
        first, last = self.samples[int(len(self.samples) * _WARM_UP)], self.samples[-1]
        runs = max(1, last.accepted - first.accepted)
        return (last.disk_mb[name] - first.disk_mb[name]) * 1e6 / runs


def write_soak(found: Soak | None) -> None:
    """Keep what was found, if anything; make picture and page from what is kept."""
    _KEPT.parent.mkdir(parents=True, exist_ok=True)
    if found is not None:
        _KEPT.write_bytes(msgspec.json.encode(found))
    kept = msgspec.json.decode(_KEPT.read_bytes(), type=Soak)
    _draw(kept)
    page = _PAGE.read_text()
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    _PAGE.write_text(f"{before}{_BEGIN}\n{_measured(kept)}{_END}{after}")


def _measured(soak: Soak) -> str:
    by_component = {name: sum(killed == name for _, killed in soak.kills) for name in soak.processes}
    lines = [
        f"{soak.minutes:g} minutes at {soak.rate} runs a second, seed {soak.seed}; {len(soak.kills)} kills (",
        ", ".join(f"{name} {count}" for name, count in by_component.items() if count),
        f"). Accepted {soak.accepted:,}, succeeded {soak.succeeded:,}, others {soak.others or 'none'}, audit faults "
        f"{soak.faults}.",
    ]
    table = ["| process | memory after a third, MB | at the end | at most |", "|---|---|---|---|"]
    for name in soak.processes:
        early, late, most = soak.memory(name)
        table.append(f"| {name} | {early:.0f} | {late:.0f} | {most:.0f} |")
    disk = [
        f"Disk: NATS {soak.disk_bytes_per_run('nats'):,.0f} bytes a run, "
        f"Postgres {soak.disk_bytes_per_run('postgres'):,.0f} bytes a run."
    ]
    return "".join(lines) + "\n\n" + "\n".join(table) + "\n\n" + "\n".join(disk) + "\n"


def _draw(soak: Soak) -> None:
    from matplotlib import pyplot

    from bench.report.plots import PROCESS_COLORS

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.4))
    minutes = [sample.at / 60 for sample in soak.samples]
    for name in soak.processes:
        values = [sample.memory_mb.get(name) or None for sample in soak.samples]
        axes[0].plot(minutes, values, label=name, color=PROCESS_COLORS.get(name))
    for name in ("nats", "postgres"):
        values = [sample.disk_mb.get(name) for sample in soak.samples]
        axes[1].plot(minutes, values, label=name, color=PROCESS_COLORS.get(name))
    for axis, title in zip(axes, ("memory of each process, MB", "on disk, MB"), strict=True):
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("minutes")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        for at, _ in soak.kills:
            axis.axvline(at / 60, color="#b8c4cc", linewidth=0.4, zorder=0)
        axis.legend(frameon=False, fontsize=7)
    figure.tight_layout()
    figure.savefig(_PICTURE, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
