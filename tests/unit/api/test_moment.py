"""Moments as people type them."""

from datetime import UTC, datetime, timedelta

import pytest

from waterclock.api.cli.exits import WrongUsage
from waterclock.api.cli.moment import moment

NOW = datetime(2026, 11, 17, 20, 30, tzinfo=UTC)


def test_a_duration_is_ago_or_ahead() -> None:
    assert moment("2h", "--since", now=NOW) == NOW - timedelta(hours=2)
    assert moment("1h30m", "--to", ahead=True, now=NOW) == NOW + timedelta(minutes=90)
    assert moment("now", "--since", now=NOW) == NOW


def test_a_day_begins_at_midnight_here() -> None:
    here = NOW.astimezone()
    for word, days in (("yesterday", -1), ("today", 0), ("tomorrow", 1)):
        found = moment(word, "--since", now=NOW).astimezone()
        assert (found.date() - here.date()).days == days
        assert (found.hour, found.minute) == (0, 0)


def test_an_instant_is_itself() -> None:
    assert moment("2026-12-31T18:00:00Z", "--to", now=NOW) == datetime(2026, 12, 31, 18, tzinfo=UTC)
    assert moment("2026-12-31 18:00", "--to", now=NOW) == datetime(2026, 12, 31, 18).astimezone()


def test_what_is_none_names_the_option() -> None:
    with pytest.raises(WrongUsage, match="--since: 'soon'"):
        moment("soon", "--since", now=NOW)
