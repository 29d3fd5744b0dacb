"""`python -m bench.overload.callers OFFER`: a crowd of callers in a process of its own; prints what they were answered.

They do as a user's program does. Over NATS that is our own client, which waits by itself when it is told to; over REST
it is bare HTTP, which sends a refused request again after `Retry-After`.
"""

import asyncio
import logging
import secrets
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
from nats.aio.msg import Msg

from bench.overload.offer import Answers, Offer
from bench.quantiles import quantile
from bench.rest import Rest
from waterclock.api.client.client import Client
from waterclock.api.client.discovery import find
from waterclock.api.client.wire import Wire
from waterclock.api.errors import Refused, Unreachable

_AGAIN = 1.0
"""Seconds until a line that was refused alone is sent again."""
_TOO_LONG = 60.0
_ERROR_CODE = "Nats-Service-Error-Code"
_ACCEPTED, _REFUSED = "accepted", "503"

_last_said: ContextVar[str] = ContextVar("what this caller was answered last", default="")

Job = dict[str, Any]


class Tally:
    """What all callers were answered."""

    def __init__(self) -> None:
        self.offered = self.accepted = self.turned_away = self.unanswered = 0
        self.said: Counter[str] = Counter()
        self.taken: list[float] = []

    def answered(self, said: str) -> None:
        self.said[said] += 1
        _last_said.set(said)

    def ended(self, jobs: int) -> None:
        """Nobody waits any longer for these."""
        if _last_said.get() == _REFUSED:
            self.turned_away += jobs
        else:
            self.unanswered += jobs

    def answers(self, seconds: float) -> Answers:
        ordered = sorted(self.taken)
        others = {said: count for said, count in self.said.items() if said not in (_ACCEPTED, _REFUSED)}
        return Answers(
            offered=self.offered,
            accepted=self.accepted,
            turned_away=self.turned_away,
            unanswered=self.unanswered,
            answers_accepted=self.said[_ACCEPTED],
            answers_503=self.said[_REFUSED],
            answers_other=sum(others.values()),
            others=others,
            accepted_p50_ms=round(quantile(ordered, 0.5) * 1000, 1) if ordered else None,
            accepted_p99_ms=round(quantile(ordered, 0.99) * 1000, 1) if ordered else None,
            seconds=round(seconds, 2),
        )


class Pace:
    """Who is free takes the next batch, at its time; after a wait they make up for it as fast as they can."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._next = 0

    async def batches(self) -> AsyncIterator[list[Job]]:
        offer = self._offer
        size = 1 if offer.way == "single" else offer.batch
        while not offer.count or self._next < offer.count:
            first, self._next = self._next, self._next + size
            if offer.rate:
                await asyncio.sleep(max(0.0, offer.begin + first / offer.rate - time.time()))
            if time.time() >= offer.begin + offer.seconds:
                return
            last = min(first + size, offer.count) if offer.count else first + size
            now = time.time()
            yield [offer.job(number, now) for number in range(first, last)]


class Caller(ABC):
    def __init__(self, tally: Tally, until: float) -> None:
        self.tally = tally
        self._until = until

    async def call_all(self, pace: Pace) -> None:
        async for jobs in pace.batches():
            await self._call(jobs)

    async def _call(self, jobs: list[Job]) -> None:
        """Again and again until all are accepted, or until nobody waits any longer."""
        self.tally.offered += len(jobs)
        began = time.perf_counter()
        left = jobs
        try:
            async with asyncio.timeout(max(0.1, self._until - time.time())):
                while left:
                    before = len(left)
                    left = await self.send(left)
                    self.tally.accepted += before - len(left)
        except TimeoutError:
            self.tally.ended(len(left))
        else:
            self.tally.taken.append(time.perf_counter() - began)

    @abstractmethod
    async def send(self, jobs: list[Job]) -> list[Job]:
        """Send until there is an answer that is no refusal of all; what was refused of it."""


class RestCaller(Caller):
    def __init__(self, tally: Tally, until: float, rest: Rest, *, single: bool) -> None:
        super().__init__(tally, until)
        self._rest = rest
        self._single = single

    async def send(self, jobs: list[Job]) -> list[Job]:
        path = "/v1/jobs" if self._single else "/v1/jobs:batch"
        kind = "application/json" if self._single else "application/x-ndjson"
        body = b"\n".join(map(msgspec.json.encode, jobs))
        key = secrets.token_hex(10)
        while True:
            try:
                answer = await self._rest.ask(path, body, key=key, kind=kind, within=_TOO_LONG)
            except (OSError, EOFError, TimeoutError) as error:
                self.tally.answered(type(error).__name__)
                await asyncio.sleep(0.2)
                continue
            if answer.status in (200, 201):
                self.tally.answered(_ACCEPTED)
                return await self._refused(jobs, answer.body)
            self.tally.answered(str(answer.status))
            await asyncio.sleep(answer.retry_after if answer.retry_after is not None else _AGAIN)

    async def _refused(self, jobs: list[Job], body: bytes) -> list[Job]:
        if self._single or body.count(b'"job_id"') == len(jobs):
            return []
        lines = body.splitlines()
        left = [job for job, line in zip(jobs, lines, strict=True) if b'"job_id"' not in line]
        self.tally.answered("refused in part")
        await asyncio.sleep(_AGAIN)
        return left


class CountedWire(Wire):
    """The client's own, which counts what it was answered before it waits and asks again."""

    tally: Tally

    async def _request(self, subject: str, data: bytes) -> Msg:
        try:
            message = await super()._request(subject, data)
        except Unreachable:
            self.tally.answered("unreachable")
            raise
        self.tally.answered((message.headers or {}).get(_ERROR_CODE, _ACCEPTED))
        return message


class NatsCaller(Caller):
    def __init__(self, tally: Tally, until: float, client: Client) -> None:
        super().__init__(tally, until)
        self._client = client

    async def send(self, jobs: list[Job]) -> list[Job]:
        try:
            results = await self._client.jobs.create_many(jobs)
        except (Refused, Unreachable):
            await asyncio.sleep(_AGAIN)
            return jobs
        left = [job for job, result in zip(jobs, results, strict=True) if not result.job_id]
        if left:
            self.tally.answered("refused in part")
            await asyncio.sleep(_AGAIN)
        return left


@asynccontextmanager
async def crowd(offer: Offer, tally: Tally) -> AsyncIterator[list[Caller]]:
    until = offer.begin + offer.seconds + offer.patience
    async with AsyncExitStack() as stack:
        if offer.way == "nats":
            endpoint = find(data=Path(offer.data), token=offer.token, environ={})
            wire = await stack.enter_async_context(CountedWire.open(endpoint, timeout=10.0, patience=300.0))
            assert isinstance(wire, CountedWire)
            wire.tally = tally
            client = Client(wire)
            yield [NatsCaller(tally, until, client) for _ in range(offer.callers)]
            return
        connection = msgspec.json.decode((Path(offer.data) / "connection.json").read_bytes())
        token = offer.token or connection["token"]
        single = offer.way == "single"
        rests = [
            await stack.enter_async_context(Rest.open(connection["http"], token))
            for _ in range(offer.callers)
        ]
        yield [RestCaller(tally, until, rest, single=single) for rest in rests]


async def offer_all(offer: Offer) -> Answers:
    tally, pace = Tally(), Pace(offer)
    async with crowd(offer, tally) as callers:
        await asyncio.sleep(max(0.0, offer.begin - time.time()))
        await asyncio.gather(*(caller.call_all(pace) for caller in callers))
        return tally.answers(time.time() - offer.begin)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the client says that it waits: so do our figures
    with suppress(BrokenPipeError):
        found = asyncio.run(offer_all(msgspec.json.decode(sys.argv[1].encode(), type=Offer)))
        print(msgspec.json.encode(found).decode(), flush=True)
