"""Order statistics of start lags."""

from collections.abc import Sequence

from bench.result import Figure

SHARES = (0.0, *(n / 100 for n in range(1, 100)), 0.995, 0.999, 1.0)
"""What a plotted distribution is made of."""


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all does not exceed. `ordered` rises."""
    if not ordered:
        raise ValueError("no values")
    exact = share * len(ordered)
    place = int(exact) if exact == int(exact) else int(exact) + 1
    return ordered[min(max(place, 1), len(ordered)) - 1]


def curve(values: Sequence[float]) -> list[tuple[float, float]]:
    ordered = sorted(values)
    return [(share, round(quantile(ordered, share), 6)) for share in SHARES] if ordered else []


def lag_figures(lags: Sequence[float]) -> dict[str, Figure]:
    """In milliseconds, since that is what people compare."""
    ordered = sorted(lags)
    shares = {"lag_p50_ms": 0.5, "lag_p99_ms": 0.99, "lag_max_ms": 1.0}
    return {name: round(quantile(ordered, share) * 1000, 2) for name, share in shares.items()}
