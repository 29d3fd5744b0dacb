"""Transitions found by probing are those of the zone database, all of them."""

import struct
import zoneinfo
from datetime import UTC, datetime
from importlib import resources
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.schedule.zone import _PROBE, FIRST, LAST, TURN, zone

ZONES = sorted(zoneinfo.available_timezones())
SAMPLE = [
    *ZONES[::30],
    "Africa/Casablanca",
    "Africa/Freetown",
    "America/Juneau",
    "Asia/Gaza",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Europe/Amsterdam",
    "Europe/Berlin",
    "Pacific/Apia",
]


def database_file(key: str) -> bytes:
    for folder in zoneinfo.TZPATH:
        if (path := Path(folder, key)).is_file():
            return path.read_bytes()
    return resources.files("tzdata.zoneinfo").joinpath(key).read_bytes()


def changes(key: str) -> list[tuple[int, int, int]]:
    """(second, offset before, offset after) of each change, from the second block of the TZif file (RFC 9636)."""
    data = database_file(key)
    for size, code in ((4, "i"), (8, "q")):
        isut, isstd, leap, times, types, chars = struct.unpack_from(">20x6l", data)
        body = data[44:]
        seconds = struct.unpack_from(f">{times}{code}", body)
        indices = body[times * size : times * (size + 1)]
        kinds = [struct.unpack_from(">lBB", body, times * (size + 1) + 6 * n)[0] for n in range(types)]
        data = body[times * (size + 1) + types * 6 + chars + leap * (size + 4) + isstd + isut :]
    found, offset = [], kinds[0]
    for second, index in zip(seconds, indices, strict=True):
        if kinds[index] != offset:
            found.append((second, offset, kinds[index]))
        offset = kinds[index]
    return found


def test_no_two_changes_are_as_close_as_two_probes() -> None:
    for key in ZONES:
        seconds = [second for second, _, _ in changes(key)]
        assert all(later - earlier > _PROBE for earlier, later in pairwise(seconds)), key


def test_no_clock_turns_further_than_assumed() -> None:
    assert max(abs(after - before) for key in ZONES for _, before, after in changes(key)) < TURN


@pytest.mark.parametrize("key", SAMPLE)
def test_every_change_is_found_to_the_second(key: str) -> None:
    place = zone(key)
    assert place is not None
    for second, before, after in changes(key):
        if second > FIRST:
            ending, beginning = place.period(second - 1), place.period(second)
            assert (ending.end, ending.offset) == (second, before)
            assert (beginning.start, beginning.offset) == (second, after)
            assert beginning.seen >= second + before
            if after > before:
                assert beginning.seen < second + after
            else:
                assert ending.again <= second + after


@given(st.sampled_from(SAMPLE), st.integers(FIRST + TURN, LAST - TURN))
def test_periods_tile_time(key: str, second: int) -> None:
    place = zone(key)
    assert place is not None
    period = place.period(second)
    assert period.start <= second < period.end
    assert place.period(period.start) == period
    if period.end < LAST:
        assert place.period(period.end).start == period.end
    for inside in (max(period.start, FIRST), second, min(period.end, LAST) - 1):
        offset = datetime.fromtimestamp(inside, UTC).astimezone(ZoneInfo(key)).utcoffset()
        assert offset is not None
        assert offset.total_seconds() == period.offset


@pytest.mark.parametrize(
    "key",
    [
        "",
        ".",
        "../etc/passwd",
        "/etc/passwd",
        "America",
        "Europe/",
        "Europe/Atlantis",
        "UTC\0",
        "UTC\n",
        "a" * 5000,
        "europe/berlin",
        "localtime",
        "posix/UTC",
        "posixrules",
        "right/UTC",
        "tzdata.zi",
        "zone.tab",
        "Ünited",
    ],
)
def test_what_is_not_a_zone(key: str) -> None:
    assert zone(key) is None


@pytest.mark.parametrize(
    "key", ["UTC", "Etc/GMT+5", "GMT", "EST5EDT", "America/Argentina/Buenos_Aires", "Etc/GMT-14"]
)
def test_what_is_a_zone(key: str) -> None:
    assert zone(key) is not None
