"""Moments as people type them: an instant, `now`, `today`, `yesterday`, `tomorrow`, or so long ago or from now."""

from datetime import UTC, datetime, timedelta

from waterclock.api.cli.exits import WrongUsage
from waterclock.core.domain.job import durations

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}


def moment(text: str, option: str, *, ahead: bool = False, now: datetime | None = None) -> datetime:
    """`2h` is two hours ago, or with `ahead` from now. A day begins at midnight in this machine's zone, in which is
    also what has no offset."""
    now = now or datetime.now(UTC)
    word = text.strip().lower()
    if word == "now":
        return now
    if word in _DAYS:
        midnight = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        return (midnight + timedelta(days=_DAYS[word])).astimezone()
    try:
        found = datetime.fromisoformat(text.strip())
        return found if found.tzinfo else found.astimezone()
    except ValueError:
        pass
    try:
        span = timedelta(microseconds=durations.parse(word))
    except durations.InvalidDuration:
        raise WrongUsage(
            f"{option}: '{text}' is no moment; expected one such as 2026-12-31T18:00Z, 2h, today or yesterday"
        ) from None
    return now + span if ahead else now - span
