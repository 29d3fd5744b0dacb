"""What the log does not tell of what waits now: whether an executor could take it, and which of the jobs that it waits
for have completed."""

from datetime import datetime

from msgspec import Struct

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import unscoped
from waterclock.api.queries import fleet
from waterclock.api.readmodels import jobs
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.core.domain import ids
from waterclock.core.domain.explain import wording
from waterclock.core.domain.explain.explanation import Explanation
from waterclock.core.domain.instants import datetime_of, instant_of
from waterclock.core.domain.unserved_work import missing_executor
from waterclock.core.jetstream.errors import LogError
from waterclock.proto import names
from waterclock.proto.answers import Dependency
from waterclock.proto.codec import Undecodable, decoder, encode
from waterclock.proto.work import DependencyQuestion, DependencyReply

_ASK_SECONDS = 1.0
_NAMED = 10

_decode = decoder(DependencyReply)


class Circumstances(Struct, frozen=True, kw_only=True):
    waits_for: list[Dependency] = []
    missing: str | None = None
    text: str = ""
    """The same in words, to be added to an answer."""


async def circumstances(app: Application, found: Explanation, job_id: str, caller: Caller) -> Circumstances:
    """Of what waits now; nothing of what does not."""
    if found.waits_for_dependencies:
        run_id = found.run_id
        scheduled = None if run_id is None else ids.scheduled_of(run_id)
        return await _dependencies(app, job_id, scheduled, caller)
    line = found.waits_in
    if line is None:
        return Circumstances()
    missing = missing_executor(line.queue, line.handler, line.tier, await fleet.heartbeats(app.control))
    return Circumstances(missing=missing, text="" if missing is None else f"; {missing}")


async def _dependencies(
    app: Application, job_id: str, scheduled: int | None, caller: Caller
) -> Circumstances:
    known = await _ask_owner(app, job_id, scheduled)
    if known is None:
        return Circumstances(text="; its owner does not answer: which of them have, is not known now")
    waits_for = [
        Dependency(
            job_id=other,
            completed=True,
            run_id=done.run_id,
            at=None if done.at is None else datetime_of(done.at),
        )
        if (done := known.completed.get(other)) is not None
        else await _not_completed(app, other, caller)
        for other in known.waits_for
    ]
    words = [_in_words(each, caller.namespace) for each in waits_for]
    more = f"; and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return Circumstances(waits_for=waits_for, text="".join(f"; {text}" for text in words[:_NAMED]) + more)


async def _ask_owner(app: Application, job_id: str, scheduled: int | None) -> DependencyReply | None:
    question = encode(DependencyQuestion(job_id=job_id, scheduled=scheduled))
    subject = names.waiting_subject(app.partition_of(job_id))
    try:
        return _decode((await app.connection.request(subject, question, timeout=_ASK_SECONDS)).data)
    except (LogError, Undecodable):
        return None


async def _not_completed(app: Application, job_id: str, caller: Caller) -> Dependency:
    """With what became of it last, as far as the read models know."""
    try:
        row = await jobs.one(app.pool, caller.namespace, job_id)
    except ReadModelsAway:
        row = None
    if row is None:
        return Dependency(job_id=job_id, completed=False)
    if row.status in ("PAUSED", "CANCELLED"):
        return Dependency(job_id=job_id, completed=False, status=row.status)
    if row.last_run is None:
        return Dependency(job_id=job_id, completed=False)
    return Dependency(job_id=job_id, completed=False, run_id=row.last_run.run_id, status=row.last_run.status)


def _in_words(dependency: Dependency, namespace: str) -> str:
    name = unscoped(namespace, dependency.job_id)
    run = "" if dependency.run_id is None else unscoped(namespace, dependency.run_id)
    if dependency.completed:
        return f"{name} is done ({run}{_at(dependency.at)})"
    if run:
        return f"{name} is missing (its newest run {run} is {dependency.status})"
    if dependency.status is not None:
        return f"{name} is missing (the job is {dependency.status})"
    return f"{name} is missing"


def _at(time: datetime | None) -> str:
    return "" if time is None else f", {wording.moment(instant_of(time))}"
