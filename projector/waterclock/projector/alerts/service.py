"""Alerts: reads the log by itself, and calls a webhook for what people want to be woken for.

Everything it knows is one value in the control bucket, compared and set: how far it has read, what fails at the moment,
and what is still to be delivered. So nothing is lost or held up: a receiver that hangs delays only its own calls.
One projector does it for all: the one that folds partition 0. While two believe that, the compare-and-set of the state
decides, and the one that loses begins anew.
"""

import asyncio
import logging
import time

import msgspec

from waterclock.core.domain.instants import SECOND
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.core.jetstream.messages import stream_state
from waterclock.core.jetstream.pull_loop import Pull
from waterclock.core.runtime.clock import now_us
from waterclock.core.runtime.processes.supervisor import Backoff
from waterclock.core.runtime.quarantine import read_frame, read_record
from waterclock.core.runtime.settings import Settings
from waterclock.core.runtime.tasks import supervised
from waterclock.projector.alerts.alert import Alert, AlertState, add_to_outbox, is_flood, is_silenced
from waterclock.projector.alerts.lookups import (
    definition_of,
    failing_partitions,
    load_of_schedulers,
    new_in_quarantine,
    served_routes,
)
from waterclock.projector.alerts.rules import AlertRules, Thresholds
from waterclock.projector.alerts.webhook import DeliveryFailed, Receiver, Webhook
from waterclock.projector.membership import Membership
from waterclock.projector.metrics import AlertMetrics
from waterclock.proto import names
from waterclock.proto.codec import decoder

_SAVE_EVERY = 1.0
"""Of the position alone."""
_TICK = 1.0
_LOOK_EVERY = 5.0
"""How often the schedulers are asked whether they are behind; also while there is much to read, as there is then."""
_IDLE = 0.5
_LONGEST_PAUSE = 300 * SECOND
"""Between two tries at an alert, at most."""

_log = logging.getLogger(__name__)


async def run(
    settings: Settings, log: Connection, control: Bucket, membership: Membership, instance: str
) -> None:
    """Until cancelled. Does nothing without a webhook."""
    if settings.alert_webhook is None:
        await asyncio.Event().wait()
    backoff = Backoff()
    with (metrics := AlertMetrics()).registered():
        while True:
            began = time.monotonic()
            try:
                await _while_ours(settings, log, control, membership, instance, metrics)
            except LogError as error:
                _log.info("alerts pause", extra={"error": f"{type(error).__name__}: {error}"})
            except Exception:
                _log.exception("alerts failed; folding and scheduling go on")
            await asyncio.sleep(backoff.after(time.monotonic() - began))


async def _while_ours(
    settings: Settings,
    log: Connection,
    control: Bucket,
    membership: Membership,
    instance: str,
    metrics: AlertMetrics,
) -> None:
    while 0 not in membership.partitions:
        await asyncio.sleep(_IDLE)
    async with Webhook.open(receiver_of(settings), instance) as webhook:
        alerter = Alerter(settings, log, control, webhook, metrics)
        await alerter.open()
        async with supervised() as tasks:
            tasks.keep(alerter.read(), name="reading for alerts")
            tasks.keep(alerter.deliver(), name="delivering alerts")
            await _until_not_ours(membership)


async def _until_not_ours(membership: Membership) -> None:
    while 0 in membership.partitions:
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
        private=settings.http_private,
        loopback=bool(settings.http_loopback),
    )


_decode_state = decoder(AlertState)


class Alerter:
    def __init__(
        self, settings: Settings, log: Connection, control: Bucket, webhook: Webhook, metrics: AlertMetrics
    ) -> None:
        self._settings = settings
        self._log = log
        self._control = control
        self._webhook = webhook
        self._metrics = metrics
        self._silences = [
            (name.strip(), value.strip())
            for name, equals, value in (pair.partition("=") for pair in settings.alert_silence.split(","))
            if equals
        ]
        self._state = AlertState()
        self._rules = AlertRules(self._state, Thresholds())
        self._revision = 0
        self._saving = asyncio.Lock()
        self._added = asyncio.Event()

    async def open(self) -> None:
        """Go on where the last one stopped; the first of all begins with what happens from now on."""
        entry = await self._control.get(names.ALERTS_KEY)
        if entry is None:
            self._state = AlertState(position=(await stream_state(self._log, names.RUNS)).last_seq)
            self._revision = await self._control.create(names.ALERTS_KEY, msgspec.json.encode(self._state))
        else:
            start = AlertState(position=(await stream_state(self._log, names.RUNS)).last_seq)
            self._state = read_record(_decode_state, self._control.stream, entry, start)
            self._revision = entry.revision
        self._rules = AlertRules(
            self._state,
            Thresholds(
                lag_seconds=self._settings.alert_lag_seconds,
                no_executor_seconds=self._settings.alert_no_executor_seconds,
                failure_rate=self._settings.alert_failure_rate,
                repeat_seconds=self._settings.alert_repeat_seconds,
            ),
        )
        self._show_waiting()

    # -- reading ------------------------------------------------------------------------------------------

    async def read(self) -> None:
        state, rules = self._state, self._rules
        saved = ticked = looked = time.monotonic()
        subject = names.runs_subject()
        async with Pull.ordered(self._log, names.RUNS, [subject], after_sequence=state.position) as pull:
            while True:
                found: list[Alert] = []
                for delivery in await pull.next(timeout=_TICK):
                    for event in read_frame(delivery).events:
                        found += rules.on_event(delivery.sequence, event)
                    state.position = delivery.sequence
                if time.monotonic() - ticked >= _TICK and not pull.pending:
                    now = now_us()
                    found += rules.on_tick(
                        now, await served_routes(self._control) if rules.has_overdue(now) else ()
                    )
                    ticked = time.monotonic()
                if time.monotonic() - looked >= _LOOK_EVERY:
                    found += rules.on_load(now_us(), await load_of_schedulers(self._control))
                    found += rules.on_failing(now_us(), await failing_partitions(self._control))
                    if unread := await new_in_quarantine(self._log, state.quarantine_seen):
                        found += rules.on_quarantine(now_us(), *unread)
                    looked = time.monotonic()
                for alert in found:
                    await self._add(alert)
                if found or time.monotonic() - saved >= _SAVE_EVERY:
                    await self._save()
                    saved = time.monotonic()
                    self._added.set()

    async def _add(self, alert: Alert) -> None:
        """Complete it from the definition, and put it where it waits to be delivered."""
        if alert.job_id is not None and not is_flood(self._state.outbox, alert):
            spec = await definition_of(self._log, alert.job_id, self._settings.partitions)
            if spec is not None:
                if is_silenced(spec.labels, self._silences):
                    self._metrics.results["silenced"] += 1
                    return
                critical = spec.critical and alert.rule == "dead_letter"
                alert = msgspec.structs.replace(
                    alert, labels=spec.labels, rule="critical_failure" if critical else alert.rule
                )
        add_to_outbox(self._state.outbox, alert)

    # -- delivering ---------------------------------------------------------------------------------------

    async def deliver(self) -> None:
        while True:
            self._added.clear()
            now = now_us()
            due = [alert for alert in self._state.outbox if alert.next_try <= now]
            for alert in due:
                await self._deliver_once(alert)
            if not due:
                waits = [alert.next_try - now for alert in self._state.outbox]
                try:
                    async with asyncio.timeout(min(waits) / SECOND if waits else None):
                        await self._added.wait()
                except TimeoutError:
                    pass

    async def _deliver_once(self, alert: Alert) -> None:
        try:
            await self._webhook.send(alert)
        except DeliveryFailed as failure:
            now = now_us()
            if now - alert.at > self._settings.alert_give_up_seconds * SECOND:
                _log.error("gave up an alert", extra={"alert": alert.alert_id, "reason": str(failure)})
                await self._replace(alert, None, "given_up")
                return
            pause = min(_LONGEST_PAUSE, SECOND << min(alert.tries, 10))
            if failure.retry_after is not None:
                pause = max(pause, int(failure.retry_after * SECOND))
            extra = {"alert": alert.alert_id, "reason": str(failure), "seconds": pause / SECOND}
            _log.warning("an alert was not taken", extra=extra)
            again = msgspec.structs.replace(alert, tries=alert.tries + 1, next_try=now + pause)
            await self._replace(alert, again, "failed")
        else:
            await self._replace(alert, None, "delivered")

    async def _replace(self, alert: Alert, replacement: Alert | None, result: str) -> None:
        """The reader may have added to the outbox, or to this very alert, while it was being delivered."""
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
        self._metrics.results[result] += 1
        await self._save()

    # -- keeping ------------------------------------------------------------------------------------------

    async def _save(self) -> None:
        async with self._saving:
            self._revision = await self._control.update(
                names.ALERTS_KEY, msgspec.json.encode(self._state), self._revision
            )
        self._show_waiting()

    def _show_waiting(self) -> None:
        self._metrics.waiting = len(self._state.outbox)
