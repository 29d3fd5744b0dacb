"""What an exception of a handler means."""

import traceback

from waterclock.executor.attempt import record
from waterclock.executor.directives import Cancel, Retry, Snooze
from waterclock.executor.perform.json_output import NotAnOutput

_TRACEBACK_LIMIT = 8 * 1024
_REASON_LIMIT = 500


def ending_of(error: Exception) -> record.Ending:
    match error:
        case Retry():
            return record.Failed(reason=str(error), error="Retry", after_seconds=error.after)
        case Snooze():
            return record.Snoozed(seconds=error.seconds, reason=str(error))
        case Cancel():
            return record.Cancelled(reason=str(error))
        case NotAnOutput():
            return record.Failed(reason=str(error), final=True)
        case _:
            return record.Failed(
                reason=f"{type(error).__name__}: {error}"[:_REASON_LIMIT],
                error=type(error).__name__,
                error_message="".join(traceback.format_exception(error))[-_TRACEBACK_LIMIT:],
            )
