"""Declared jobs: whatever is there becomes what the declaration says, and a repeat changes nothing."""

import secrets
from typing import Any

import msgspec
from msgspec import UNSET

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.auth.namespaces import scoped
from waterclock.api.commands import dependencies, job_specs, jobs
from waterclock.api.commands.own_artifacts import check_artifacts
from waterclock.api.errors import Conflict, Invalid
from waterclock.api.eventlog.job_frames import NewJob
from waterclock.api.registry import handles
from waterclock.core.domain.job.aggregate import UpdateJob
from waterclock.core.domain.job.clear_secrets import clear_secrets
from waterclock.core.domain.job.edit import differences
from waterclock.core.domain.job.naming import id_of_name
from waterclock.core.jetstream.errors import Conflict as Taken
from waterclock.core.runtime.clock import now_us
from waterclock.proto import methods
from waterclock.proto.answers import Action, Applied
from waterclock.proto.commands import Apply
from waterclock.proto.spec import JobSpec


@handles(methods.JOBS_APPLY)
async def apply(app: Application, request: Apply, caller: Caller) -> Applied:
    body = msgspec.json.encode(_marked(request))
    now = now_us()
    spec = job_specs.define(body, now, app.settings, caller, await app.quotas.defaults())
    chosen = job_specs.chosen_id(body) or _named(request)
    if chosen is None:
        raise Invalid.field("job_id", "a declared job needs an id or a name, or it could not be found again")
    job_id = scoped(spec.namespace, chosen)
    beside = {scoped(spec.namespace, other) for other in request.beside} if request.dry_run else set()
    await dependencies.check(app, job_id, spec, beside)
    await check_artifacts(app, spec)
    warnings = clear_secrets(spec) or UNSET
    stored = await app.definitions.read(job_id)
    if stored is not None and stored.job.spec.namespace != spec.namespace:
        raise Conflict.field("job_id", f"there is a job {chosen} already")
    if stored is None:
        if request.dry_run:
            return Applied(job_id=job_id, action="created", version=None, warnings=warnings)
        await app.admission.admit_job(spec, caller.namespace)
        await app.quotas.take(spec.namespace)
        job = NewJob(spec=spec, at=now, job_id=job_id, actor=caller.actor, cause=secrets.token_hex(8))
        try:
            created = await app.job_writer.create(job)
            return Applied(job_id=job_id, action="created", version=created.version, warnings=warnings)
        except Taken:
            return await apply(app, request, caller)
    spec = msgspec.structs.replace(spec, idempotency_key=stored.job.spec.idempotency_key)
    revived = stored.job.status == "CANCELLED"
    if not revived and _unmarked(spec, request) == stored.job.spec:
        spec = stored.job.spec
    differing = tuple(differences(stored.job.spec, spec))
    action: Action = "created" if revived else "updated" if differing else "unchanged"
    if request.dry_run or action == "unchanged":
        return Applied(
            job_id=job_id, action=action, version=stored.version, differences=differing, warnings=warnings
        )
    if revived:
        await app.admission.admit_job(spec, caller.namespace)
        await app.quotas.take(spec.namespace)
    command = UpdateJob(spec=spec, revive=revived, actor=caller.actor, cause=secrets.token_hex(8))
    changed = await jobs.change(app, job_id, caller, lambda _: command, stored.version)
    return Applied(
        job_id=job_id, action=action, version=changed.version, differences=differing, warnings=warnings
    )


def _marked(request: Apply) -> dict[str, Any]:
    """The definition with the labels of those who declare it. What it says itself goes before that."""
    labels = request.definition.get("labels")
    if not request.mark or not isinstance(labels, dict | None):
        return request.definition
    return {**request.definition, "labels": {**request.mark, **(labels or {})}}


def _unmarked(spec: JobSpec, request: Apply) -> JobSpec:
    said = request.definition.get("labels") or {}
    return msgspec.structs.replace(
        spec, labels={name: value for name, value in spec.labels.items() if name in said}
    )


def _named(request: Apply) -> str | None:
    name = request.definition.get("name")
    return id_of_name(name) if isinstance(name, str) else None
