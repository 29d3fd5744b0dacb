"""What the connection does where its client does not do what it is told."""

import asyncio

import pytest

from waterclock.core.jetstream.connection import _until_heeded


async def test_what_swallows_cancellations_is_cancelled_until_it_ends() -> None:
    """nats-py does, while it connects."""
    swallowed = 0

    async def connect() -> None:
        nonlocal swallowed
        while swallowed < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed += 1
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await _until_heeded(connect())
    assert swallowed == 3


async def test_what_ends_by_itself_ends_as_it_does() -> None:
    async def fail() -> None:
        raise OSError("no")

    await _until_heeded(asyncio.sleep(0))
    with pytest.raises(OSError, match="no"):
        await _until_heeded(fail())
