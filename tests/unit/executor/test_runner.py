"""A plain attempt goes a shorter way than others. Whatever its handler does, both ways end alike."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import msgspec
import pytest

from executor_rig.builders import work_item
from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.messages import Delivery
from waterclock.executor import Context, Worker
from waterclock.executor.attempt.keepalive import KeepAlive
from waterclock.executor.attempt.reporter import Ack, Reporter
from waterclock.executor.attempt.runner import Runner, is_plain
from waterclock.executor.attempt_record import FinalEvent
from waterclock.executor.handler_exceptions import Cancel, Retry, SecretMissing, Snooze
from waterclock.executor.in_flight import InFlight, Receipt, RunningAttempt, StopCause, work_key
from waterclock.executor.limits.concurrency import ConcurrencyLimits
from waterclock.executor.limits.exactly_once import RunLeases
from waterclock.executor.logs.output import OutputLogs
from waterclock.executor.perform.handler import HandlerPerformer
from waterclock.executor.secrets import SecretResolver
from waterclock.executor.warden.client import WardenLost
from waterclock.proto.events import RunTimedOut
from waterclock.proto.spec import Handler
from waterclock.proto.work import WorkItem

NOBODY = Delivery(subject="", data=b"", reply="", sequence=1, delivered=1, pending=0, timestamp_ns=0)
STOP = StopCause(kind="cancelled", reason="not wanted")


class NoAcks:
    def ack(self, receipt: Receipt, attempts: int = 1) -> None: ...


class Reports:
    on_lasting: Callable[[RunningAttempt], None]

    def __init__(self) -> None:
        self.started: list[str] = []
        self.outcomes: list[FinalEvent] = []

    def report_start(self, running: RunningAttempt) -> None:
        self.started.append(running.item.run_id)

    def report_outcome(self, running: RunningAttempt, event: FinalEvent, ack: Ack | None) -> None:
        self.outcomes.append(event)


class Logs:
    def __init__(self) -> None:
        self.kept: list[str] = []

    async def put(self, name: str, _pieces: object) -> None:
        await asyncio.sleep(0)
        self.kept.append(name)


def secret_of(_namespace: str, name: str) -> str:
    if name != "known":
        raise SecretMissing(f"no {name}")
    return "hunter2"


async def nothing(context: Context, payload: Any) -> None: ...


async def value(context: Context, payload: Any) -> Any:
    await asyncio.sleep(0)
    return {"doubled": [payload, payload], "task": asyncio.current_task() is not None}


def synchronous(context: Context, payload: Any) -> Any:
    return [context.run_id, context.attempt, context.payload]


async def unfit(context: Context, payload: Any) -> Any:
    return object()


async def fails(context: Context, payload: Any) -> None:
    raise ValueError(f"bad {payload}")


async def directs(context: Context, payload: Any) -> None:
    raise {"retry": Retry("again", after=5), "snooze": Snooze(7), "cancel": Cancel("no")}[payload]


async def talks(context: Context, payload: Any) -> str:
    context.log("a line")
    context.progress(0.5, "half")
    return "said"


async def leaks(context: Context, payload: Any) -> str:
    context.log(context.secret("known"))
    return f"it is {context.secret('known')}"


async def asks_in_vain(context: Context, payload: Any) -> None:
    context.secret("unknown")


async def is_stopped(context: Context, payload: Any) -> None:
    await asyncio.Event().wait()


async def is_stopped_late(context: Context, payload: Any) -> str:
    """It does what it has begun all the same."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "late"
    return ""


CASES: list[tuple[Callable[[Context, Any], Any], Any]] = [
    (nothing, None),
    (value, 7),
    (synchronous, {"a": 1}),
    (unfit, None),
    (fails, "luck"),
    (directs, "retry"),
    (directs, "snooze"),
    (directs, "cancel"),
    (talks, None),
    (leaks, None),
    (asks_in_vain, None),
    (is_stopped, None),
    (is_stopped_late, None),
]


class Rig:
    """Everything an attempt meets on its way, and what came of it."""

    def __init__(self, function: Callable[[Context, Any], Any], payload: Any) -> None:
        worker = Worker()
        worker.handler("handler", run_in="loop")(function)
        self.logs = Logs()
        outputs = OutputLogs(cast(Any, self.logs), lambda _subject, _data: None, 10_000)
        self.performer: Any = HandlerPerformer(worker.handlers, 1, outputs, secret_of)
        self.reports = Reports()
        self.in_flight = InFlight()
        self.item: WorkItem = work_item(Handler(handler="handler"), payload=payload, max_retries=2)
        self.running = RunningAttempt(self.item, work_key(self.item), Receipt(NOBODY), 1)
        self.running.receipt.running = [self.running]
        self.in_flight.add(self.running.receipt)
        self.ended: list[RunningAttempt] = []
        self.waits_for_a_stop = function in (is_stopped, is_stopped_late)

    def runner(self) -> Runner:
        return Runner(
            {} if self.performer is None else {Handler: self.performer},
            executor_id="executor-1",
            in_flight=self.in_flight,
            keepalive=cast(KeepAlive, NoAcks()),
            reporter=cast(Reporter, self.reports),
            secrets=cast(SecretResolver, None),
            leases=cast(RunLeases, None),
            concurrency=cast(ConcurrencyLimits, None),
            stop_grace=1.0,
        )

    async def run(self, *, plainly: bool) -> tuple[Any, ...]:
        runner = self.runner()
        assert is_plain(self.item.spec)
        body = partial(runner._run_plain) if plainly else partial(runner._run, permit=None)
        self.running.task = asyncio.get_running_loop().create_task(
            body(self.running, 1, ended=self.ended.append)
        )
        if self.waits_for_a_stop:
            await asyncio.sleep(0)
            self.running.stop(STOP)
        await self.running.task
        assert self.ended == [self.running]
        outcomes = [(type(each), _without_times(each)) for each in self.reports.outcomes]
        return outcomes, self.reports.started, self.logs.kept, self.running.progress, self.in_flight.run_ids


def _without_times(event: FinalEvent) -> dict[str, Any]:
    fields = msgspec.json.decode(msgspec.json.encode(event))
    kept = {
        name: found for name, found in fields.items() if name not in ("at", "started", "until", "retry_at")
    }
    kept["is retried"] = getattr(event, "retry_at", None) is not None
    lines = kept.get(
        "error_message", ""
    ).splitlines()  # the traceback differs by the frames above the handler
    return kept | {"error_message": lines[-1:]}


async def both_ways(prepare: Callable[[], Rig]) -> tuple[Any, ...]:
    general = await prepare().run(plainly=False)
    assert await prepare().run(plainly=True) == general
    return general


@pytest.mark.parametrize(
    ("function", "payload"), CASES, ids=lambda case: getattr(case, "__name__", str(case))
)
async def test_both_ways_end_alike(function: Callable[[Context, Any], Awaitable[Any]], payload: Any) -> None:
    outcomes, started, _, _, held = await both_ways(lambda: Rig(function, payload))
    assert len(outcomes) == 1
    assert started == held == ["job@20261116T030000Z"]
    assert "hunter2" not in repr(outcomes)


async def test_a_time_out_is_watched_for_only_if_the_attempt_lasts() -> None:
    quick, lasting = Rig(nothing, None), Rig(is_stopped, None)
    for rig in (quick, lasting):
        spec = msgspec.structs.replace(rig.item.spec, timeout_seconds=1.0)
        rig.running.item = rig.item = msgspec.structs.replace(rig.item, spec=spec)
    await quick.run(plainly=True)
    assert quick.running.time_out is None
    runner = lasting.runner()
    task = lasting.running.task = asyncio.create_task(
        runner._run_plain(lasting.running, 1, lasting.ended.append)
    )
    await asyncio.sleep(0)
    attempt = lasting.running.attempt
    assert attempt is not None
    lasting.running.attempt = msgspec.structs.replace(attempt, started=attempt.started - 2 * SECOND)
    lasting.reports.on_lasting(lasting.running)
    await task
    (outcome,) = lasting.reports.outcomes
    assert isinstance(outcome, RunTimedOut)
    assert outcome.reason == "timed out after 1 s"


async def test_one_that_was_stopped_before_is_not_performed() -> None:
    def stopped() -> Rig:
        rig = Rig(fails, None)
        rig.running.stop(STOP)
        return rig

    outcomes, started, *_ = await both_ways(stopped)
    assert outcomes[0][1]["reason"] == "not wanted"
    assert started == []


async def test_what_nobody_here_can_perform_fails() -> None:
    def without() -> Rig:
        rig = Rig(nothing, None)
        rig.performer = None
        return rig

    outcomes, *_ = await both_ways(without)
    assert outcomes[0][1]["reason"] == "this executor cannot run a Handler"


class Broken:
    def __init__(self, error: Exception) -> None:
        self.error = error

    async def perform(self, *_: object) -> None:
        raise self.error


@pytest.mark.parametrize("error", [RuntimeError("a bug"), WardenLost("gone")], ids=["a bug", "no warden"])
async def test_a_performer_that_breaks_is_the_attempts_failure_unless_nobody_knows_how_it_ended(
    error: Exception,
) -> None:
    def broken() -> Rig:
        rig = Rig(nothing, None)
        rig.performer = Broken(error)
        return rig

    outcomes, _, _, _, held = await both_ways(broken)
    assert len(outcomes) == len(held) == isinstance(error, RuntimeError)


@pytest.mark.parametrize(
    "needs",
    [
        {"timeout_seconds": 0.5},
        {"start_deadline_seconds": 1.0},
        {"delivery": "exactly_once"},
        {"secrets": ("name",)},
    ],
)
def test_what_needs_more_is_not_plain(needs: dict[str, Any]) -> None:
    assert not is_plain(work_item(Handler(handler="handler"), **needs).spec)
    assert not is_plain(work_item().spec), "a command"
