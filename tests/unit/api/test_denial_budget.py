"""A flood of denials is counted, not recorded one by one."""

from waterclock.api.auth.access_log import _BURST, _SECONDS_PER_DENIAL, DenialBudget


def test_so_many_are_recorded_at_once_and_the_next_says_how_many_were_not() -> None:
    budget = DenialBudget(0.0)
    assert [budget.take(0.0) for _ in range(_BURST)] == [0] * _BURST
    assert [budget.take(0.0) for _ in range(1000)] == [None] * 1000
    assert budget.take(_SECONDS_PER_DENIAL) == 1000
    assert budget.take(_SECONDS_PER_DENIAL) is None
    assert budget.take(2 * _SECONDS_PER_DENIAL) == 1


def test_a_day_of_flood_is_bounded() -> None:
    budget, recorded = DenialBudget(0.0), 0
    for second in range(86_400):
        recorded += sum(budget.take(float(second)) is not None for _ in range(3))
    assert recorded <= _BURST + 86_400 / _SECONDS_PER_DENIAL


def test_what_could_not_be_written_is_counted_again() -> None:
    budget = DenialBudget(0.0)
    lost = budget.take(0.0)
    assert lost == 0
    budget.give_back(lost)
    assert budget.take(0.0) == 1
