"""Markdown tables, and how figures look in them."""

from collections.abc import Sequence

from bench.result import Figure

NOTHING = "–"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Every column but the first is numbers more often than not, so it stands to the right."""
    marks = ["---", *("---:" for _ in heads[1:])]
    lines = [heads, marks, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def number(value: Figure, unit: str = "") -> str:
    """Three significant digits are all that a noisy machine gives."""
    if value is None or isinstance(value, str):
        return value or NOTHING
    return f"{_digits(float(value))}{unit}"


def _digits(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    for bound, places in ((10, 1), (1, 2), (0.1, 3)):
        if abs(value) >= bound:
            return f"{value:.{places}f}"
    return f"{value:.4f}"


def milliseconds(value: Figure) -> str:
    if isinstance(value, int | float) and value >= 1000:
        return number(value / 1000, " s")
    return number(value, " ms")
