"""The work queue: a message for each work item or parcel, on the subject of its queue, tier and priority."""

import logging
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from waterclock.core.jetstream.access.work_consumers import WorkLines
from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError, LogFull, LogUnavailable
from waterclock.core.jetstream.nats_client import Disconnected
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.events import Instant
from waterclock.proto.spec import Handler, JobSpec
from waterclock.proto.work import Parcel
from waterclock.scheduler.jetstream.patience import until_known
from waterclock.scheduler.ports import WorkInDoubt, WorkMessage

_log = logging.getLogger(__name__)

_ASK_EVERY = 1.0
"""Seconds: so often, at least, we ask whether work gets to the queue."""
_RECALL_SECONDS = 10.0
_RECALLED_SECONDS = 3600.0
"""How long a recall is kept. An executor asks before it runs what has been in the queue for a minute."""


class WorkStream:
    """`is_certain`: whether nobody can have taken the partition from us."""

    def __init__(
        self,
        connection: Connection,
        publisher: Publisher,
        lines: WorkLines,
        is_certain: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._publisher = publisher
        self._lines = lines
        self._is_certain = is_certain
        self._asked = -_ASK_EVERY
        """When an acknowledgement was last asked for, on the monotonic clock."""

    async def publish(self, messages: Sequence[WorkMessage]) -> bool:
        """Not repeated here: what may be in the queue goes there again only marked as recovered. While this waits for
        the server somebody may take the partition and publish the same, so it is asked again before each write."""
        await self._make_lines(messages)
        if self._may_go_unasked(messages):
            try:
                self._publisher.send_work(work_message(messages[0]))
                return False
            except Disconnected:
                pass  # what follows waits for the server
        self._asked = time.monotonic()
        still = None if all(message.items[0].recovered for message in messages) else self._is_certain
        try:
            await self._publisher.publish_work([work_message(message) for message in messages], still=still)
        except LogUnavailable as error:
            raise WorkInDoubt(str(error)) from error
        return True

    def _may_go_unasked(self, messages: Sequence[WorkMessage]) -> bool:
        """At low load an answer wakes both sides up for each run, and says what the run's outcome says a moment later.
        Of several servers the one that has the queue may go without our noticing."""
        return (
            len(messages) == 1
            and not messages[0].parcel
            and not messages[0].items[0].recovered
            and not self._connection.nc.is_clustered
            and self._is_certain()
            and time.monotonic() - self._asked < _ASK_EVERY
        )

    async def _make_lines(self, messages: Sequence[WorkMessage]) -> None:
        """Those that have none yet. If that fails the work waits until it is tried again, every few seconds."""
        above = [item for message in messages if (item := message.items[0]).spec.priority > 0]
        consumers = {_consumer(item.spec, item.exact) for item in above}
        if consumers and self._lines.lacks(consumers):
            try:
                await self._lines.ensure(consumers)
            except LogError as error:
                _log.warning("lines of the work queue not made: %s", error)

    async def withdraw(self, run_id: str) -> None:
        purge = partial(
            self._connection.api, f"STREAM.PURGE.{names.WORK}", {"filter": f"wc.work.*.*.*.{run_id}.>"}
        )
        await until_known(f"work of {run_id}", purge)

    async def recall(self, run_id: str, queued: Instant) -> None:
        """Waits for a server that is away, but not for one that does not answer: it may not let us write this (users of
        its own, of the version before), and then an executor that begins the run is told to stop it."""
        subject = names.kv_subject(names.CONTROL, names.cancel_key(run_id))
        while True:
            await self._connection.connected()
            try:
                await self._publisher.publish(
                    subject, str(queued).encode(), ttl_seconds=_RECALLED_SECONDS, deadline=_RECALL_SECONDS
                )
            except (LogUnavailable, LogFull) as error:
                if not self._connection.nc.is_connected:
                    continue
                _log.error("cannot recall a run: %s", error, extra={"run_id": run_id})
            return


def work_message(message: WorkMessage) -> Message:
    first = message.items[0]
    spec = first.spec
    line = _line(spec.queue, _handler(spec), spec.tier, names.line_of(spec.priority, first.exact))
    if message.parcel:
        subject = names.parcel_in(line, message.parcel, first.queued)
        return Message(subject=subject, data=encode(Parcel(message.items)))
    return Message(subject=names.work_in(line, first.run_id, first.queued), data=encode(first))


def _consumer(spec: JobSpec, exact: bool) -> str:
    route = names.route_of(spec.queue, _handler(spec))
    return names.work_consumer(route, spec.tier, names.line_of(spec.priority, exact))


def _handler(spec: JobSpec) -> str | None:
    return spec.task.handler if type(spec.task) is Handler else None


@lru_cache(maxsize=1024)
def _line(queue: str, handler: str | None, tier: str, line: str) -> str:
    return names.work_line(names.route_of(queue, handler), tier, line)
