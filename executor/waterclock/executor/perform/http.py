"""HTTP calls.

The `Retry-After` header: seconds, or a date.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from waterclock.executor import attempt_record
from waterclock.executor.attempt_record import Attempt
from waterclock.executor.in_flight import Running, ended_by
from waterclock.executor.logs.output import OutputLog, Outputs
from waterclock.executor.perform.process import scheduled_text
from waterclock.executor.perform.public_addresses import NotPublic, PublicResolver, is_address, require_public
from waterclock.executor.perform.results import LIMIT, from_line
from waterclock.proto.spec import Http

LONGEST = 24 * 3600.0


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """None if it is not there or cannot be read; at most a day, whatever it says."""
    if value is None:
        return None
    value = value.strip()
    if value.isdigit():
        return min(float(value), LONGEST)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST)


_CONNECT_SECONDS = 10.0
_LONGEST_SECONDS = 300.0
_SCHEMES = ("http", "https")
_ASK_AGAIN = (429, 503)

_encode = msgspec.json.Encoder().encode


class HttpPerformer:
    def __init__(
        self, session: aiohttp.ClientSession, outputs: Outputs, *, private: bool, loopback: bool
    ) -> None:
        self._session = session
        self._outputs = outputs
        self._private = private
        self._loopback = loopback

    @classmethod
    @asynccontextmanager
    async def open(
        cls, outputs: Outputs, *, private: bool, loopback: bool = False
    ) -> AsyncIterator["HttpPerformer"]:
        """`private`: whether calls may go to addresses that are not on the public net; `loopback`: to these alone."""
        connector = aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=False,
            resolver=None if private else PublicResolver(loopback),
            force_close=True,
        )
        timeout = aiohttp.ClientTimeout(total=_LONGEST_SECONDS, sock_connect=_CONNECT_SECONDS)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            yield cls(session, outputs, private=private, loopback=loopback)

    async def perform(self, attempt: Attempt, running: Running) -> attempt_record.Ending:
        task = attempt.item.spec.task
        assert isinstance(task, Http)
        assert running.task is not None
        own_task = running.task
        log = self._outputs.open(attempt)
        running.interruptible(lambda _: own_task.cancel())
        try:
            end = await self._call(task, attempt, log)
        except asyncio.CancelledError:
            if running.cause is None:
                raise
            own_task.uncancel()
            end = ended_by(running.cause)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            end = _no_answer(error, log)
        finally:
            running.uninterruptible()
        log.finish()
        return await log.kept(end)

    async def _call(self, task: Http, attempt: Attempt, log: OutputLog) -> attempt_record.Ending:
        url = self._checked(task.url)
        log.hear(f"{task.method} {url.with_user(None)}\n".encode())
        body, headers = _body_and_headers(task, attempt)
        async with self._session.request(
            task.method, url, headers=headers, data=body, allow_redirects=False
        ) as response:
            log.hear(f"{response.status} {response.reason}\n".encode())
            content = await _content(response, log)
            value = _value(content, response.content_type)
            if response.status in task.ok or (not task.ok and 200 <= response.status < 300):
                return attempt_record.Succeeded(output=value)
            return attempt_record.Failed(
                reason=f"HTTP {response.status} {response.reason}".rstrip(),
                error=str(response.status),
                error_message=log.tail(),
                output=value,
                after_seconds=_asked_wait(response),
            )

    def _checked(self, text: str) -> URL:
        url = URL(text)
        if url.scheme not in _SCHEMES or not url.host:
            raise ValueError(f"expected a URL that starts with http:// or https://, found {text!r}")
        if not self._private and is_address(url.host):
            require_public(url.host, self._loopback)
        return url


def _body_and_headers(task: Http, attempt: Attempt) -> tuple[bytes | None, dict[str, str]]:
    """The job's own headers win; without a body of its own the payload is sent, unless the method has none."""
    item = attempt.item
    headers = {
        "User-Agent": "waterclock",
        "Idempotency-Key": item.run_id,
        "Waterclock-Run-Id": item.run_id,
        "Waterclock-Job-Id": item.job_id,
        "Waterclock-Attempt": str(item.attempt),
        "Waterclock-Scheduled-Time": scheduled_text(item.scheduled),
    }
    if attempt.fencing_token is not None:
        headers["Waterclock-Fencing-Token"] = str(attempt.fencing_token)
    content: Any = task.body
    if content is None and task.method.upper() not in ("GET", "HEAD", "OPTIONS"):
        content = item.spec.payload
    body = None
    if isinstance(content, str):
        body = content.encode()
        headers["Content-Type"] = "text/plain; charset=utf-8"
    elif content is not None:
        body = _encode(content)
        headers["Content-Type"] = "application/json"
    given = {name.lower() for name in task.headers}
    ours = {name: value for name, value in headers.items() if name.lower() not in given}
    return body, ours | task.headers


async def _content(response: aiohttp.ClientResponse, log: OutputLog) -> bytes:
    """The beginning of the body; all of it goes to the log, which has its own limit."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(LIMIT):
        content += chunk[: LIMIT + 1 - len(content)]
        log.hear(chunk)
        if log.is_full:
            break
    return bytes(content)


def _value(content: bytes, content_type: str) -> Any:
    if len(content) > LIMIT:
        return None
    if content_type == "application/json" or content_type.endswith("+json"):
        return from_line(content)
    text = content.decode(errors="replace")
    return text or None


def _asked_wait(response: aiohttp.ClientResponse) -> float | None:
    if response.status not in _ASK_AGAIN:
        return None
    return retry_after_seconds(response.headers.get("Retry-After"), datetime.now(UTC))


def _no_answer(error: Exception, log: OutputLog) -> attempt_record.Ending:
    refused = _cause(error, NotPublic)
    if refused is not None:
        return attempt_record.Failed(reason=f"refused: {refused}", error="NotPublic", final=True)
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return attempt_record.Failed(
            reason=log.mask(f"not to be called: {error}"), error=type(error).__name__, final=True
        )
    said = str(error) or "no answer in time" if isinstance(error, TimeoutError) else str(error)
    return attempt_record.Failed(
        reason=log.mask(f"{type(error).__name__}: {said}")[:500], error=type(error).__name__
    )


def _cause(error: BaseException | None, kind: type[Exception]) -> Exception | None:
    while error is not None:
        if isinstance(error, kind):
            return error
        inner = getattr(error, "os_error", None)
        error = inner if isinstance(inner, kind) else error.__cause__ or error.__context__
    return None
