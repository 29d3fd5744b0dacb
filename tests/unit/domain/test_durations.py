import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.job.durations import InvalidDuration, parse, read


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5_400),
        ("2d", 172_800),
        ("500ms", 0.5),
        ("1w", 604_800),
        ("1.5h", 5_400),
        ("0s", 0),
        (" 1H 30M ", 5_400),
        ("1d2h3m4s5ms", 93_784.005),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse(text) == round(seconds * SECOND)


@pytest.mark.parametrize(
    "text", ["", " ", "30", "1.5", "s", "5 minutes", "-5s", "1h1h", "1y", "1e3s", "٣s", "5m!", "1" * 99 + "s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidDuration):
        parse(text)


def test_numbers_are_seconds() -> None:
    assert read(1.1) == 1_100_000
    assert read(5) == 5 * SECOND
    for wrong in (-1.0, float("nan"), float("inf"), 1e300):
        with pytest.raises(InvalidDuration):
            read(wrong)


@given(st.text(max_size=12) | st.floats())
def test_anything_is_a_duration_or_refused(value: str | float) -> None:
    try:
        microseconds = read(value)
    except InvalidDuration:
        return
    assert microseconds >= 0
