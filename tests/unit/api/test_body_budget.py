"""Bodies held at once have one budget: what is beyond it is refused, and what was held is given back."""

from typing import Any

import pytest

from waterclock.api.errors import Unavailable
from waterclock.api.http.body_budget import BodyBudget


class Held:
    """An application that reads a body to its end; `inside` is called while it holds it."""

    def __init__(self) -> None:
        self.inside: Any = None
        self.read = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            event = await receive()
            self.read += len(event["body"])
            more = event["more_body"]
        inside, self.inside = self.inside, None
        if inside is not None:
            await inside()


def post(budget: BodyBudget, *sizes: int, method: str = "POST", path: str = "/v1/jobs") -> Any:
    events = [
        {"type": "http.request", "body": b"x" * size, "more_body": number < len(sizes)}
        for number, size in enumerate(sizes, 1)
    ]

    async def receive() -> Any:
        return events.pop(0)

    async def send(event: Any) -> None:
        raise AssertionError("nobody answers here")

    return budget({"type": "http", "method": method, "path": path}, receive, send)


async def test_what_all_hold_together_is_bounded() -> None:
    inner = Held()
    budget = BodyBudget(inner, most=100)

    async def another() -> None:
        with pytest.raises(Unavailable, match="too much is being sent at once"):
            await post(budget, 30, 11)
        await post(budget, 40)

    inner.inside = another
    await post(budget, 30, 30)
    await post(budget, 100)


async def test_who_fails_gives_back_what_was_held() -> None:
    inner = Held()
    budget = BodyBudget(inner, most=100)

    async def fail() -> None:
        raise RuntimeError("the application failed")

    for _ in range(3):
        inner.inside = fail
        with pytest.raises(RuntimeError):
            await post(budget, 90)
    with pytest.raises(Unavailable):
        await post(budget, 60, 60)
    await post(budget, 100)


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/jobs"), ("POST", "/v1/artifacts")])
async def test_what_is_not_held_does_not_count(method: str, path: str) -> None:
    inner = Held()
    await post(BodyBudget(inner, most=10), 500, 500, method=method, path=path)
    assert inner.read == 1000
