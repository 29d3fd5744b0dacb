"""What accepting a job costs the api in pure code: bytes of a bulk call in, frames and bytes of the answer out.

Everything between is the service's own; only the log, the load and the quotas are stood in for. Prints microseconds of
CPU a job, one JSON line for each kind of job and way in.

    python -m bench.accepting [JOBS] [--profile] [KIND …]
"""

import asyncio
import cProfile
import gc
import json
import pstats
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from bench import jobs
from waterclock.api import request_bodies
from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.client.messages import batches
from waterclock.api.dispatch import answer
from waterclock.api.eventlog.job_writer import JobWriter
from waterclock.core.domain.job.validate import Defaults
from waterclock.core.jetstream.protocol import publish_command
from waterclock.core.runtime.settings import Settings
from waterclock.proto import methods

_CALLER = Caller(actor="token:bench")
_START = 1_900_000_000
_TIMES = 5
"""The least of so many counts: what else the machine does only adds."""

KINDS: dict[str, Callable[[int], Mapping[str, Any]]] = {
    "immediate": lambda _: jobs.immediate(),
    "own_payloads": lambda number: {
        **jobs.immediate(),
        "payload": {"text": f"{number:09d}{jobs.PAYLOAD['text'][9:]}"},
    },
    "later": lambda number: jobs.at(_START + number / 1_000),
    "yearly": lambda number: jobs.yearly(number, _START),
    "zoned": lambda number: {**jobs.yearly(number, _START), "timezone": "Europe/Paris"},
    "keyed": lambda number: {**jobs.immediate(), "idempotency_key": f"order-{number}"},
}


class _Log:
    """Acknowledges everything."""

    def __init__(self) -> None:
        self.sequence = 0
        self.bytes = 0

    async def publish(self, subject: str, data: bytes, **_: Any) -> int:
        self.bytes += len(publish_command(subject, "_INBOX.bench.1", {"Nats-Msg-Id": "bench"}, data))
        self.sequence += 1
        return self.sequence

    async def publish_batch(self, messages: Any, **_: Any) -> int:
        for message in messages:
            await self.publish(message.subject, message.data)
        return self.sequence


async def _nothing(*_: Any, **__: Any) -> None:
    """Nobody is refused."""


def _defaults(_: str) -> Defaults:
    return Defaults(max_retries=3, timeout_seconds=3600)


async def _all_defaults() -> Callable[[str], Defaults]:
    return _defaults


async def _accept(bodies: list[bytes], log: _Log) -> int:
    async with AsyncExitStack() as stack:
        writer = await stack.enter_async_context(
            JobWriter.open(cast(Any, None), cast(Any, log), 16, written=lambda *_: None)
        )
        stood_in = SimpleNamespace(
            settings=Settings(),
            job_writer=writer,
            quotas=SimpleNamespace(take=_nothing, defaults=_all_defaults),
            admission=SimpleNamespace(admit_jobs=_nothing),
        )
        app = cast(Application, stood_in)
        encode = msgspec.json.Encoder().encode
        answered = 0
        for body in bodies:
            asked = request_bodies.read(body, methods.JOBS_BATCH.request)
            answered += len(encode(await answer(app, methods.JOBS_BATCH, asked, _CALLER)))
        return answered


def measure(kind: str, count: int, *, profiled: bool = False) -> dict[str, Any]:
    lines = [msgspec.json.encode(KINDS[kind](number)) for number in range(count)]
    bodies = [msgspec.json.encode(batch) for _, batch in batches(lines)]
    asyncio.run(_accept(bodies[:2], _Log()))
    if profiled:
        profile = cProfile.Profile()
        profile.runcall(asyncio.run, _accept(bodies, _Log()))
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    spent = []
    for _ in range(_TIMES):
        log = _Log()
        gc.collect()
        began = time.process_time_ns()
        answered = asyncio.run(_accept(bodies, log))
        spent.append(time.process_time_ns() - began)
    return {
        "name": f"accepting/{kind}",
        "jobs": count,
        "us": round(min(spent) / count / 1_000, 2),
        "asked_bytes": sum(map(len, bodies)) // count,
        "logged_bytes": log.bytes // count,
        "answered_bytes": answered // count,
    }


def main() -> None:
    words = [word for word in sys.argv[1:] if word in KINDS]
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    for kind in words or KINDS:
        result = measure(kind, numbers[0] if numbers else 20_000, profiled="--profile" in sys.argv)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
