"""Asks the owner of the partition whether a delivery that may not be the first may still run."""

from collections.abc import Sequence

import msgspec

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.executor.metrics import ExecutorMetrics
from waterclock.proto import names
from waterclock.proto.codec import decoder, encode
from waterclock.proto.work import ClaimReply, ClaimRequest, WorkItem

_ANSWER_SECONDS = 2.0

_decode = decoder(ClaimReply)


_WAIT = ClaimReply(verdict="wait")


class Claims:
    def __init__(
        self, connection: Connection, metrics: ExecutorMetrics, *, executor_id: str, partitions: int
    ) -> None:
        self._connection = connection
        self._metrics = metrics
        self._executor_id = executor_id
        self._partitions = partitions

    async def ask(self, items: Sequence[WorkItem], delivered: int, *, in_parcel: bool) -> list[ClaimReply]:
        """About one delivery, for each of its attempts. No answer means wait: the partition may be changing its
        owner."""
        first, *more = [
            ClaimRequest(
                run_id=item.run_id,
                attempt=item.attempt,
                queued=item.queued,
                executor_id=self._executor_id,
                delivered=delivered,
                in_parcel=in_parcel,
            )
            for item in items
        ]
        request = msgspec.structs.replace(first, more=tuple(more)) if more else first
        subject = names.claim_subject(names.partition_of(first.run_id, self._partitions))
        try:
            message = await self._connection.request(subject, encode(request), timeout=_ANSWER_SECONDS)
            reply = _decode(message.data)
        except (LogError, msgspec.DecodeError):
            reply = _WAIT
        replies = [reply, *reply.more][: len(items)]
        replies += [_WAIT] * (len(items) - len(replies))
        for each in replies:
            self._metrics.count_claim(each.verdict)
        return replies
