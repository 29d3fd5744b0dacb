"""Definitions read back from `JOBS` by version, for runs whose job is no longer in memory."""

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.reader import message_at
from waterclock.proto import names
from waterclock.proto.codec import decode_job_frame
from waterclock.proto.spec import JobSpec


async def read_definition(connection: Connection, job_id: str, version: int) -> JobSpec | None:
    """The definition a job had at a version, or None when the log no longer holds it."""
    stored = await message_at(connection, names.JOBS, version)
    if stored is None:
        return None
    for event in decode_job_frame(stored.data).events:
        if event.job_id == job_id:
            return event.spec
    return None
