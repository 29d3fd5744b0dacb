"""What a measurement says: one JSON line."""

from msgspec import Struct, field

Figure = float | int | str | None


class Result(Struct, frozen=True, kw_only=True):
    name: str
    """Unique in a report: `fire_rate`, `start_lag/1000`, `peer/celery`."""
    figures: dict[str, Figure]
    cpu: dict[str, float] = field(default_factory=dict)
    """CPU seconds for 1,000 jobs by process, `total` included; empty where no jobs ran."""
    curve: list[tuple[float, float]] = field(default_factory=list)
    """(share, seconds): how large a share of the runs started within how many seconds. Of `overload`: (seconds, share
    of the peak) over time, and of its `store` (seconds, MB of the scheduler)."""
    machine: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    command: str = ""
    at: str = ""
    run: str = ""
    """Which run of the benchmarks it belongs to: only figures of one run may be compared."""

    @property
    def scenario(self) -> str:
        return self.name.partition("/")[0]

    def number(self, figure: str) -> float | None:
        value = self.figures.get(figure)
        return value if isinstance(value, int | float) else None
