"""A stored definition as a declaration again: what `apply` makes the same definition of, with nothing left unsaid that
another default could change."""

from typing import Any

from waterclock.core.domain.job.edit import as_json, fields_of
from waterclock.core.domain.job.schedule import SCHEDULE_FIELDS
from waterclock.proto.spec import ALONGSIDE, RUNS, JobSpec, Workflow

_NOT_DECLARED = ("namespace", "idempotency_key")
"""Whose it is follows from who declares it, and the key is that of the request which made it."""


def declaration_of(job_id: str, spec: JobSpec) -> dict[str, Any]:
    """By the names of a request, in an order that reads well."""
    described = as_json(fields_of(spec))
    fields = {name: value for name, value in described.items() if name not in _NOT_DECLARED}
    if isinstance(spec.task, Workflow):
        fields["nodes"] = [{"id": node["id"], **_said_outright(node)} for node in fields["nodes"]]
        own = {"workflow_id": job_id}
    else:
        fields = _said_outright(fields)
        own = {"job_id": job_id}
    crons = fields.get("cron_expression")
    if crons is not None and len(crons) == 1:
        fields["cron_expression"] = crons[0]
    first = ("name", *SCHEDULE_FIELDS, *RUNS, *ALONGSIDE)
    ordered = {name: fields[name] for name in first if name in fields}
    nodes = {"nodes": fields.pop("nodes")} if "nodes" in fields else {}
    return {**own, **{name: _whole(name, value) for name, value in {**ordered, **fields}.items()}, **nodes}


def _said_outright(fields: dict[str, Any]) -> dict[str, Any]:
    """What an installation may have defaults of its own for; no timeout is said by 0."""
    said = {**fields, "max_retries": fields.get("max_retries", 0)}
    said["timeout_seconds"] = fields.get("timeout_seconds") or 0
    return {name: _whole(name, value) for name, value in said.items()}


def _whole(name: str, value: Any) -> Any:
    """A number of seconds that is a whole one is written as such."""
    is_whole = isinstance(value, float) and value.is_integer() and name != "payload"
    return int(value) if is_whole else value
