"""Wait for a condition, never for a time."""

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, overload

import httpx

T = TypeVar("T")

AWAY = (httpx.TransportError, json.JSONDecodeError, FileNotFoundError)
"""What somebody gets who asks a program that is not there, or has not written its files yet."""

_PAUSE = 0.01


@overload
async def eventually(
    condition: Callable[[], Awaitable[T | None]],
    what: str = "",
    within: float = 20.0,
    *,
    through: tuple[type[Exception], ...] = (),
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], Awaitable[T]],
    what: str = "",
    within: float = 20.0,
    *,
    wanted: Callable[[T], bool],
    through: tuple[type[Exception], ...] = (),
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], T],
    what: str = "",
    within: float = 20.0,
    *,
    wanted: Callable[[T], bool] = bool,
    through: tuple[type[Exception], ...] = (),
) -> T: ...


async def eventually(
    condition: Callable[[], Any],
    what: str = "",
    within: float = 20.0,
    *,
    wanted: Callable[[Any], bool] = bool,
    through: tuple[type[Exception], ...] = (),
) -> Any:
    """The first answer that is wanted. The condition may be a coroutine function; `through` are errors that count as
    no answer, for whoever asks somebody who may be away."""
    deadline = time.monotonic() + within
    while True:
        last = ""
        try:
            answer = condition()
            if inspect.isawaitable(answer):
                answer = await answer
            if wanted(answer):
                return answer
            last = repr(answer)
        except through as error:
            last = repr(error)
        if time.monotonic() > deadline:
            raise AssertionError(_in_vain(condition, what, within, last))
        await asyncio.sleep(_PAUSE)


def wait_until(
    condition: Callable[[], T | None],
    what: str = "",
    within: float = 30.0,
    *,
    through: tuple[type[Exception], ...] = AWAY,
) -> T:
    """The same for tests without an event loop: the first answer that is not empty."""
    deadline = time.monotonic() + within
    while True:
        last = ""
        try:
            answer = condition()
            if answer:
                return answer
            last = repr(answer)
        except through as error:
            last = repr(error)
        if time.monotonic() > deadline:
            raise AssertionError(_in_vain(condition, what, within, last))
        time.sleep(_PAUSE)


def _in_vain(condition: Callable[[], object], what: str, within: float, last: str) -> str:
    awaited = (
        what or getattr(condition, "__doc__", None) or getattr(condition, "__qualname__", "the condition")
    )
    return f"waited {within:g} s in vain for {awaited}; the last answer was {last[:2000]}"


def is_alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
