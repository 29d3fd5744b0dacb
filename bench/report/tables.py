"""Markdown tables, and how figures look in them."""

from collections.abc import Sequence

from bench.result import Figure

NOTHING = "–"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of numbers stand to the right."""
    marks = ["---:" if _numbers([row[place] for row in rows]) else "---" for place in range(len(heads))]
    lines = [heads, marks, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def number(value: Figure, unit: str = "") -> str:
    """Three significant digits are all that a noisy machine gives."""
    if value is None or isinstance(value, str):
        return value or NOTHING
    return f"{value:,}{unit}" if isinstance(value, int) else f"{_digits(value)}{unit}"


def _numbers(cells: Sequence[str]) -> bool:
    return bool(cells) and all(cell == NOTHING or cell[:1].isdigit() for cell in cells)


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
