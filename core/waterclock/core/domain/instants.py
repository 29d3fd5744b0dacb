"""Instants are integer microseconds since the epoch; these are their other spellings."""

from datetime import UTC, datetime, timedelta

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def instant_of(time: datetime) -> int:
    """The instant an aware datetime stands for, exact to the microsecond."""
    return (time - _EPOCH) // _MICROSECOND


def datetime_of(instant: int) -> datetime:
    return _EPOCH + instant * _MICROSECOND


def rfc3339(instant: int) -> str:
    """In UTC; a fraction only where there is one."""
    return datetime_of(instant).isoformat().removesuffix("+00:00") + "Z"
