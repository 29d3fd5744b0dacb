"""The lifecycle contract holds for a well-made service, and catches those that are not."""

import asyncio

import pytest

from contracts.lifecycle import Run, exercise_lifecycle
from waterclock.core.runtime.lifecycle import StopSignal, exit_code_of

LEFT: set[asyncio.Task[None]] = set()


async def well_made(stop: StopSignal) -> None:
    async with asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(asyncio.sleep(3600))
        await stop.wait()
        worker.cancel()


async def leaves_a_task(stop: StopSignal) -> None:
    LEFT.add(asyncio.create_task(asyncio.sleep(60)))
    await stop.wait()


async def swallows_cancellation(stop: StopSignal) -> None:
    try:
        await stop.wait()
    except asyncio.CancelledError:
        return


async def does_not_stop(stop: StopSignal) -> None:
    await asyncio.sleep(3600)


async def fails(stop: StopSignal) -> None:
    raise RuntimeError("boom")


async def test_a_well_made_service_passes() -> None:
    await exercise_lifecycle(well_made)


@pytest.mark.parametrize("service", [leaves_a_task, swallows_cancellation, does_not_stop, fails])
async def test_the_contract_catches(service: Run) -> None:
    with pytest.raises((AssertionError, TimeoutError)):
        await exercise_lifecycle(service, within=0.2)


@pytest.mark.parametrize(("service", "code"), [(well_made, 0), (does_not_stop, 0), (fails, 1)])
async def test_exit_code_when_asked_to_stop(service: Run, code: int) -> None:
    stop = StopSignal()
    stop.set()
    assert await exit_code_of(asyncio.ensure_future(service(stop)), stop, grace=0.05) == code


async def returns(stop: StopSignal) -> None:
    return


@pytest.mark.parametrize("service", [returns, fails])
async def test_to_end_without_being_asked_is_a_failure(service: Run) -> None:
    stop = StopSignal()
    assert await exit_code_of(asyncio.ensure_future(service(stop)), stop, grace=1) == 1
