"""The work queue: a message a work item, on the subject of its queue, tier and band."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogUnavailable
from waterclock.core.jetstream.publisher import Message, Publisher
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.spec import Handler
from waterclock.proto.work import WorkItem
from waterclock.scheduler.jetstream.patience import until_known
from waterclock.scheduler.ports import WorkInDoubt


class WorkStream:
    """`is_certain`: whether nobody can have taken the partition from us."""

    def __init__(self, connection: Connection, publisher: Publisher, is_certain: Callable[[], bool]) -> None:
        self._connection = connection
        self._publisher = publisher
        self._is_certain = is_certain

    async def publish(self, items: Sequence[WorkItem]) -> None:
        """Not repeated here: what may be in the queue goes there again only marked as recovered. While this waits for
        the server somebody may take the partition and publish the same, so it is asked again before each write."""
        still = None if all(item.recovered for item in items) else self._is_certain
        try:
            await self._publisher.publish_work([work_message(item) for item in items], still=still)
        except LogUnavailable as error:
            raise WorkInDoubt(str(error)) from error

    async def withdraw(self, run_id: str) -> None:
        purge = partial(
            self._connection.api, f"STREAM.PURGE.{names.WORK}", {"filter": f"wc.work.*.*.*.{run_id}.>"}
        )
        await until_known(f"work of {run_id}", purge)


def work_message(item: WorkItem) -> Message:
    spec = item.spec
    handler = spec.task.handler if isinstance(spec.task, Handler) else None
    prefix = _subject_prefix(spec.queue, handler, spec.tier, spec.priority)
    return Message(subject=names.work_in(prefix, item.run_id, item.queued), data=encode(item))


@lru_cache(maxsize=1024)
def _subject_prefix(queue: str, handler: str | None, tier: str, priority: int) -> str:
    return names.work_line(names.route_of(queue, handler), tier, names.band_of(priority))
