"""Pausing a schedule after failures in a row: the owner edits the definition as a user would, by compare-and-set."""

import logging

from waterclock.core.domain.job import PauseJob, Refused, decide, evolve
from waterclock.core.jetstream.errors import Conflict
from waterclock.core.jetstream.publisher import Expect
from waterclock.core.jetstream.reader import last_message
from waterclock.proto import names
from waterclock.proto.codec import decode_job_frame, encode
from waterclock.proto.events import JobFrame
from waterclock.scheduler.ports import Ports

_log = logging.getLogger(__name__)


async def pause_job(ports: Ports, partition: int, job_id: str, note: str) -> None:
    """Harmless when repeated. Somebody who edits at the same moment wins, and the next failure tries again."""
    subject = names.job_subject(partition, job_id)
    stored = await last_message(ports.connection, names.JOBS, subject)
    if stored is None:
        return
    event = decode_job_frame(stored.data).events[-1]
    try:
        events = decide(evolve(None, event), PauseJob(actor="scheduler", note=note), ports.clock.now_us())
        if events:
            await ports.publisher.publish(
                subject,
                encode(JobFrame(events=events)),
                expect=Expect(last_subject_sequence=stored.sequence),
            )
            _log.warning("paused a schedule", extra={"job_id": job_id, "note": note})
    except (Conflict, Refused) as error:
        _log.info("not paused: %s", error, extra={"job_id": job_id})
