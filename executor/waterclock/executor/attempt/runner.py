"""The pipeline of one attempt: start, perform, classify, report.

Resolving comes before it, in `intake.dispatcher`: what arrives here has a slot and may run.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.run.deadlines import has_start_deadline, missed_in_queue, too_late
from waterclock.core.runtime.clock import now_us
from waterclock.executor.attempt.keepalive import KeepAlive
from waterclock.executor.attempt.outcome import classify, rejected
from waterclock.executor.attempt.reporter import Reporter
from waterclock.executor.attempt_record import Attempt, Failed, Result
from waterclock.executor.in_flight import InFlight, RunningAttempt, StopCause, result_of_stop
from waterclock.executor.limits.concurrency import ConcurrencyLimits, Permit
from waterclock.executor.limits.exactly_once import RunLeases
from waterclock.executor.perform.performers import Performers
from waterclock.executor.secrets import AttemptSecrets, SecretResolver, needs_secrets
from waterclock.executor.warden.client import WardenLost
from waterclock.proto.spec import Handler, JobSpec

_log = logging.getLogger(__name__)


_LEAST_TIME_OUT = 1.0
"""Seconds. A longer one is watched for when the attempt has lasted for a moment; nearly all have ended by then."""


def is_plain(spec: JobSpec) -> bool:
    """Whether it needs nothing but to be performed: no deadline, lease, short time-out or secrets that it is given."""
    return (
        type(spec.task) is Handler
        and (spec.timeout_seconds is None or spec.timeout_seconds >= _LEAST_TIME_OUT)
        and spec.start_deadline_seconds is None
        and spec.delivery != "exactly_once"
        and not spec.secrets
    )


class Runner:
    def __init__(
        self,
        performers: Performers,
        *,
        executor_id: str,
        in_flight: InFlight,
        keepalive: KeepAlive,
        reporter: Reporter,
        secrets: SecretResolver,
        leases: RunLeases,
        concurrency: ConcurrencyLimits,
        stop_grace: float,
    ) -> None:
        """`stop_grace`: seconds between TERM and KILL."""
        self._performers = performers
        self._executor_id = executor_id
        self._in_flight = in_flight
        self._reporter = reporter
        self._ack = keepalive.ack
        self._secrets = secrets
        self._leases = leases
        self._concurrency = concurrency
        self._stop_grace = stop_grace
        reporter.on_lasting = self._watch_time_out

    def body(
        self,
        running: RunningAttempt,
        crash_count: int,
        permit: Permit | None,
        ended: Callable[[RunningAttempt], None],
    ) -> Coroutine[None, None, None]:
        """Of an attempt's task. Calls `ended` last, whatever happens: the slot is free again."""
        if permit is None and is_plain(running.item.spec):
            return self._run_plain(running, crash_count, ended)
        return self._run(running, crash_count, permit, ended)

    async def _run(
        self,
        running: RunningAttempt,
        crash_count: int,
        permit: Permit | None,
        ended: Callable[[RunningAttempt], None],
    ) -> None:
        try:
            spec = running.item.spec
            if spec.start_deadline_seconds is not None and not await self._begins_in_time(
                running, crash_count
            ):
                return
            if spec.delivery == "exactly_once":
                await self._run_under_lease(running, crash_count)
            else:
                logged = running.attempt
                attempt = self._start(running, crash_count) if logged is None else logged
                result = await self._perform(attempt, running)
                self._reporter.report_outcome(running, classify(attempt, result, now_us()), self._ack)
        except Exception as error:
            self._drop(running, error)
        finally:
            try:
                if permit is not None:
                    await self._concurrency.release(permit)
            finally:
                ended(running)

    async def _run_plain(
        self, running: RunningAttempt, crash_count: int, ended: Callable[[RunningAttempt], None]
    ) -> None:
        """The same for one that `is_plain`: there is nothing to wait for but the performer."""
        try:
            attempt = self._start(running, crash_count)
            result = self._result_without_performing(running)
            if result is None:
                running.is_plain = True
                self._reporter.report_start(running)
                try:
                    result = await self._performers[type(running.item.spec.task)].perform(attempt, running)
                    if running.secrets is not None:
                        result = running.secrets.masked(result)
                except Exception as error:
                    result = self._result_of_broken(running, error)
            self._reporter.report_outcome(running, classify(attempt, result, now_us()), self._ack)
        except Exception as error:
            self._drop(running, error)
        finally:
            if running.time_out is not None:
                running.time_out.cancel()
            ended(running)

    def _watch_time_out(self, running: RunningAttempt) -> None:
        """An attempt that is plain has lasted for a moment."""
        seconds, attempt = running.item.spec.timeout_seconds, running.attempt
        if running.is_plain and seconds is not None and attempt is not None:
            left = seconds - (now_us() - attempt.started) / SECOND
            loop = asyncio.get_running_loop()
            running.time_out = loop.call_later(max(0.0, left), self._time_out, running, seconds)

    def _drop(self, running: RunningAttempt, error: Exception) -> None:
        """Its outcome is not known, so none is reported: it comes back to some executor, which asks the owner."""
        self._in_flight.drop(running)
        if not isinstance(error, WardenLost):
            _log.error("an attempt was dropped", extra={"run_id": running.item.run_id}, exc_info=error)

    def finish_unperformed(self, running: RunningAttempt, crash_count: int, result: Result) -> None:
        """Report an attempt that ended before it got to be performed."""
        attempt = self._start(running, crash_count)
        self._reporter.report_outcome(running, classify(attempt, result, now_us()), self._ack)

    async def _begins_in_time(self, running: RunningAttempt, crash_count: int) -> bool:
        """Whether it may begin. Its owner ends it if the log says nothing of a start a little after the deadline, so
        that it starts is in the log before it does."""
        claim = running.claim
        if not has_start_deadline(running.item, crash_count) or (claim is not None and claim.has_started):
            return True
        if claim is not None and too_late(running.item.spec, running.item.due, now_us()):
            self._in_flight.drop(running)  # somebody may have begun it in time: its owner knows, or will
            return False
        if self._missed_its_start(running, crash_count):
            return False
        self._start(running, crash_count)
        await self._reporter.record_start(running)
        return not self._missed_its_start(running, crash_count)

    def _missed_its_start(self, running: RunningAttempt, crash_count: int) -> bool:
        """Whether its start deadline has passed. If so, that is reported and it is over."""
        missed = missed_in_queue(running.item, crash_count, now_us(), self._executor_id)
        if missed is None or running.stop_cause is not None:
            return False
        self._reporter.report_outcome(running, missed, self._ack)
        return True

    async def _run_under_lease(self, running: RunningAttempt, crash_count: int) -> None:
        """As any other attempt, but under a lease, and its outcome counts only if the lease is still held."""
        lease = await self._leases.acquire(running.item, running)
        if lease is None:
            assert running.stop_cause is not None
            self.finish_unperformed(running, crash_count, result_of_stop(running.stop_cause))
            return
        attempt = self._start(running, crash_count, lease.token)
        renewal = asyncio.get_running_loop().create_task(lease.keep_renewed(running))
        try:
            result = await self._perform(attempt, running)
        finally:
            renewal.cancel()
            await asyncio.wait([renewal])
        other_token = await lease.confirm()
        outcome = classify(attempt, result, now_us())
        if other_token is None:
            self._reporter.report_outcome(running, outcome, self._ack)
            await lease.release()
        else:
            self._reporter.report_outcome(running, rejected(attempt, outcome, other_token), ack=None)

    def _start(self, running: RunningAttempt, crash_count: int, token: int | None = None) -> Attempt:
        attempt = running.attempt = Attempt(
            item=running.item,
            executor_id=self._executor_id,
            started=now_us(),
            crash_count=crash_count,
            fencing_token=token,
        )
        return attempt

    def _result_without_performing(self, running: RunningAttempt) -> Result | None:
        """None: it can be performed."""
        if running.stop_cause is not None:
            return result_of_stop(running.stop_cause)
        kind = type(running.item.spec.task)
        if kind not in self._performers:
            return Failed(reason=f"this executor cannot run a {kind.__name__}", final=True)
        return None

    async def _perform(self, attempt: Attempt, running: RunningAttempt) -> Result:
        if (early := self._result_without_performing(running)) is not None:
            return early
        self._reporter.report_start(running)
        spec = running.item.spec
        timeout = None
        if spec.timeout_seconds is not None:
            timeout = asyncio.get_running_loop().call_later(
                spec.timeout_seconds, self._time_out, running, spec.timeout_seconds
            )
        try:
            secrets = await self._secrets.resolve(spec) if needs_secrets(spec) else None
            if secrets is not None and not isinstance(secrets, AttemptSecrets):
                return secrets
            running.secrets = secrets
            result = await self._performers[type(spec.task)].perform(attempt, running)
            return result if running.secrets is None else running.secrets.masked(result)
        except Exception as error:
            return self._result_of_broken(running, error)
        finally:
            if timeout is not None:
                timeout.cancel()

    def _result_of_broken(self, running: RunningAttempt, error: Exception) -> Result:
        """Of an attempt whose performer failed, which should not be."""
        if isinstance(error, WardenLost):
            raise error  # the outcome is not known; the executor goes down, and others get its work
        reason = f"the executor could not run it: {type(error).__name__}: {error}"
        about = {"run_id": running.item.run_id}
        if running.secrets is None:
            _log.error("an attempt broke the executor", extra=about, exc_info=error)
            return Failed(reason=reason)
        reason = running.secret_values.mask(reason)
        _log.error("an attempt broke the executor", extra={**about, "reason": reason})
        return Failed(reason=reason)

    def _time_out(self, running: RunningAttempt, seconds: float) -> None:
        reason = f"timed out after {seconds:g} s"
        running.stop(StopCause(kind="timed_out", reason=reason, grace=self._stop_grace))
