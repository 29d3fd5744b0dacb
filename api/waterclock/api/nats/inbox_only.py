"""A NATS client that hears only those who want to be answered in an inbox."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

log = logging.getLogger(__name__)

_INBOX = "_INBOX"


class InboxOnly:
    """As much of a client as a NATS service uses.

    A server lets everybody name any subject for the answer. Whoever names one of the log's would have us write there,
    with our rights: so such a request is dropped.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._nuid = client._nuid

    async def subscribe(self, subject: str, *, cb: Callable[[Msg], Awaitable[None]], **options: Any) -> Any:
        async def heard(message: Msg) -> None:
            if message.reply.startswith(_INBOX):
                await cb(message)
            else:
                log.warning("asked to answer outside of an inbox", extra={"subject": message.subject})

        return await self._client.subscribe(subject, cb=heard, **options)

    async def flush(self) -> None:
        await self._client.flush()
