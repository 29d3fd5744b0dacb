"""What a command prints: JSON for programs; tables that fit the terminal and values in words for people.

(rich would take longer to import than the whole command takes to answer.)
"""

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import Any

import msgspec
from msgspec import UnsetType

from waterclock.proto.answers import Job, WhatIf


def print_json(value: Any) -> None:
    document = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.buffer.write(document + b"\n")
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """For people, beside the answer."""
    print(text, file=sys.stderr)


def warn(warnings: Iterable[str] | UnsetType, about: str = "") -> None:
    """What was taken and should be done better."""
    for text in () if isinstance(warnings, UnsetType) else warnings:
        note(f"waterclock: warning: {about}: {text}" if about else f"waterclock: warning: {text}")


def progress(text: str) -> None:
    """One line on the terminal that the next one replaces; an empty text clears it."""
    if sys.stderr.isatty() and not dumb():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


_COLOURS = {
    "SUCCESS": 32,
    "RUNNING": 36,
    "SCHEDULED": 36,
    "QUEUED": 34,
    "WAITING": 34,
    "RETRYING": 33,
    "PAUSED": 33,
    "SKIPPED": 33,
    "MISSED": 31,
    "FAILED": 31,
    "TIMED_OUT": 31,
    "CANCELLED": 90,
    "COMPLETED": 90,
}
_NARROWEST = 6


def dumb() -> bool:
    """A terminal that obeys no escape sequences, such as an editor's."""
    return os.environ.get("TERM", "") in ("dumb", "unknown")


def colourful() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and not dumb()


def coloured(text: str) -> str:
    """A status in its colour, on a terminal."""
    code = _COLOURS.get(text.strip())
    return f"\x1b[{code}m{text}\x1b[0m" if code and colourful() else text


def marked(ok: bool) -> str:
    """A tick or a cross."""
    mark, code = ("✓", 32) if ok else ("✗", 31)
    return f"\x1b[{code}m{mark}\x1b[0m" if colourful() else mark


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need; on a terminal the widest give way until a line fits."""
    rows = [[clean(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    if sys.stdout.isatty():
        _shrink(widths, get_terminal_size().columns - 2 * (len(widths) - 1))
    head = "  ".join(_fit(text, width) for text, width in zip(heads, widths, strict=True)).rstrip()
    lines = [f"\x1b[1m{head}\x1b[0m" if colourful() else head]
    for row in rows:
        cells = [coloured(_fit(cell, width)) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """One thing in full: a name and a value a line, without what is empty."""
    kept = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in kept), default=0)
    return "\n".join(f"{name:<{width}}  {coloured(value)}" for name, value in kept)


def _shrink(widths: list[int], room: int) -> None:
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def clean(text: str) -> str:
    """Nothing a terminal would obey."""
    return "".join(c if c.isprintable() else "�" for c in text)


def ago(time: datetime | None, now: datetime | None = None) -> str:
    """`in 5m`, `3s ago`."""
    if time is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - time).total_seconds()
    span = duration(abs(seconds))
    return f"{span} ago" if seconds >= 0 else f"in {span}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m" if minutes else f"{hours}h"
    return f"{hours // 24}d"


def stamp(time: datetime | None) -> str:
    """In UTC, to the second."""
    return "" if time is None else time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def schedule(job: Job) -> str:
    match job.schedule_type:
        case "CRON":
            cron = job.cron_expression
            text = cron if isinstance(cron, str) else " | ".join(cron or ())
            return text if job.timezone == "UTC" else f"{text} {job.timezone}"
        case "INTERVAL":
            return f"every {duration(job.interval_seconds)}"
        case "FUTURE":
            return f"at {stamp(job.schedule_time)}"
        case "DEPENDENT":
            return f"after {', '.join(job.dependencies)}"
        case "IMMEDIATE":
            return "now"


def print_what_if(found: WhatIf, *, json: bool) -> None:
    """The fires that go and come, each with its sign, among those that stay."""
    if json:
        print_json(found)
        return
    before, after = {fire.time: fire for fire in found.before}, {fire.time: fire for fire in found.after}
    rows = []
    for time in sorted({*before, *after}):
        fire = after.get(time) or before[time]
        sign = " " if time in before and time in after else "+" if time in after else "-"
        rows.append((sign, fire.time, fire.local, fire.note or ""))
    if rows:
        print(signed(table(("", "UTC", "LOCAL", "NOTE"), rows)))
    print(f"{found.added} added, {found.removed} removed from {stamp(found.start)} to {stamp(found.end)}")
    if found.more:
        note("there are more fires than are shown: --from says where to go on")
    if found.status == "PAUSED":
        note("it is paused: none of them fires before it is resumed")


def signed(text: str) -> str:
    """Lines that begin with + or - in their colours, on a terminal."""
    if not colourful():
        return text
    codes = {"+": 32, "-": 31}
    lines = text.splitlines()
    return "\n".join(f"\x1b[{codes[line[0]]}m{line}\x1b[0m" if line[:1] in codes else line for line in lines)


def text(value: Any) -> str:
    return "" if value is None else str(value)
