"""The table of results in docs/reliability.md, between its markers."""

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from bench.machine import machine

from chaos.fault_runner import Verdict
from chaos.faults import TABLE

VERDICTS: dict[str, Verdict] = {}
"""Of this session, by the name of the fault."""

_KEPT = Path(__file__).parents[2] / ".cache" / "chaos" / "verdicts.json"
"""Of earlier sessions too: a row that is struck again by itself (`make chaos ARGS="-k SIGSTOP"`) changes alone."""
_PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
_BEGIN, _END = "<!-- faults -->", "<!-- /faults -->"
_HEAD = (
    "| fault | lasted, s | jobs offered | accepted within 1 s while it lasted | lost | doubled | run again "
    "| recovered after, s |\n|---|---|---|---|---|---|---|---|\n"
)


def write_table() -> None:
    kept = msgspec.json.decode(_KEPT.read_bytes(), type=dict[str, Verdict]) if _KEPT.exists() else {}
    verdicts = kept | VERDICTS
    _KEPT.parent.mkdir(parents=True, exist_ok=True)
    _KEPT.write_bytes(msgspec.json.encode(verdicts))
    page = _PAGE.read_text()
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    _PAGE.write_text(f"{before}{_BEGIN}\n{_table(verdicts)}{_END}{after}")


def _table(verdicts: dict[str, Verdict]) -> str:
    rows = [_row(verdicts[fault.name]) for fault in TABLE if fault.name in verdicts]
    missing = [fault.name for fault in TABLE if fault.name not in verdicts]
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    load = os.getloadavg()[0]
    lines = [
        f"Measured {when} on {machine().partition(', load')[0]}, shared with others (load {load:.0f}).\n\n",
        _HEAD,
        *rows,
    ]
    if missing:
        lines.append(f"\nNot run: {', '.join(missing)}.\n")
    return "".join(lines)


def _row(verdict: Verdict) -> str:
    recovered = "never" if verdict.recovered is None else f"{verdict.recovered:.1f}"
    broken = "" if not verdict.complaints else f" **broken: {', '.join(verdict.complaints)}**"
    cells = (
        f"{verdict.fault}{broken}",
        f"{verdict.lasted:.0f}",
        str(verdict.offered),
        f"{verdict.held:.0%}" if verdict.lasted >= 0.5 else "–",
        str(verdict.lost),
        str(verdict.doubled),
        str(verdict.again),
        recovered,
    )
    return f"| {' | '.join(cells)} |\n"
