"""Work that nobody could take says what is missing: the queue, the tier or the handler."""

from typing import Any

import pytest

from waterclock.core.domain.unserved_work import missing_executor
from waterclock.proto.heartbeats import ExecutorHeartbeat


def executor(**fields: Any) -> ExecutorHeartbeat:
    return ExecutorHeartbeat(**{"queues": ["default"], "tier": "medium", "handlers": ["email"], **fields})


@pytest.mark.parametrize(
    ("queue", "handler", "tier", "missing"),
    [
        ("default", None, "light", None),
        ("default", None, "medium", None),
        ("default", "email", "light", None),
        ("gpu", None, "light", "no executor serves queue gpu"),
        ("gpu", "email", "light", "no executor serves queue gpu"),
        ("default", None, "heavy", "no executor of queue default takes tier heavy"),
        ("default", "resize", "light", "no executor of queue default serves handler resize"),
        (
            "default",
            "email",
            "heavy",
            "no executor of queue default that serves handler email takes tier heavy",
        ),
    ],
)
def test_what_is_missing(queue: str, handler: str | None, tier: str, missing: str | None) -> None:
    assert missing_executor(queue, handler, tier, [executor()]) == missing


def test_one_executor_must_have_it_all() -> None:
    fleet = [executor(tier="heavy", handlers=[]), executor(queues=["other"], tier="heavy")]
    said = missing_executor("default", "email", "heavy", fleet)
    assert said == "no executor of queue default serves handler email"


def test_one_that_drains_takes_nothing() -> None:
    assert (
        missing_executor("default", None, "light", [executor(state="draining")]) == "no executor is running"
    )
    assert missing_executor("default", None, "light", []) == "no executor is running"
