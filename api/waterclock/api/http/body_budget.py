"""Bodies are held in memory until they are read, and each may be large: what all of them may come to together."""

from typing import Any

from waterclock.api.errors import Unavailable
from waterclock.api.http.raw_response import App

MAX_HELD_BYTES = 256 << 20
_RETRY_AFTER = 1.0
_STREAMED = ("/v1/artifacts", "/artifacts")


class BodyBudget:
    def __init__(self, inner: App, most: int = MAX_HELD_BYTES) -> None:
        self._inner = inner
        self._left = most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD") or scope["path"] in _STREAMED:
            await self._inner(scope, receive, send)
            return
        held = 0

        async def counted() -> Any:
            nonlocal held
            event = await receive()
            if event["type"] == "http.request":
                size = len(event["body"])
                if size > self._left:
                    raise Unavailable.because(
                        "too much is being sent at once; try again", retry_after=_RETRY_AFTER
                    )
                self._left -= size
                held += size
            return event

        try:
            await self._inner(scope, counted, send)
        finally:
            self._left += held
