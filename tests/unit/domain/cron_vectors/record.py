"""Records what croniter and cronsim fire: `python -m unit.domain.cron_vectors.record` with both installed.

The files of robfig, Temporal and Airflow hold the facts of their own tests and were written by hand.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

HERE = Path(__file__).parent
FIRES = 4
PLAIN = """
* * * * * | */5 * * * * | */7 * * * * | 0 * * * * | 30 * * * * | 5,35 * * * * | 10-20/3 * * * * | 59 23 * * *
0 0 * * * | 0 3 * * * | 15 2 * * * | 0 */2 * * * | 0 1-23/2 * * * | 0 9-17 * * * | */15 9-17 * * 1-5 | 0 0,12 * * *
0 0 1 * * | 0 0 15 * * | 0 0 31 * * | 0 0 29 2 * | 0 0 1,15 * * | 0 0 1-7 * * | 0 0 28-31 * * | 0 0 L * *
0 0 * 1 * | 0 0 * 1,7 * | 0 0 * */3 * | 0 0 * JAN-MAR * | 0 0 1 1 * | 0 0 31 12 * | 0 0 * feb * | 0 0 30 4,6,9,11 *
0 0 * * 0 | 0 0 * * 7 | 0 0 * * 1 | 0 0 * * MON-FRI | 0 0 * * SAT,SUN | 0 0 * * 5-7 | 0 0 * * */2 | 0 9 * * MON
0 0 * * MON#1 | 0 0 * * 1#2 | 0 0 * * FRI#5 | 0 0 * * L5 | 0 9 1 * 1 | 0 0 13 * 5 | 0 0 1,15 * MON,WED | 30 4 1,15 * 5
0 22 * * 1-5 | 23 0-20/2 * * * | 5 4 * * sun | 0 0,12 1 */2 * | 0 4 8-14 * * | 0 0 */5 * * | 45 */6 * * * | 0 8 */2 * *
@hourly | @daily | @midnight | @weekly | @monthly | @yearly | @annually
0 0 * * 5L | 0 0 LW * * | 0 0 */2 * 1 | 0 0 1 * */2
"""
UNKNOWN = {"croniter": ("5L", "LW"), "cronsim": ("@", "L5")}
"""What each of them does not know."""
CLOCKS = """
30 2 * * * | 0 2 * * * | 0 3 * * * | 30 1 * * * | 0 1 * * * | 0 * * * * | */30 * * * * | 0 */2 * * * | 15 0 * * *
0 0 * * *
"""
STARTS = ("2024-02-28T22:58:30", "2026-01-01T00:00:00", "2027-12-31T23:59:59")
TURNS = (
    ("Europe/Berlin", "2026-03-28T12:00:00"),
    ("Europe/Berlin", "2026-10-24T12:00:00"),
    ("America/New_York", "2026-03-07T12:00:00"),
    ("America/New_York", "2026-10-31T12:00:00"),
)


def expressions(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split("|") if part.strip()]


def cases() -> list[tuple[str, str, datetime]]:
    found = [
        (expression, zone, datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)))
        for expression in expressions(PLAIN)
        for start in STARTS
        for zone in ("UTC", "Asia/Kolkata")
    ]
    return found + [
        (expression, zone, datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)))
        for expression in expressions(CLOCKS)
        for zone, start in TURNS
    ]


def croniter_fires(expression: str, start: datetime) -> list[datetime]:
    from croniter import croniter

    source = croniter(expression, start)
    return [source.get_next(datetime) for _ in range(FIRES)]


def cronsim_fires(expression: str, start: datetime) -> list[datetime]:
    from cronsim import CronSim  # type: ignore[import-not-found]

    source = CronSim(expression, start)
    return [next(source) for _ in range(FIRES)]


def choice(name: str, expression: str, zone: str, fires: list[datetime]) -> dict[str, str]:
    """What we do otherwise on purpose, by its name in the test."""
    locals = [fire.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0) for fire in fires]
    if len({*locals}) < len(locals) and not expression.split()[1].startswith("*"):
        return {"choice": "repeated"}
    if name == "cronsim" and expression in ("0 0 */2 * 1", "0 0 1 * */2"):
        return {"choice": "starred_day"}
    return {}


def main() -> None:
    for name, fires in (("croniter", croniter_fires), ("cronsim", cronsim_fires)):
        lines: list[dict[str, Any]] = []
        for expression, zone, start in cases():
            if any(part in expression for part in UNKNOWN[name]):
                continue
            found = [fire.astimezone(UTC) for fire in fires(expression, start)]
            after = start.astimezone(UTC)
            lines.append(
                {
                    "expression": expression,
                    "zone": zone,
                    "after": f"{after:%Y-%m-%dT%H:%M:%SZ}",
                    "fires": [f"{fire:%Y-%m-%dT%H:%M:%SZ}" for fire in found],
                    **choice(name, expression, zone, found),
                }
            )
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (HERE / f"{name}.jsonl").write_text(text)


if __name__ == "__main__":
    main()
