"""The `Retry-After` header: seconds, or a date."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST = 24 * 3600.0


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """None if it is not there or cannot be read; at most a day, whatever it says."""
    if value is None:
        return None
    value = value.strip()
    if value.isdigit():
        return min(float(value), LONGEST)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST)
