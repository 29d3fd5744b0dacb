from datetime import UTC, datetime

import pytest

from waterclock.executor.perform.http import MAX_RETRY_AFTER_SECONDS, retry_after_seconds

NOW = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("120", 120),
        (" 0 ", 0),
        ("Mon, 16 Nov 2026 12:01:30 GMT", 90),
        ("Mon, 16 Nov 2026 11:00:00 GMT", 0),
        ("999999999", MAX_RETRY_AFTER_SECONDS),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, NOW) == seconds
