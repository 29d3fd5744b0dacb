"""The world outside: takes effects, each key once and never from a late writer, and knows who is at work."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from chaos.history import Effect, Held, History
from waterclock.core.runtime.ports import LOOPBACK


class CheckingStore:
    """One line of JSON in, one out. `hold` says that an attempt is at work for as long as the connection lasts.

    HTTP jobs have a door of their own, at `http_port`.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.port = 0
        self.http_port = 0
        self._taken: set[str] = set()
        self._greatest: dict[str, int] = {}
        self._busy: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def open(cls, history: History) -> AsyncIterator["CheckingStore"]:
        store = cls(history)
        server = await asyncio.start_server(store._serve, LOOPBACK, 0)
        store.port = server.sockets[0].getsockname()[1]
        application = web.Application()
        application.router.add_post("/effect", store._http)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, LOOPBACK, 0)
        await site.start()
        store.http_port = runner.addresses[0][1]
        try:
            yield store
        finally:
            server.close()
            for task in list(store._busy):
                task.cancel()
            await asyncio.gather(*store._busy, return_exceptions=True)
            await runner.cleanup()

    def _commit(self, said: dict[str, str | int | None]) -> str:
        """UNIQUE on the key, and the fencing token compared, for those that ask for it."""
        key, kind, token = str(said["key"]), said["kind"], said["token"]
        refused = ""
        if kind == "exactly_once":
            assert isinstance(token, int)
            if token < self._greatest.get(key, 0):
                refused = "late"
            elif key in self._taken:
                refused = "known"
            self._greatest[key] = max(token, self._greatest.get(key, 0))
            if not refused:
                self._taken.add(key)
        self.history.effects.append(
            Effect(key=key, kind=kind, token=token, taken=not refused, at=time.monotonic())  # type: ignore[arg-type]
        )
        return refused or "taken"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        held: Held | None = None
        try:
            while line := await reader.readline():
                said = json.loads(line)
                if said["do"] == "hold":
                    held = Held(
                        run_id=said["key"],
                        attempt=said["attempt"],
                        token=said["token"],
                        began=time.monotonic(),
                    )
                    self.history.held.append(held)
                    self._greatest[held.run_id] = max(held.token, self._greatest.get(held.run_id, 0))
                    answer = "held"
                else:
                    answer = self._commit(said)
                writer.write(answer.encode() + b"\n")
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass  # a killed attempt, or the end of the store: no business of whoever listens
        finally:
            if held is not None:
                held.ended = time.monotonic()
            self._busy.discard(task)
            writer.transport.abort()

    async def _http(self, request: web.Request) -> web.Response:
        key = request.headers["Idempotency-Key"]
        return web.Response(text=self._commit({"key": key, "kind": "http", "token": None}))
