"""May a delivery that is not the first still run? The owner of the partition knows."""

from typing import Literal

import msgspec
from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LogError
from waterclock.executor.metrics import Tally
from waterclock.proto import names
from waterclock.proto.codec import encode
from waterclock.proto.work import ClaimReply, ClaimRequest, WorkItem

_ANSWER_SECONDS = 2.0

_decode = msgspec.json.Decoder(ClaimReply).decode


class Verdict(Struct, frozen=True):
    kind: Literal["run", "drop", "wait"]
    crash_count: int = 0


_WAIT = Verdict("wait")


class Claims:
    def __init__(self, connection: Connection, tally: Tally, *, executor_id: str, partitions: int) -> None:
        self._connection = connection
        self._tally = tally
        self._executor_id = executor_id
        self._partitions = partitions

    async def ask(self, item: WorkItem, delivered: int) -> Verdict:
        verdict = await self._ask(item, delivered)
        self._tally.claimed(verdict.kind)
        return verdict

    async def _ask(self, item: WorkItem, delivered: int) -> Verdict:
        """No answer means wait: the owner may be changing."""
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
            reply = _decode(message.data)
        except (LogError, msgspec.DecodeError):
            return _WAIT
        match reply.verdict:
            case "run" | "drop" as kind:
                return Verdict(kind, reply.crash_count)
            case _:
                return _WAIT
