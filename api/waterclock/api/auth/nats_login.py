"""Who may connect to NATS: the server asks here (auth callout), and a waterclock token is the answer to give.

Whoever is let in hears only inboxes of its own, and may call the service or, with the scope `execute`, take the work of
its queues. The server ends the connection when the token expires, and we have it ended when the token is revoked.
Several apis share the questions; without any nobody new comes in, while those who are in stay. Components have
passwords of their own in the server's configuration, and need no api.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from waterclock.api.auth.gate import Gate, Login
from waterclock.api.auth.tokens import Tokens
from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.access.permissions import (
    CALLOUT,
    CLIENTS,
    CONNECTIONS,
    EXECUTORS,
    KICK,
    client_permissions,
    worker_permissions,
)
from waterclock.core.jetstream.connection import Broadcast, Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.runtime.account_keys import Issuer, claims_of
from waterclock.core.runtime.data_directory import inbox_of, inbox_of_token
from waterclock.core.runtime.tasks import Tasks, supervised

NAME_PREFIX = "token:"
"""Of the name under which the server knows whoever came with a token."""

_GROUP = "waterclock-logins"
_MOST_SUBSCRIPTIONS = 1000
_SWEEP_SECONDS = 30.0
_SILENCE_SECONDS = 0.5
_KICK_AFTER_SECONDS = (0.0, 1.0, 4.0)
"""Somebody may just have been let in when their token was revoked."""

log = logging.getLogger(__name__)


class _Connected(Struct, frozen=True):
    cid: int
    authorized_user: str = ""


class _Connections(Struct, frozen=True):
    connections: list[_Connected] = []


class _Server(Struct, frozen=True):
    id: str


class _ConnectionsOfServer(Struct, frozen=True):
    server: _Server
    data: _Connections = _Connections()


@asynccontextmanager
async def answering_logins(
    connection: Connection, issuer: Issuer, gate: Gate, tokens: Tokens
) -> AsyncIterator[None]:
    """Let people in and out while the scope lasts."""
    broadcast = Broadcast(connection)

    async def asked(message: Msg) -> None:
        try:
            request = claims_of(message.data)["nats"]
            broadcast(message.reply, _answer(issuer, gate, request).encode())
        except Exception:
            log.exception("a question of the NATS server could not be answered")

    async with supervised() as tasks:
        sessions = _Sessions(connection, tokens, tasks)
        subscription = await connection.nc.subscribe(CALLOUT, queue=_GROUP, cb=asked)
        tasks.keep(sessions.sweep_now_and_then(), name="sweep of connections")
        tokens.on_revoked = sessions.end_soon
        try:
            yield
        finally:
            tokens.on_revoked = None
            if connection.nc.is_connected:
                await subscription.unsubscribe()


def _answer(issuer: Issuer, gate: Gate, request: dict[str, Any]) -> str:
    given = request["connect_opts"]
    password = str(given.get("pass") or given.get("auth_token") or "")
    login = gate.login(password)
    answer: dict[str, Any] = {"type": "authorization_response", "version": 2}
    if login is None:
        answer["error"] = "nobody knows this token, or it has expired"
    else:
        wants_work = str(given.get("name", "")).startswith("executor")
        answer["jwt"] = issuer.sign(_user(login, password, request["user_nkey"], wants_work=wants_work))
    return issuer.sign({"aud": request["server_id"]["id"], "sub": request["user_nkey"], "nats": answer})


def _user(login: Login, password: str, subject: str, *, wants_work: bool) -> dict[str, Any]:
    inboxes = [inbox_of(name) for name in (login.token_id, *login.also)]
    if password:
        inboxes.append(inbox_of_token(password))
    if login.anybody:
        inboxes.append("_INBOX")
    scopes = login.caller.scopes
    works = wants_work if "admin" in scopes else "execute" in scopes
    if works:
        calls = bool(scopes - {"execute"})
        permissions = worker_permissions(inboxes, login.queues, login.handlers, calls=calls)
    else:
        permissions = client_permissions(inboxes)
    claims: dict[str, Any] = {
        "aud": EXECUTORS if works else CLIENTS,
        "sub": subject,
        "name": f"{NAME_PREFIX}{login.token_id}",
        "nats": {
            "type": "user",
            "version": 2,
            **permissions,
            "subs": _MOST_SUBSCRIPTIONS,
            "data": -1,
            "payload": -1,
        },
    }
    if login.expires_at is not None:
        claims["exp"] = max(1, login.expires_at // SECOND)
    return claims


class _Sessions:
    """Who is connected with a token, by the servers' own word: no api need remember whom it let in."""

    def __init__(self, connection: Connection, tokens: Tokens, tasks: Tasks) -> None:
        self._connection = connection
        self._tokens = tokens
        self._tasks = tasks

    def end_soon(self, token_id: str) -> None:
        self._tasks.spawn(self._end_those_of(token_id), name="end connections of a revoked token")

    async def sweep_now_and_then(self) -> None:
        """For tokens that were revoked while no api was there."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self._end_revoked()

    async def _end_those_of(self, token_id: str) -> None:
        for pause in _KICK_AFTER_SECONDS:
            await asyncio.sleep(pause)
            await self._end_revoked()

    async def _end_revoked(self) -> None:
        for server, who in await self._connected():
            token_id = who.authorized_user.removeprefix(NAME_PREFIX)
            if token_id != who.authorized_user and not self._tokens.is_live(token_id):
                log.warning("a revoked token's connection is ended", extra={"token": token_id})
                await self._end(server, who.cid)

    async def _end(self, server: str, cid: int) -> None:
        try:
            await self._connection.request(KICK.replace("*", server), json.dumps({"cid": cid}).encode())
        except LogError as error:
            log.warning("a connection could not be ended", extra={"cid": cid, "error": str(error)})

    async def _connected(self) -> list[tuple[str, _Connected]]:
        nc = self._connection.nc
        if not nc.is_connected:
            return []
        found: list[tuple[str, _Connected]] = []
        inbox = nc.new_inbox()
        subscription = await nc.subscribe(inbox)
        try:
            for account in (CLIENTS, EXECUTORS):
                question = {"auth": True, "acc": account, "limit": 100_000}
                await nc.publish(CONNECTIONS, json.dumps(question).encode(), reply=inbox)
            while True:
                message = await subscription.next_msg(timeout=_SILENCE_SECONDS)
                answer = msgspec.json.decode(message.data, type=_ConnectionsOfServer)
                found += [(answer.server.id, who) for who in answer.data.connections]
        except TimeoutError:
            return found
        finally:
            if nc.is_connected:
                await subscription.unsubscribe()
