"""One connection to NATS: questions and their answers, calls of the JetStream API, reconnects."""

import asyncio
import json
import logging
import random
import re
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from waterclock.core.jetstream.errors import (
    LoginRefused,
    LogUnavailable,
    NoResponders,
    NotAllowed,
    error_of,
    reason_of,
)
from waterclock.core.jetstream.nats_client import Disconnected, Msg, NatsError, WireClient
from waterclock.core.jetstream.protocol import parse_headers, publish_command
from waterclock.core.runtime.data_directory import nats_access
from waterclock.core.runtime.settings import Settings, SettingsError
from waterclock.core.runtime.tls import nats_context
from waterclock.proto import names

Reply = tuple[bytes, bytes]
"""Header block and payload."""


logger = logging.getLogger(__name__)

_ATTEMPT = 2.0
_ATTEMPT_TO_CONNECT = 5
_PAUSE = 0.05
_GRACE = 2.0
_NOT_ALLOWED = re.compile(r'(?i)permissions violation for publish to "([^"]+)"')
_HOPELESS = ("certificate verify failed", "does not speak tls")
"""What to ask again would not change while connecting: the server is not who it should be."""
_REFUSED = "authorization violation"
_REFUSED_AT_ONCE = 1.0
"""A refusal that comes so soon is somebody's word. One that comes later is the server's, when no api was there to say
whether our token is good: then we try again."""


class Inbox:
    """Where replies arrive: one subscription, and one future for each question."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._prefix = ""
        self._numbers = count(1)
        self._waiting: dict[bytes, asyncio.Future[Reply]] = {}

    async def open(self) -> None:
        self._prefix = self._client.new_inbox() + "."
        await self._client.tap(self._prefix + "*", self._receive)

    def expect(self) -> tuple[str, asyncio.Future[Reply]]:
        """A fresh reply subject, and the future of what arrives there. `forget` it in the end."""
        subject = f"{self._prefix}{next(self._numbers)}"
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[subject.encode()] = future
        return subject, future

    def forget(self, subject: str) -> None:
        self._waiting.pop(subject.encode(), None)

    def disconnected(self) -> None:
        """What was asked through the old socket is not answered any more: say so now, not at the deadline."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Disconnected())
                future.exception()  # seen: whoever asked may have given up already

    def _receive(self, subject: bytes, reply: bytes, header: bytes, payload: bytes) -> None:
        future = self._waiting.pop(subject, None)
        if future is not None and not future.done():
            future.set_result((header, payload))


class Connection:
    """Never gives up reconnecting, never sends later what it could not send at once."""

    def __init__(self, client: WireClient, api_prefix: str = names.JETSTREAM_API) -> None:
        self.nc = client
        self.api_prefix = api_prefix
        self.inbox = Inbox(client)
        self.last_error: Exception | None = None
        self._up = asyncio.Event()
        self._opening: asyncio.Timeout | None = None
        self._on_reconnect: list[Callable[[], None]] = []
        self._asked: dict[str, tuple[str, asyncio.Future[Reply]]] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        *,
        name: str,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        credentials: Path | None = None,
        tls: ssl.SSLContext | None = None,
        inbox_prefix: str = "_INBOX",
        api_prefix: str = names.JETSTREAM_API,
        timeout: float = 10.0,
    ) -> AsyncIterator["Connection"]:
        """Connect to `url` (several servers are separated by commas), trying for `timeout` seconds.

        `nats://user:password@host` and `nats://token@host` work too; what is given by name wins.
        """
        connection = cls(WireClient(), api_prefix)
        servers, from_url = _split_secrets(url)
        if (user, password, token) == (None, None, None):
            user, password, token = from_url
        secrets = {
            "user": user,
            "password": password,
            "token": token,
            "user_credentials": None if credentials is None else str(credentials),
            "tls": tls,
        }
        try:
            await connection._connect(servers, timeout, name=name, inbox_prefix=inbox_prefix, **secrets)
            if not connection.nc.knows_users:
                connection.api_prefix = names.JETSTREAM_API
            yield connection
        finally:
            await connection._close()

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: float = 2.0,
        headers: Mapping[str, str] | None = None,
    ) -> Msg:
        """One question, asked once. Fails as soon as the server goes, not only at the timeout."""
        try:
            header, payload = await self.ask(subject, data, timeout=timeout, headers=headers)
        except (Disconnected, TimeoutError) as error:
            raise LogUnavailable(f"no answer on {subject}: {reason_of(error)}") from error
        return Msg(_client=self.nc, subject=subject, data=payload, headers=parse_headers(header) or None)

    async def ask(
        self, subject: str, data: bytes, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """As `request`, with the bare reply and the bare reasons: Disconnected, TimeoutError, NoResponders."""
        reply, answer = self.inbox.expect()
        self._asked[reply] = (subject, answer)
        try:
            self.nc.send(publish_command(subject, reply, headers, data))
            async with asyncio.timeout(timeout):
                header, payload = await answer
        finally:
            self.inbox.forget(reply)
            del self._asked[reply]
        if header.startswith(b"NATS/1.0 503"):
            raise NoResponders(f"nobody answers on {subject}")
        return header, payload

    async def api(
        self,
        subject: str,
        body: Mapping[str, Any] | None = None,
        *,
        timeout: float = 5.0,
        decode: Callable[[bytes], dict[str, Any]] = json.loads,
    ) -> dict[str, Any]:
        """A call of the JetStream API, `$JS.API.<subject>`; waits out a restart of the server until the timeout.

        Every call we make may be repeated: reads, and creations and purges that say what should be.
        """
        payload = b"" if body is None else json.dumps(body).encode()
        reason: Exception | None = None
        try:
            async with asyncio.timeout(timeout):
                while True:
                    await self.connected()
                    try:
                        _, answer = await self.ask(f"{self.api_prefix}.{subject}", payload, timeout=_ATTEMPT)
                        return _checked(decode(answer))
                    except NotAllowed:
                        raise
                    except (Disconnected, TimeoutError, LogUnavailable) as error:
                        reason = error
                        await asyncio.sleep(_PAUSE)
        except TimeoutError as error:
            because = reason_of(reason or self.last_error or error)
            raise LogUnavailable(f"no answer to {subject} within {timeout:g} s: {because}") from error

    def on_reconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after every reconnect; returns what unregisters it."""
        self._on_reconnect.append(callback)

        def unregister() -> None:
            if callback in self._on_reconnect:
                self._on_reconnect.remove(callback)

        return unregister

    @property
    def is_up(self) -> bool:
        """Whether the server is there, as far as is known."""
        return self._up.is_set()

    async def connected(self) -> None:
        """Wait until the server is there."""
        await self._up.wait()

    async def _connect(self, servers: list[str], timeout: float, **options: Any) -> None:
        connecting = self.nc.connect(
            servers,
            pending_size=0,
            max_reconnect_attempts=-1,
            ping_interval=5,
            max_outstanding_pings=2,
            connect_timeout=_ATTEMPT_TO_CONNECT,
            error_cb=self._failed,
            disconnected_cb=self._disconnected,
            reconnected_cb=self._reconnected,
            **{"reconnect_time_wait": random.uniform(0.1, 0.2), **options},
        )
        try:
            async with asyncio.timeout(timeout) as self._opening:
                await _until_heeded(connecting)
                await self.inbox.open()
        except (TimeoutError, NatsError, OSError) as error:
            reason = reason_of(self.last_error or error)
            kind = LoginRefused if _REFUSED in reason.lower() else LogUnavailable
            raise kind(f"no NATS at {', '.join(servers)} within {timeout:g} s: {reason}") from error
        self._opening = None
        self._up.set()

    async def _close(self) -> None:
        await self.nc.close_within(_GRACE)

    async def _failed(self, error: Exception) -> None:
        """Called by nats-py for whatever goes wrong, several times a second while the server is away."""
        if self.last_error is None or reason_of(error) != reason_of(self.last_error):
            logger.warning("nats: %s", reason_of(error))
        self.last_error = error
        if refused := _NOT_ALLOWED.search(str(error)):
            self._not_allowed(refused[1])
        reason = str(error).lower()
        refused_at_once = _REFUSED in reason and self.nc.answered_within < _REFUSED_AT_ONCE
        if self._opening is None:
            return
        if refused_at_once or any(hopeless in reason for hopeless in _HOPELESS):
            self._opening.reschedule(asyncio.get_running_loop().time())

    def _not_allowed(self, subject: str) -> None:
        """The server answers such a request only with an error that names its subject: fail all requests to it."""
        for asked, answer in self._asked.values():
            if asked == subject and not answer.done():
                answer.set_exception(NotAllowed(f"our NATS user may not publish to {subject}"))

    async def _disconnected(self) -> None:
        self._up.clear()
        self.inbox.disconnected()

    async def _reconnected(self) -> None:
        logger.info("nats: connected again")
        self.last_error = None
        self._up.set()
        for callback in list(self._on_reconnect):
            try:
                callback()
            except Exception:
                logger.exception("nats: a callback failed after the reconnect")


async def _until_heeded(work: Coroutine[Any, Any, None]) -> None:
    """Do it. If we are cancelled it is too, as often as it takes: nats-py swallows a cancellation while it connects,
    and goes on trying."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_PAUSE)
        if not task.cancelled():
            task.exception()  # seen
        raise


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise error_of(answer["error"])
    return answer


_Secrets = tuple[str | None, str | None, str | None]
"""User, password, token."""


def _split_secrets(url: str) -> tuple[list[str], _Secrets]:
    """The servers without their secrets, fit to be printed, and the secrets of the first that has any."""
    servers: list[str] = []
    secrets: _Secrets = (None, None, None)
    for server in url.split(","):
        parts = urlsplit(server.strip() if "://" in server else f"nats://{server.strip()}")
        userinfo, _, host = parts.netloc.rpartition("@")
        servers.append(urlunsplit(parts._replace(netloc=host)))
        if userinfo and secrets == (None, None, None):
            user, colon, password = userinfo.partition(":")
            secrets = (unquote(user), unquote(password), None) if colon else (None, None, unquote(user))
    return servers, secrets


@asynccontextmanager
async def open_log(settings: Settings, *, name: str) -> AsyncIterator[Connection]:
    """The connection that the settings name."""
    if settings.nats_url is None:
        raise SettingsError("nats_url", "a URL like nats://host:4222", "nothing", name)
    access = nats_access(settings, settings.nats_url, settings.token)
    async with Connection.open(
        access.url,
        name=name,
        inbox_prefix=access.inbox,
        api_prefix=access.api,
        credentials=settings.nats_credentials,
        tls=nats_context(settings),
    ) as connection:
        yield connection


class Broadcast:
    """Plain messages, not kept: nobody hears them later, and none is sent while the server is away."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __call__(self, subject: str, data: bytes) -> None:
        self._connection.nc.send_soon(publish_command(subject, "", None, data))
