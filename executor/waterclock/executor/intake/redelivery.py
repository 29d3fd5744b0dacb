"""Asks the owner of the partition whether a delivery that may not be the first may still run."""

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

    async def ask(self, item: WorkItem, delivered: int) -> ClaimReply:
        reply = await self._ask(item, delivered)
        self._metrics.count_claim(reply.verdict)
        return reply

    async def _ask(self, item: WorkItem, delivered: int) -> ClaimReply:
        """No answer means wait: the partition may be changing its owner."""
        request = ClaimRequest(
            run_id=item.run_id,
            attempt=item.attempt,
            queued=item.queued,
            executor_id=self._executor_id,
            delivered=delivered,
        )
        subject = names.claim_subject(names.partition_of(item.run_id, self._partitions))
        try:
            message = await self._connection.request(subject, encode(request), timeout=_ANSWER_SECONDS)
            return _decode(message.data)
        except (LogError, msgspec.DecodeError):
            return _WAIT
