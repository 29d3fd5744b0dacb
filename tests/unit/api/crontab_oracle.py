"""An independent reading of crontab(5), as plain as it can be: which minutes a line names, and what it runs.

It shares no code with what it judges, and knows nothing but what the manual of Debian's cron says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


@dataclass(frozen=True)
class Line:
    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    both: bool
    """Day and weekday must match: one of the fields starts with a star."""
    rest: str

    def runs_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day and by_weekday if self.both else by_day or by_weekday

    def times(self, start: datetime) -> Iterator[datetime]:
        day = start.date()
        while True:
            if self.runs_on(day):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        found = datetime.combine(day, time(hour, minute))
                        if found >= start:
                            yield found
            day += timedelta(days=1)


def read(line: str) -> Line:
    first, *_ = line.split(None, 1)
    if first.startswith("@"):
        fields, rest = _NAMED[first].split(), line.split(None, 1)[1]
    else:
        *fields, rest = line.split(None, 5)
    minute, hour, day, month, weekday = fields
    return Line(
        minutes=_values(minute, range(60)),
        hours=_values(hour, range(24)),
        days=_values(day, range(1, 32)),
        months=_values(month, range(1, 13), _MONTHS, 1),
        weekdays={value % 7 for value in _values(weekday, range(8), _DAYS, 0)},
        both=day.startswith("*") or weekday.startswith("*"),
        rest=rest,
    )


def _values(text: str, all_values: range, names: list[str] | None = None, offset: int = 0) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            low, high = all_values[0], all_values[-1]
        elif "-" in span:
            low, high = (_value(end, names, offset) for end in span.split("-"))
        else:
            low = high = _value(span, names, offset)
        assert low in all_values
        assert high in all_values
        found |= set(range(low, high + 1, int(step or 1)))
    return found


def _value(text: str, names: list[str] | None, offset: int) -> int:
    return names.index(text.lower()) + offset if names and text.lower() in names else int(text)


def program_and_input(rest: str) -> tuple[str, str]:
    """The command, up to the first % without a backslash, and after it the input with newlines for further ones."""
    marked = rest.replace("\\\\", "\0").replace("\\%", "\1")
    program, found, said = marked.partition("%")
    program = program.replace("\0", "\\").replace("\1", "%")
    said = said.replace("%", "\n").replace("\1", "%").replace("\0", "\\\\")
    return program, said if not found or not said or said.endswith("\n") else said + "\n"
