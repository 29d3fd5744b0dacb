"""What an exception of a handler means."""

import traceback

from waterclock.executor.attempt import ending
from waterclock.executor.directives import Cancel, Retry, Snooze
from waterclock.executor.perform.json_output import NotAnOutput

_TRACEBACK_LIMIT = 8 * 1024
_REASON_LIMIT = 500


def ending_of(error: Exception) -> ending.Ending:
    match error:
        case Retry():
            return ending.Failed(reason=str(error), error="Retry", after_seconds=error.after)
        case Snooze():
            return ending.Snoozed(seconds=error.seconds, reason=str(error))
        case Cancel():
            return ending.Cancelled(reason=str(error))
        case NotAnOutput():
            return ending.Failed(reason=str(error), final=True)
        case _:
            return ending.Failed(
                reason=f"{type(error).__name__}: {error}"[:_REASON_LIMIT],
                error=type(error).__name__,
                error_message="".join(traceback.format_exception(error))[-_TRACEBACK_LIMIT:],
            )
