"""A task that ends unexpectedly ends its owner."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from waterclock.core.runtime.tasks import TaskEnded, supervised


async def forever() -> None:
    await asyncio.Event().wait()


async def fails() -> None:
    raise ValueError("deaf")


async def returns() -> None:
    return


async def own(work: Coroutine[Any, Any, None], *, brief: bool = False) -> None:
    async with supervised() as tasks:
        (tasks.spawn if brief else tasks.keep)(work, name="reader")
        await forever()


async def test_a_failing_task_ends_its_owner_with_its_own_error() -> None:
    with pytest.raises(ValueError, match="deaf"):
        await own(fails())


async def test_a_kept_task_may_not_even_return() -> None:
    with pytest.raises(TaskEnded, match="reader has ended"):
        await own(returns())


async def test_a_spawned_task_may_return_but_not_fail() -> None:
    async with supervised() as tasks:
        await tasks.spawn(returns(), name="brief")
    with pytest.raises(ValueError, match="deaf"):
        await own(fails(), brief=True)


async def test_tasks_are_over_when_the_body_is() -> None:
    async with supervised() as tasks:
        task = tasks.keep(forever(), name="reader")
    assert task.cancelled()


async def test_an_error_of_the_body_is_raised_as_it_is() -> None:
    async def owner() -> None:
        async with supervised() as tasks:
            tasks.keep(forever(), name="reader")
            raise KeyError("body")

    with pytest.raises(KeyError):
        await owner()


async def test_cancelling_the_owner_is_cancellation_and_no_error() -> None:
    async def owner() -> None:
        async with supervised() as tasks:
            tasks.keep(forever(), name="reader")
            await forever()

    task = asyncio.create_task(owner())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_returns_because_the_body_is_over_is_no_error() -> None:
    async def stops_when_cancelled() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            return

    async with supervised() as tasks:
        tasks.keep(stops_when_cancelled(), name="reader")
        await asyncio.sleep(0)


async def fails_when_cancelled() -> None:
    try:
        await forever()
    finally:
        raise OSError("the server is gone, too")


async def test_what_a_task_raises_because_it_is_being_ended_ends_nobody() -> None:
    async with supervised() as tasks:
        tasks.keep(fails_when_cancelled(), name="reader")
        await asyncio.sleep(0)


async def test_the_error_of_the_body_is_not_replaced_by_one_of_a_task_that_is_being_ended() -> None:
    async def owner() -> None:
        async with supervised() as tasks:
            tasks.keep(fails_when_cancelled(), name="reader")
            await asyncio.sleep(0)
            raise KeyError("body")

    with pytest.raises(KeyError):
        await owner()


async def test_a_cancellation_is_not_replaced_by_the_error_of_a_task_that_is_being_ended() -> None:
    """Or an owner that begins anew after errors would never stop."""

    async def owner() -> None:
        async with supervised() as tasks:
            tasks.spawn(fails_when_cancelled(), name="writer")
            await forever()

    task = asyncio.create_task(owner())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_the_body_awaits_fails_both_with_one_error() -> None:
    async def owner() -> None:
        async with supervised() as tasks:
            await tasks.spawn(fails(), name="writer")

    with pytest.raises(ValueError, match="deaf") as raised:
        await owner()
    assert not getattr(raised.value, "__notes__", [])
