"""What docs/schedules.md says is so."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from waterclock.core.domain.instants import instant_of
from waterclock.core.domain.job.parse import define_schedule, read_preview
from waterclock.core.domain.schedule.fires import preview

PAGE = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text()
RULES = {"next_valid": "dst_gap", "skip": "dst_gap", "first": "dst_overlap", "both": "dst_overlap"}


def rows(columns: int) -> list[list[str]]:
    """The rows of tables with that many columns whose first cell is an expression."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if line.startswith("| `")
    ]
    return [row for row in cells if len(row) == columns]


def shown(fields: dict[str, object], start: datetime, n: int) -> list[tuple[str, str, str | None]]:
    schedule = define_schedule(read_preview(fields), 0)
    return [(view.time, view.local, view.note) for view in preview(schedule, "job", instant_of(start), n)]


def expression_in(cell: str) -> str:
    found = re.match(r"`([^`]+)`", cell)
    assert found is not None
    return found[1]


CRONS = [row for row in rows(2) if re.search(r"\d{4}-\d{2}-\d{2}T[\d:]+Z$", row[1])]


@pytest.mark.parametrize(("cell", "fires"), CRONS)
def test_crons(cell: str, fires: str) -> None:
    expected = fires.split(", ")
    views = shown(
        {"cron": expression_in(cell)}, datetime.fromisoformat("2026-01-01T00:00:00Z"), len(expected)
    )
    assert [time for time, _, _ in views] == expected


@pytest.mark.parametrize(("cell", "rule", "fires"), [row for row in rows(3) if "`" in row[0]])
def test_clock_changes(cell: str, rule: str, fires: str) -> None:
    expected = fires.split(", ") if fires else []
    autumn = rule in ("first", "both") or "2026-10-25" in fires
    start = datetime.fromisoformat("2026-10-25T00:00:00+02:00" if autumn else "2026-03-29T00:00:00+01:00")
    end = start + timedelta(hours=4 if "up to 03:00" in cell else 23)
    fields: dict[str, object] = {
        "cron": expression_in(cell),
        "timezone": "Europe/Berlin",
        "end_at": end.isoformat(),
    }
    if rule in RULES:
        fields[RULES[rule]] = rule
    if expected:
        found = shown(fields, start, 20)
        assert [f"{local} {note}" if note else local for _, local, note in found] == expected
    else:
        del fields["end_at"]
        assert shown(fields, start, 1)[0][0] > "2026-03-30"


def test_the_page_has_its_tables() -> None:
    assert len(CRONS) == 13
    assert len(rows(3)) == 7
