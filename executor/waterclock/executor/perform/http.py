"""HTTP calls: to the public net only, without redirects. The response is the output."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from waterclock.core.domain.instants import rfc3339
from waterclock.core.runtime.public_addresses import NotPublic, PublicResolver, is_address, require_public
from waterclock.executor.attempt_record import Attempt, Failed, Result, Succeeded
from waterclock.executor.in_flight import RunningAttempt
from waterclock.executor.logs.output import OutputLog, OutputLogs
from waterclock.executor.perform.results import OUTPUT_LIMIT, parse_output
from waterclock.proto.spec import Http

MAX_RETRY_AFTER_SECONDS = 24 * 3600.0

_CONNECT_SECONDS = 10.0
_TOTAL_SECONDS = 300.0
_SCHEMES = ("http", "https")
_STATUS_WITH_RETRY_AFTER = (429, 503)

_encode = msgspec.json.Encoder().encode


class HttpPerformer:
    def __init__(
        self, session: aiohttp.ClientSession, outputs: OutputLogs, *, private: bool, loopback: bool
    ) -> None:
        self._session = session
        self._outputs = outputs
        self._private = private
        self._loopback = loopback

    @classmethod
    @asynccontextmanager
    async def open(
        cls, outputs: OutputLogs, *, private: bool, loopback: bool = False
    ) -> AsyncIterator["HttpPerformer"]:
        """Calls go to public addresses; with `loopback` also to this machine's own, with `private` to any."""
        connector = aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=False,
            resolver=None if private else PublicResolver(loopback),
            force_close=True,
        )
        timeout = aiohttp.ClientTimeout(total=_TOTAL_SECONDS, sock_connect=_CONNECT_SECONDS)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            yield cls(session, outputs, private=private, loopback=loopback)

    async def perform(self, attempt: Attempt, running: RunningAttempt) -> Result:
        task = attempt.item.spec.task
        assert isinstance(task, Http)
        log = self._outputs.open(attempt, running.secret_values)
        running.cancel_task_on_stop()
        try:
            result = await self._call(task, attempt, running.filled(task.headers), log)
        except asyncio.CancelledError:
            result = running.result_of_cancel()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            result = _result_of_error(error, log)
        finally:
            running.clear_interrupt()
        log.finish()
        return await log.save(result)

    async def _call(
        self, task: Http, attempt: Attempt, own_headers: dict[str, str], log: OutputLog
    ) -> Result:
        url = self._check_url(task.url)
        log.write(f"{task.method} {url.with_user(None)}\n".encode())
        body, headers = _body_and_headers(task, attempt, own_headers)
        async with self._session.request(
            task.method, url, headers=headers, data=body, allow_redirects=False
        ) as response:
            log.write(f"{response.status} {response.reason}\n".encode())
            content = await _content(response, log)
            value = _output_value(content, response.content_type)
            if response.status in task.ok or (not task.ok and 200 <= response.status < 300):
                return Succeeded(output=value)
            return Failed(
                reason=f"HTTP {response.status} {response.reason}".rstrip(),
                error=str(response.status),
                error_message=log.tail(),
                output=value,
                after_seconds=_wanted_wait(response),
            )

    def _check_url(self, text: str) -> URL:
        url = URL(text)
        if url.scheme not in _SCHEMES or not url.host:
            raise ValueError(f"expected a URL that starts with http:// or https://, found {text!r}")
        if not self._private and is_address(url.host):
            require_public(url.host, self._loopback)
        return url


def _body_and_headers(
    task: Http, attempt: Attempt, own: dict[str, str]
) -> tuple[bytes | None, dict[str, str]]:
    """The job's own headers win; without a body of its own the payload is sent, unless the method has none."""
    item = attempt.item
    headers = {
        "User-Agent": "waterclock",
        "Idempotency-Key": item.run_id,
        "Waterclock-Run-Id": item.run_id,
        "Waterclock-Job-Id": item.job_id,
        "Waterclock-Attempt": str(item.attempt),
        "Waterclock-Scheduled-Time": rfc3339(item.scheduled),
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
    given = {name.lower() for name in own}
    ours = {name: value for name, value in headers.items() if name.lower() not in given}
    return body, ours | own


async def _content(response: aiohttp.ClientResponse, log: OutputLog) -> bytes:
    """The beginning of the body; all of it goes to the log, which has its own limit."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(OUTPUT_LIMIT):
        content += chunk[: OUTPUT_LIMIT + 1 - len(content)]
        log.write(chunk)
        if log.is_full:
            break
    return bytes(content)


def _output_value(content: bytes, content_type: str) -> Any:
    if len(content) > OUTPUT_LIMIT:
        return None
    if content_type == "application/json" or content_type.endswith("+json"):
        return parse_output(content)
    text = content.decode(errors="replace")
    return text or None


def _wanted_wait(response: aiohttp.ClientResponse) -> float | None:
    if response.status not in _STATUS_WITH_RETRY_AFTER:
        return None
    return retry_after_seconds(response.headers.get("Retry-After"), datetime.now(UTC))


def retry_after_seconds(value: str | None, now: datetime) -> float | None:
    """The header `Retry-After` is seconds or a date. None if it is missing or unreadable; at most a day."""
    if value is None:
        return None
    value = value.strip()
    if value.isdigit():
        return min(float(value), MAX_RETRY_AFTER_SECONDS)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), MAX_RETRY_AFTER_SECONDS)


def _result_of_error(error: Exception, log: OutputLog) -> Result:
    refused = _cause(error, NotPublic)
    if refused is not None:
        return Failed(reason=f"refused: {refused}", error="NotPublic", final=True)
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return Failed(reason=log.mask(f"not to be called: {error}"), error=type(error).__name__, final=True)
    message = str(error) or "no answer in time" if isinstance(error, TimeoutError) else str(error)
    return Failed(reason=log.mask(f"{type(error).__name__}: {message}")[:500], error=type(error).__name__)


def _cause(error: BaseException | None, kind: type[Exception]) -> Exception | None:
    while error is not None:
        if isinstance(error, kind):
            return error
        inner = getattr(error, "os_error", None)
        error = inner if isinstance(inner, kind) else error.__cause__ or error.__context__
    return None
