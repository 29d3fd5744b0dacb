"""Nothing is accepted into a log that has lost messages: an acknowledgement would be worth nothing."""

import logging

from waterclock.api.application import Application
from waterclock.api.readmodels import health
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.core.jetstream.log_identity import KnownStream, check_against_read_models

_log = logging.getLogger(__name__)


async def check(app: Application) -> None:
    """Compare the log with what Postgres remembers of it. With Postgres away it is taken on trust."""
    try:
        seen = await health.seen(app.pool)
    except ReadModelsAway as error:
        _log.info("the log is taken on trust", extra={"reason": str(error)})
        return
    known = [
        KnownStream(stream=stream, created=created, last_sequence=last) for stream, created, last in seen
    ]
    await check_against_read_models(app.connection, known)
