"""How long a client waits when it was told to: as long as it was told, within reason."""

import pytest

from waterclock.api.client.pace import AS_LONG_AS_IT_TAKES, Pace
from waterclock.api.errors import Saturated


def silent(_: str) -> None:
    pass


@pytest.mark.parametrize(("told", "least", "most"), [(3, 3, 4), (-5, 0.5, 1), (0, 0.5, 1), (10**9, 60, 75)])
def test_it_waits_as_long_as_it_was_told_within_reason(told: int, least: float, most: float) -> None:
    pace = Pace(silent, AS_LONG_AS_IT_TAKES)
    assert least <= pace.wait_seconds(Saturated.behind(14, 600, told), waited=0) <= most


def test_it_gives_up_at_once_when_it_would_have_to_wait_for_longer_than_it_may() -> None:
    with pytest.raises(Saturated):
        Pace(silent, 60).wait_seconds(Saturated.behind(14, 600, 10**9), waited=1)
