"""What others ask of a partition's owner, and what changes nothing: it is answered at once, beside the passes.

Every scheduler hears every question, and whoever owns the partition answers. If nobody does, nobody answers.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from nats.aio.msg import Msg

from waterclock.core.domain.partition.dependency_state import dependency_progress
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.jetstream.connection import Broadcast, Connection
from waterclock.proto import names
from waterclock.proto.codec import decoder, encode
from waterclock.proto.work import DependencyQuestion

_log = logging.getLogger(__name__)
_decode = decoder(DependencyQuestion)


@asynccontextmanager
async def answering_questions(
    connection: Connection, state_of: Callable[[int], PartitionState | None]
) -> AsyncIterator[None]:
    """While the scope lasts. `state_of`: of a partition that is ours, else None."""
    broadcast = Broadcast(connection)

    async def asked(message: Msg) -> None:
        try:
            partition = int(message.subject.rpartition(".")[2])
            question = _decode(message.data)
        except (ValueError, RecursionError):
            _log.warning("a question that is none", extra={"subject": message.subject})
            return
        state = state_of(partition)
        if state is not None and message.reply:
            answer = dependency_progress(state.dependencies, question.job_id, question.scheduled)
            broadcast(message.reply, encode(answer))

    subscription = await connection.nc.subscribe(names.waiting_subject(), cb=asked)
    try:
        yield
    finally:
        if connection.nc.is_connected:
            await subscription.unsubscribe()
