"""What Prometheus reads from a component: the process's registry behind a few lines of HTTP.

Modules declare their metrics with `prometheus_client` as usual; nothing needs to be registered here.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric

from waterclock.core.jetstream.traffic import TRAFFIC
from waterclock.core.runtime.counting import Quiet, counter

_REQUEST_TIMEOUT = 5.0
_REQUEST_LIMIT = 16 * 1024


class _Traffic(Quiet):
    """What passes between this process and JetStream."""

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "waterclock_log_published", "Messages acknowledged by a stream.", value=TRAFFIC.published
        )
        yield CounterMetricFamily("waterclock_work_published", "Work messages sent.", value=TRAFFIC.work)
        yield CounterMetricFamily(
            "waterclock_log_publish_repeats", "Publishes whose answer was lost.", value=TRAFFIC.repeated
        )
        yield counter(
            "waterclock_log_publish_refusals",
            "Publishes a stream refused: comparisons lost, duplicates rejected.",
            "reason",
            TRAFFIC.refused,
        )
        yield counter("waterclock_log_pulled", "Messages taken from a stream.", "stream", TRAFFIC.pulled)


REGISTRY.register(_Traffic())


def render() -> tuple[bytes, str]:
    """The registry as text, and the text's content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST


@asynccontextmanager
async def serving_metrics(host: str, port: int) -> AsyncIterator[int]:
    """Answer `GET /metrics` while the scope lasts; yields the port, which is a free one if `port` is 0."""
    server = await asyncio.start_server(_answer, host, port, limit=_REQUEST_LIMIT)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT):
            request = await reader.readuntil(b"\r\n\r\n")
            writer.write(_response(request))
            await writer.drain()
    except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _response(request: bytes) -> bytes:
    status, (body, content_type) = "200 OK", (b"", "text/plain")
    match request.split(b" ", 2)[:2]:
        case [b"GET", b"/metrics"]:
            body, content_type = render()
        case [b"GET", b"/healthz"]:
            body = b"ok\n"
        case _:
            status = "404 Not Found"
    head = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
