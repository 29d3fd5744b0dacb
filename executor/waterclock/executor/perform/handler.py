"""Python handlers."""

import asyncio
from collections.abc import Callable, Mapping

from waterclock.executor.attempt import record
from waterclock.executor.attempt.in_hand import Cause, Running, ended_by
from waterclock.executor.attempt.record import Attempt
from waterclock.executor.context import Context, Word
from waterclock.executor.logs.output import OutputLog, Outputs
from waterclock.executor.perform.failures import ending_of
from waterclock.executor.perform.handler_processes import Crew
from waterclock.executor.perform.json_output import encoded
from waterclock.executor.perform.threads import Interrupted, Threads
from waterclock.executor.worker import Handled
from waterclock.proto.heartbeats import Progress
from waterclock.proto.spec import Handler

_NO_OUTPUT = record.Succeeded()


class HandlerPerformer:
    def __init__(
        self, handlers: Mapping[str, Handled], outputs: Outputs, threads: Threads, crew: Crew
    ) -> None:
        self._handlers = handlers
        self._outputs = outputs
        self._threads = threads
        self._crew = crew

    async def perform(self, attempt: Attempt, running: Running) -> record.Ending:
        task = attempt.item.spec.task
        assert isinstance(task, Handler)
        handled = self._handlers.get(task.handler)
        if handled is None:
            return record.Failed(reason=f"this worker has no handler {task.handler}")
        voice = _Voice(self._outputs, attempt, running)
        context = Context(attempt, voice.tell_from_thread if handled.run_in == "thread" else voice.tell)
        payload = attempt.item.spec.payload
        try:
            if handled.is_async:
                running.interruptible(_cancelling(running))
                value = await handled.function(context, payload)
            elif handled.run_in == "thread":
                value = await self._threads.call(handled.function, context, payload, running=running)
            elif handled.run_in == "process":
                return await voice.finished(
                    await self._crew.call(handled.function, attempt, voice.tell, running)
                )
            else:
                value = handled.function(context, payload)
            end: record.Ending = _NO_OUTPUT if value is None else record.Succeeded(output=encoded(value))
        except (asyncio.CancelledError, Interrupted):
            end = _stopped(running)
        except Exception as error:
            end = ending_of(error)
        finally:
            running.uninterruptible()
        return end if voice.log is None else await voice.finished(end)


class _Voice:
    """Hears a handler. The log exists from its first line on: most handlers say nothing."""

    __slots__ = ("_attempt", "_outputs", "_running", "log")

    def __init__(self, outputs: Outputs, attempt: Attempt, running: Running) -> None:
        self._outputs = outputs
        self._attempt = attempt
        self._running = running
        self.log: OutputLog | None = None

    def tell(self, word: Word) -> None:
        if isinstance(word, Progress):
            self._running.progress = word
            return
        if self.log is None:
            self.log = self._outputs.open(self._attempt)
        self.log.hear(word)

    async def finished(self, end: record.Ending) -> record.Ending:
        if self.log is None:
            return end
        self.log.finish()
        return await self.log.kept(end)

    def tell_from_thread(self, word: Word) -> None:
        assert self._running.task is not None
        self._running.task.get_loop().call_soon_threadsafe(self.tell, word)


def _cancelling(running: Running) -> Callable[[Cause], object]:
    task = running.task
    assert task is not None
    return lambda _: task.cancel()


def _stopped(running: Running) -> record.Ending:
    """By us, with a cause; or by whoever cancels the executor itself."""
    if running.cause is None:
        raise asyncio.CancelledError
    assert running.task is not None
    running.task.uncancel()
    return ended_by(running.cause)
