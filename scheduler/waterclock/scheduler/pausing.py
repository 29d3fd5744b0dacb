"""Pausing a schedule after failures in a row: the owner edits the definition as a user would, by compare-and-set."""

import logging

from waterclock.core.domain.job.aggregate import PauseJob, Refused
from waterclock.core.jetstream.definitions import Definitions
from waterclock.core.jetstream.errors import Conflict

_log = logging.getLogger(__name__)


async def pause_job(definitions: Definitions, job_id: str, note: str) -> None:
    """Harmless when repeated. Somebody who edits at the same moment wins, and the next failure tries again."""
    found = await definitions.read(job_id)
    if found is None:
        return
    try:
        changed = await definitions.change(
            found, lambda _: PauseJob(actor="scheduler", note=note), only_version=found.version
        )
    except (Conflict, Refused) as error:
        _log.info("not paused: %s", error, extra={"job_id": job_id})
    else:
        if changed.version != found.version:
            _log.warning("paused a schedule", extra={"job_id": job_id, "note": note})
