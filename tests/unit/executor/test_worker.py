"""What a worker refuses, and how workers are loaded."""

from typing import Any

import pytest

from waterclock.core.runtime.settings import SettingsError
from waterclock.executor import Context, Worker
from waterclock.executor.worker import load_workers


async def handle(context: Context, payload: Any) -> None: ...


def handle_blocking(context: Context, payload: Any) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"queue": "a.b"}, "queue"),
        ({"queue": ""}, "queue"),
        ({"tier": "huge"}, "tier: expected one of light, medium, heavy"),
        ({"slots": 0}, "slots"),
    ],
)
def test_a_worker_says_what_is_wrong(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Worker(**arguments)


def test_a_handler_stays_a_function() -> None:
    worker = Worker()
    assert worker.handler("name")(handle) is handle


def test_names_are_unique_and_fit_a_subject() -> None:
    worker = Worker()
    worker.handler("name")(handle)
    with pytest.raises(ValueError, match="already"):
        worker.handler("name")
    with pytest.raises(ValueError, match="name: expected"):
        worker.handler("a.b")


def test_where_handlers_run() -> None:
    worker = Worker()
    worker.handler("a")(handle)
    worker.handler("b")(handle_blocking)
    worker.handler("c", run_in="loop")(handle_blocking)
    assert [handled.run_in for handled in worker.handlers.values()] == ["loop", "thread", "loop"]
    with pytest.raises(ValueError, match="an async handler runs in the loop"):
        worker.handler("d", run_in="thread")(handle)


@pytest.mark.parametrize("path", ["no_such_module:worker", "json:worker", "json:loads"])
def test_a_worker_that_is_not_there(path: str) -> None:
    with pytest.raises(SettingsError, match="worker"):
        load_workers([path])
