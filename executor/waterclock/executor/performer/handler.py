"""Python handlers."""

import asyncio
import traceback
from collections.abc import Mapping
from typing import Any

from waterclock.executor import ending
from waterclock.executor.attempt import Attempt
from waterclock.executor.context import Context
from waterclock.executor.directives import Cancel, Retry, Snooze
from waterclock.executor.json_output import NotAnOutput, encoded
from waterclock.executor.output import OutputLog, Outputs
from waterclock.executor.running import Running, ended_by
from waterclock.executor.threads import Interrupted, Threads
from waterclock.executor.worker import Handled
from waterclock.proto.spec import Handler

_TRACEBACK_LIMIT = 8 * 1024


class HandlerPerformer:
    slow = False

    def __init__(self, handlers: Mapping[str, Handled], outputs: Outputs, threads: Threads) -> None:
        self._handlers = handlers
        self._outputs = outputs
        self._threads = threads

    async def perform(self, attempt: Attempt, running: Running) -> ending.Ending:
        task = attempt.item.spec.task
        assert isinstance(task, Handler)
        handled = self._handlers.get(task.handler)
        if handled is None:
            return ending.Failed(reason=f"no handler {task.handler} in this worker")
        log = self._outputs.open(attempt)
        context = _context(attempt, log)
        try:
            value = await self._call(handled, context, attempt.item.spec.payload, running)
            end: ending.Ending = ending.Succeeded(output=encoded(value))
        except asyncio.CancelledError:
            if running.cause is None:
                raise
            current = asyncio.current_task()
            assert current is not None
            current.uncancel()
            end = ended_by(running.cause)
        except Interrupted:
            assert running.cause is not None
            end = ended_by(running.cause)
        except Exception as error:
            end = _failure(error)
        return await log.kept(end) if log.size else end

    async def _call(self, handled: Handled, context: Context, payload: Any, running: Running) -> Any:
        if handled.run_in == "thread":
            return await self._threads.call(handled.function, context, payload, running=running)
        if handled.is_async:
            task = asyncio.current_task()
            assert task is not None
            with running.interrupted_by(lambda _: task.cancel()):
                return await handled.function(context, payload)
        return handled.function(context, payload)


def _context(attempt: Attempt, log: OutputLog) -> Context:
    item = attempt.item
    return Context(
        run_id=item.run_id,
        job_id=item.job_id,
        attempt=item.attempt,
        scheduled=item.scheduled,
        crash_count=attempt.crash_count,
        fencing_token=attempt.fencing_token,
        index=item.index,
        labels=item.spec.labels,
        metadata=item.spec.metadata,
        write=log.hear,
    )


def _failure(error: Exception) -> ending.Ending:
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
                reason=f"{type(error).__name__}: {error}"[:500],
                error=type(error).__name__,
                error_message="".join(traceback.format_exception(error))[-_TRACEBACK_LIMIT:],
            )
