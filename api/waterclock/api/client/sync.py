"""The client without `await`, for scripts.

    with SyncClient.connect() as clock:
        job = clock.jobs.create(name="nightly", cron="0 3 * * *", command=["./backup.sh"])
        for change in clock.runs.watch(job.job_id):
            print(change.run_id, change.status)

The same methods with the same arguments, answers and errors: it is the asynchronous client, on a loop in a thread.
"""

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from waterclock.api.client.client import Client

T = TypeVar("T")


class SyncClient:
    def __init__(self, client: Client, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._client = client
        self._run = run

    @classmethod
    @contextmanager
    def connect(cls, *args: Any, **options: Any) -> Iterator["SyncClient"]:
        """Takes what `Client.connect` takes."""
        with _loop() as run:
            context = Client.connect(*args, **options)
            client = run(context.__aenter__())
            try:
                yield cls(client, run)
            finally:
                run(context.__aexit__(None, None, None))

    def __getattr__(self, noun: str) -> "_Noun":
        return _Noun(getattr(self._client, noun), self._run)


class _Noun:
    """`clock.jobs` and its kin."""

    def __init__(self, noun: Any, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._noun = noun
        self._run = run

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        method = getattr(self._noun, verb)
        if inspect.isasyncgenfunction(method):
            return lambda *args, **fields: self._each(method(*args, **fields))
        return lambda *args, **fields: self._run(method(*args, **fields))

    def _each(self, answers: AsyncGenerator[T, None]) -> Iterator[T]:
        async def following() -> tuple[bool, T | None]:
            try:
                return True, await anext(answers)
            except StopAsyncIteration:
                return False, None

        try:
            while (found := self._run(following()))[0]:
                yield found[1]
        finally:
            self._run(_closed(answers))


async def _closed(answers: AsyncGenerator[T, None]) -> None:
    await answers.aclose()


@contextmanager
def _loop() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """An event loop in a thread; what it yields runs a coroutine there and waits for it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="waterclock-client", daemon=True)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
