"""The wheel against a sorted list, whatever the order of insertion and the size of the steps."""

from hypothesis import given
from hypothesis import strategies as st

from waterclock.core.domain.partition.due.timing_wheel import Wheel

START = 1_790_000_000_000_000

offsets = st.one_of(
    st.integers(-5_000, 5_000),
    st.integers(0, 200_000_000),
    st.integers(0, 90_000_000_000_000),
    st.integers(0, 200_000_000_000_000_000),
)


@given(
    st.lists(st.tuples(offsets, st.lists(offsets, max_size=3)), max_size=30), st.integers(0, 70_000_000_000)
)
def test_hands_out_everything_once_and_never_early(steps: list[tuple[int, list[int]]], phase: int) -> None:
    now = START + phase
    wheel: Wheel[int] = Wheel(now)
    model: list[tuple[int, int]] = []
    number = 0
    for ahead, adds in steps:
        for offset in adds:
            number += 1
            wheel.add(now + offset, number)
            model.append((now + offset, number))
        now += abs(ahead)
        due = wheel.take(now)
        assert all(at <= now for at, _ in due)
        assert [at for at, _ in due] == sorted(at for at, _ in due)
        expected = {pair for pair in model if -(-pair[0] // 1000) <= now // 1000}
        assert set(due) == expected
        model = [pair for pair in model if pair not in expected]
        assert len(wheel) == len(model)
        bound = wheel.next_due()
        if model:
            assert bound is not None
            assert bound <= min(-(-at // 1000) * 1000 for at, _ in model)
        else:
            assert bound is None


def test_next_due_is_exact_for_what_is_near() -> None:
    wheel: Wheel[str] = Wheel(START)
    wheel.add(START + 20_000, "soon")
    assert wheel.next_due() == START + 20_000
    assert wheel.take(START + 19_999) == []
    assert wheel.take(START + 20_000) == [(START + 20_000, "soon")]


def test_next_due_is_exact_for_the_few_that_share_a_slot() -> None:
    wheel: Wheel[int] = Wheel(START)
    for number in range(20):
        wheel.add(START + 3_600_000_000 - 7_300 * number, number)
    assert wheel.next_due() == START + 3_600_000_000 - 138_000
    assert wheel.take(START + 3_600_000_000 - 138_000) == [(START + 3_600_000_000 - 138_700, 19)]
    assert wheel.next_due() == START + 3_600_000_000 - 131_000


@given(st.lists(st.integers(-50_000, 50_000), max_size=30), st.integers(1, 7))
def test_a_slice_at_a_time_hands_out_the_same_in_the_same_order(offsets: list[int], most: int) -> None:
    at_once: Wheel[int] = Wheel(START)
    sliced: Wheel[int] = Wheel(START)
    for number, offset in enumerate(offsets):
        at_once.add(START + offset, number)
        sliced.add(START + offset, number)
    now = START + 20_000
    expected = [at for at, _ in at_once.take(now)]
    found: list[int] = []
    while part := sliced.take(now, most):
        assert len(part) <= most
        found += [at for at, _ in part]
        left = sliced.next_due()
        if len(found) < len(expected):
            assert left == expected[len(found)], "what is left is due, and the wheel says since when"
    assert found == expected
    assert len(sliced) == len(at_once)


def test_what_is_left_of_a_slice_goes_before_what_comes_due_later() -> None:
    wheel: Wheel[str] = Wheel(START)
    for name, offset in (("a", 1_000), ("b", 2_000), ("c", 9_000)):
        wheel.add(START + offset, name)
    assert [name for _, name in wheel.take(START + 5_000, 1)] == ["a"]
    wheel.add(START + 500, "late")
    assert [name for _, name in wheel.take(START + 10_000, 2)] == ["late", "b"]
    assert [name for _, name in wheel.take(START + 10_000)] == ["c"]


@given(st.lists(offsets, max_size=40), st.integers(2, 4))
def test_what_is_not_kept_is_never_handed_out(due: list[int], every: int) -> None:
    wheel: Wheel[int] = Wheel(START)
    for number, offset in enumerate(due):
        wheel.add(START + offset, number)
    wheel.keep(lambda number: number % every == 0)
    kept = [number for number in range(len(due)) if number % every == 0]
    assert len(wheel) == len(kept)
    assert (wheel.next_due() is None) == (not kept)
    assert sorted(number for _, number in wheel.take(START + 10**18)) == kept
