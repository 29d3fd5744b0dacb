"""Reads, judges, keeps what follows, and delivers it: two tasks that share one state.

One projector does it for all: the one that folds partition 0. While two believe that, the compare-and-set of the state
decides, and the one that loses begins anew.

What the alerts have come to, as Prometheus reads it.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric

from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import Conflict, LogError
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.pull import Pull
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.metrics import ScopedCollector, counter
from waterclock.core.runtime.processes.supervisor import Backoff
from waterclock.core.runtime.settings import Settings
from waterclock.projector.alerts.alert import Alert, State, is_flood, post, silenced
from waterclock.projector.alerts.lookups import definition_of, served
from waterclock.projector.alerts.rules import Judge, Thresholds
from waterclock.projector.alerts.webhook import Receiver, Refused, Webhook
from waterclock.projector.membership import Share
from waterclock.proto import names
from waterclock.proto.codec import decode_frame


class Tally(ScopedCollector):
    def __init__(self) -> None:
        self.results: Counter[str] = Counter(delivered=0, failed=0, given_up=0, silenced=0)
        self.waiting = 0

    def collect(self) -> Iterator[Metric]:
        yield counter("waterclock_alerts", "Calls to the webhook, by result.", "result", self.results)
        yield GaugeMetricFamily("waterclock_alerts_waiting", "Alerts to be delivered.", value=self.waiting)


_SAVE = 1.0
"""How often the position alone is written."""
_TICK = 1.0
_IDLE = 0.5
_LONGEST = 300 * SECOND
"""Between two tries at an alert, at most."""

_log = logging.getLogger(__name__)


async def run(settings: Settings, log: Connection, control: Bucket, share: Share, instance: str) -> None:
    """Until cancelled. Does nothing without a webhook."""
    if settings.alert_webhook is None:
        await asyncio.Event().wait()
    backoff = Backoff()
    with (tally := Tally()).registered():
        while True:
            began = time.monotonic()
            try:
                await _while_ours(settings, log, control, share, instance, tally)
            except (LogError, Conflict) as error:
                _log.info("alerts pause", extra={"error": f"{type(error).__name__}: {error}"})
            except Exception:
                _log.exception("alerts failed; folding and scheduling go on")
            await asyncio.sleep(backoff.after(time.monotonic() - began))


async def _while_ours(
    settings: Settings, log: Connection, control: Bucket, share: Share, instance: str, tally: Tally
) -> None:
    while 0 not in share.partitions:
        await asyncio.sleep(_IDLE)
    async with Webhook.open(receiver_of(settings), instance) as webhook:
        desk = Desk(settings, log, control, webhook, tally)
        await desk.open()
        tasks = [asyncio.create_task(work) for work in (desk.read(), desk.deliver(), _lost(share))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _lost(share: Share) -> None:
    while 0 in share.partitions:
        await asyncio.sleep(_IDLE)


def receiver_of(settings: Settings) -> Receiver:
    assert settings.alert_webhook is not None
    return Receiver(
        url=settings.alert_webhook,
        format=settings.alert_format,
        secret=settings.alert_secret,
        key_id=settings.alert_key_id,
        routing_key=settings.alert_routing_key,
        timeout_seconds=settings.alert_timeout_seconds,
    )


class Desk:
    def __init__(
        self, settings: Settings, log: Connection, control: Bucket, webhook: Webhook, tally: Tally
    ) -> None:
        self._settings = settings
        self._log = log
        self._control = control
        self._webhook = webhook
        self._tally = tally
        self._silences = [
            (name.strip(), value.strip())
            for name, equals, value in (pair.partition("=") for pair in settings.alert_silence.split(","))
            if equals
        ]
        self._state = State()
        self._judge = Judge(self._state, Thresholds())
        self._revision = 0
        self._saving = asyncio.Lock()
        self._posted = asyncio.Event()

    async def open(self) -> None:
        """Go on where the last one stopped; the first of all begins with what happens from now on."""
        entry = await self._control.get(names.ALERTS_KEY)
        if entry is None:
            self._state = State(position=(await stream_state(self._log, names.RUNS)).last_seq)
            self._revision = await self._control.create(names.ALERTS_KEY, msgspec.json.encode(self._state))
        else:
            self._state, self._revision = msgspec.json.decode(entry.value, type=State), entry.revision
        self._judge = Judge(
            self._state,
            Thresholds(
                lag_seconds=self._settings.alert_lag_seconds,
                no_executor_seconds=self._settings.alert_no_executor_seconds,
                failure_rate=self._settings.alert_failure_rate,
                repeat_seconds=self._settings.alert_repeat_seconds,
            ),
        )
        self._count()

    # -- reading ------------------------------------------------------------------------------------------

    async def read(self) -> None:
        state, judge = self._state, self._judge
        saved = ticked = time.monotonic()
        subject = names.runs_subject()
        async with Pull.ordered(self._log, names.RUNS, [subject], after_sequence=state.position) as pull:
            while True:
                found: list[Alert] = []
                for delivery in await pull.next(timeout=_TICK):
                    for event in decode_frame(delivery.data).events:
                        found += judge.take(delivery.sequence, event)
                    state.position = delivery.sequence
                if time.monotonic() - ticked >= _TICK and not pull.pending:
                    now = now_us()
                    found += judge.tick(now, await served(self._control) if judge.overdue(now) else ())
                    ticked = time.monotonic()
                for alert in found:
                    await self._post(alert)
                if found or time.monotonic() - saved >= _SAVE:
                    await self._save()
                    saved = time.monotonic()
                    self._posted.set()

    async def _post(self, alert: Alert) -> None:
        """Complete it from the definition, and put it where it waits to be delivered."""
        if alert.job_id is not None and not is_flood(self._state.outbox, alert):
            spec = await definition_of(self._log, alert.job_id, self._settings.partitions)
            if spec is not None:
                if silenced(spec.labels, self._silences):
                    self._tally.results["silenced"] += 1
                    return
                critical = spec.critical and alert.rule == "dead_letter"
                alert = msgspec.structs.replace(
                    alert, labels=spec.labels, rule="critical_failure" if critical else alert.rule
                )
        post(self._state.outbox, alert)

    # -- delivering ---------------------------------------------------------------------------------------

    async def deliver(self) -> None:
        while True:
            self._posted.clear()
            now = now_us()
            due = [alert for alert in self._state.outbox if alert.next_try <= now]
            for alert in due:
                await self._try(alert)
            if not due:
                waits = [alert.next_try - now for alert in self._state.outbox]
                try:
                    async with asyncio.timeout(min(waits) / SECOND if waits else None):
                        await self._posted.wait()
                except TimeoutError:
                    pass

    async def _try(self, alert: Alert) -> None:
        try:
            await self._webhook.call(alert)
        except Refused as refusal:
            now = now_us()
            if now - alert.at > self._settings.alert_give_up_seconds * SECOND:
                _log.error("gave up an alert", extra={"alert": alert.alert_id, "reason": str(refusal)})
                await self._settle(alert, None, "given_up")
                return
            pause = min(_LONGEST, SECOND << min(alert.tries, 10))
            if refusal.retry_after is not None:
                pause = max(pause, int(refusal.retry_after * SECOND))
            extra = {"alert": alert.alert_id, "reason": str(refusal), "seconds": pause / SECOND}
            _log.warning("an alert was not taken", extra=extra)
            again = msgspec.structs.replace(alert, tries=alert.tries + 1, next_try=now + pause)
            await self._settle(alert, again, "failed")
        else:
            await self._settle(alert, None, "delivered")

    async def _settle(self, alert: Alert, replacement: Alert | None, result: str) -> None:
        """The reader may have added to the outbox, or to this very alert, while it was being told."""
        outbox = self._state.outbox
        for place, waiting in enumerate(outbox):
            if waiting.alert_id == alert.alert_id:
                more = waiting.more - alert.more
                if replacement is None and more:
                    replacement = msgspec.structs.replace(waiting, alert_id=f"{alert.alert_id}+", more=more)
                elif replacement is not None:
                    replacement = msgspec.structs.replace(replacement, more=waiting.more)
                outbox[place : place + 1] = [] if replacement is None else [replacement]
                break
        self._tally.results[result] += 1
        await self._save()

    # -- keeping ------------------------------------------------------------------------------------------

    async def _save(self) -> None:
        async with self._saving:
            self._revision = await self._control.update(
                names.ALERTS_KEY, msgspec.json.encode(self._state), self._revision
            )
        self._count()

    def _count(self) -> None:
        self._tally.waiting = len(self._state.outbox)
