"""What a field means, in a sentence: for the OpenAPI and AsyncAPI documents, where every property has one.

A field says it itself, by `about(...)` or a docstring below it. What many structs have in common is said once here, by
name; what a definition stores and shows is said where a request says it, in `JobRequest`.
"""

import ast
import inspect
import sys
from functools import cache
from typing import Any

import msgspec
from msgspec import Meta, Struct

from waterclock.proto.policies import CatchUpRequest, LimitsRequest, RetentionRequest, RetryRequest
from waterclock.proto.spec import FanOutRequest, HttpRequest, JobRequest, NodeRequest, PreviewRequest

COMMON = {
    "action": "What was done.",
    "actor": "Who did it.",
    "attempt": "Which attempt, counted from 1.",
    "attempt_number": "Which attempt it is, counted from 1; 0 before the first.",
    "backfill_id": "The backfill's id.",
    "concurrency_key": "Runs with the same key share `concurrency_limit`.",
    "cpu_seconds": "CPU time, in seconds.",
    "crash_count": "How many executors died with it.",
    "created": "Whether it was made by this request.",
    "created_at": "When it was made.",
    "cursor": "Where a page begins: `next_cursor` of the one before.",
    "definition": "A job or a workflow, as a creation takes it.",
    "default_max_retries": "The attempts after the first of definitions that do not say.",
    "default_timeout_seconds": "How long an attempt may take of definitions that do not say; null for any time.",
    "detail": "What happened, in words.",
    "differences": "The fields in which it differs from what is stored.",
    "digest": "The artifact's digest: `sha256:` and 64 hexadecimal digits.",
    "dry_run": "Only say what would be done.",
    "due": "What is due and has no room yet.",
    "due_time": "When it was due: the scheduled time and its jitter.",
    "end": "When it ended.",
    "end_time": "When it ended; null while it has not.",
    "epoch": "Which run of the workflow it is, counted from 1; null for a run that belongs to none.",
    "error_message": "The end of what it printed, or the error that it raised.",
    "errors": "What is wrong, field by field.",
    "executor_id": "The executor that had it last.",
    "exit_code": "The exit code of its process; 128 and the signal's number where a signal ended it.",
    "expires_at": "When it ceases to be valid; null for never.",
    "failed": "How many of them failed.",
    "fencing_token": "Grows with every attempt of an exactly-once job; hand it to what must not be written twice.",
    "field": "The field's path, as in `retry.factor`; empty for the whole.",
    "filter": "Which ones.",
    "fires": "The times at which it fires.",
    "handler": "The handler's name; null for work that any executor of the queue takes.",
    "host": "The machine.",
    "id": "Its id.",
    "idempotency_key": "A repeat with the same key has the same result.",
    "if_match": "The version that the change is meant for; null: whatever there is.",
    "items": "What was found, a page of it.",
    "job_id": "The job's id.",
    "kind": "What kind it is.",
    "label": "A label as `key=value` or `key`; all that are given must hold.",
    "last_run": "The latest run; null before the first.",
    "latest_run": "The latest run; null before the first.",
    "limit": "At most so many.",
    "local": "The same instant on the schedule's wall clock, with its offset.",
    "log_url": "Where its output is.",
    "map": "Expand the node into one member per item.",
    "max_active": "How many of its runs may be under way at a time.",
    "memory_bytes": "Memory, in bytes.",
    "modified_time": "When something was last heard of it.",
    "name": "Its name.",
    "namespace": "The namespace it belongs to.",
    "next_cursor": "Where the next page begins; null on the last one.",
    "next_run_at": "When it fires next; null if it will not, or if no clock decides it.",
    "node": "The node's id.",
    "nodes": "The nodes.",
    "note": "Why, as far as somebody said.",
    "output": "What it returned, or the last line that it printed if that is JSON.",
    "owner": "The scheduler that owns it; null while nobody does.",
    "parameters": "What templates find as `parameters`.",
    "partition": "The partition's number.",
    "position": "Where in the log it stands.",
    "priority": "Higher goes first.",
    "q": "Text to look for.",
    "queue": "The queue.",
    "queued_time": "When it was handed to the executors.",
    "reason": "Why it is so, in words.",
    "refused": "What could not be done, and why.",
    "retry_after": "Seconds after which the same request may succeed.",
    "run_id": "The run's id.",
    "running": "How many are under way.",
    "schedule_type": "What kind of schedule it has.",
    "scheduled_time": "The time it was scheduled for.",
    "scopes": "What it may do: read, submit, operate, admin.",
    "size": "In bytes.",
    "sort": "The order; `-` for the other way round.",
    "start": "When it began.",
    "start_time": "When its latest attempt began; null before the first.",
    "status": "Its state.",
    "stay_seconds": "Leave after so many seconds; null: when there is nothing more to come.",
    "task": "What runs.",
    "tier": "How heavy the work is.",
    "time": "The instant, in UTC.",
    "title": "The kind of problem.",
    "token_id": "The token's id, which is not secret.",
    "total": "How many there are in all.",
    "type": "The kind.",
    "updated_at": "When it was last changed.",
    "version": "The version; every change makes another one, and it is what `If-Match` goes by.",
    "waiting": "How many wait to be taken.",
    "warnings": "What is accepted and may not be what was meant.",
    "workflow_id": "The workflow's id.",
    "workflow_run_id": "The workflow run's id; null for a run that belongs to none.",
}
OWN = {
    "AccessQuery.after": "At or after this instant.",
    "AccessQuery.before": "Before this instant.",
    "AccessRecord.at": "When it happened.",
    "Audit.clean": "Nothing was found.",
    "Audit.expected": "How many due times the schedules name.",
    "Audit.faults": "How many things were found wrong.",
    "Audit.jobs": "How many jobs were judged.",
    "Audit.read": "How much of the log was read, from 0 to 1.",
    "Audit.under_way": "How many runs have not ended.",
    "Audit.end": "The end of the range that was judged.",
    "AuditQuery.start": "Judge due times from here on.",
    "AuditQuery.end": "Judge due times before this.",
    "Backfill.active": "How many of its runs are under way.",
    "Backfill.done": "How many of its runs have ended.",
    "Backfill.start": "The first time of the range.",
    "Backfill.end": "The end of the range, not included.",
    "Backfill.total": "How many fires the range has.",
    "BackfillRequest.start": "The first time of the range.",
    "BackfillRequest.end": "The end of the range, not included.",
    "BackfillRequest.reprocess": "Which fires run again that ran before.",
    "BackfillRequest.order": "Oldest or newest first.",
    "BatchResult.line": "The place of the definition among those sent, from 0.",
    "BatchResult.status": "The job's state; or the status of the refusal, as a number.",
    "Change.at": "When it happened.",
    "Check.name": "What was looked at.",
    "Check.ok": "Whether it is as it should be.",
    "DeadLetter.dead_time": "When the last attempt was given up.",
    "DeadLetterFilter.after": "Given up at or after this instant.",
    "DeadLetterFilter.before": "Given up before this instant.",
    "DeadLettersQuery.before": "Given up before this instant.",
    "DecidedBy.defined_at": "When that version was made.",
    "DecidedBy.policy": "The rule that decided it.",
    "Delay.end": "When the stretch ended.",
    "Delay.seconds": "How long it was.",
    "Delay.share": "Its share of the whole, from 0 to 1.",
    "Delay.start": "When the stretch began.",
    "Delay.what": "In words.",
    "Diagnosis.findings": "What was looked at, and what was found.",
    "Diagnostic.check": "What was looked at.",
    "Diagnostic.verdict": "Whether it is well.",
    "Difference.given": "What this request says.",
    "Difference.stored": "What is stored.",
    "Executor.busy": "How many of its slots are taken.",
    "Executor.handlers": "The handlers that it serves.",
    "Executor.pid": "Its process.",
    "Executor.queues": "The queues that it takes work from.",
    "Executor.seen_at": "When it was last heard of.",
    "Executor.slots": "How many attempts it runs at once.",
    "Executor.started_at": "When it was started.",
    "Executor.tier": "The heaviest work that it takes.",
    "FieldError.reason": "What is wrong with it.",
    "Finding.explanation": "What is wrong, in words.",
    "Finding.fault": "The kind of fault.",
    "Fires.fires": "The next fires, in order.",
    "Health.status": "Whether it is well.",
    "IdQuery.prefix": "How the ids begin.",
    "Ids.ids": "Ids that begin so; at most three.",
    "JobAccepted.status": "The job's state.",
    "JobBatch.jobs": "The definitions.",
    "JobsQuery.created_after": "Made at or after this instant.",
    "JobsQuery.created_before": "Made before this instant.",
    "JobsQuery.name": "Of this name.",
    "JobsQuery.queue": "In this queue.",
    "LogChunk.text": "The text of the piece.",
    "LogQuery.follow": "Go on until the run has ended.",
    "LogQuery.offset": "Begin at this byte.",
    "MapProgress.done": "How many members have ended.",
    "MapProgress.total": "How many members there are; null while nobody knows.",
    "MarkNode.status": "What the node shall count as.",
    "Namespace.max_jobs": "How many jobs it may have; null for any number.",
    "NextQuery.n": "How many fires.",
    "NextQuery.start": "The first instant that may fire; now if not said.",
    "NodeRun.map": "How far its members are.",
    "Part.number": "Which part it is.",
    "Partition.active_runs": "How many of its runs have not ended.",
    "Partition.lag_seconds": "How far the owner is behind.",
    "PreviewRequest.n": "How many fires.",
    "Problem.status": "The HTTP status.",
    "Problem.type": "A URI for the kind of problem.",
    "Queue.redelivered": "How many were handed out more than once.",
    "QuotaRequest.max_jobs": "How many jobs it may have; null for any number.",
    "Redrive.after": "Given up at or after this instant.",
    "Redrive.before": "Given up before this instant.",
    "Redrive.all": "All that match the filter.",
    "Redrive.run_ids": "These runs.",
    "Redriven.run_ids": "The runs that will be tried again.",
    "RunsQuery.before": "Runs scheduled before this instant.",
    "SecretRef.secret": "The secret's name.",
    "Step.at": "When.",
    "Step.what": "What happened.",
    "SystemStatus.checks": "What was looked at.",
    "SystemStatus.load": "Whether more is offered than is done.",
    "SystemStatus.ok": "All checks are well.",
    "Load.since": "Since when; null while it is not so.",
    "TokenRequest.expires_in_seconds": "How long it is valid; null for ever.",
    "Token.rate_per_second": "Requests a second that it may make; null for the setting's.",
    "TokenRequest.rate_per_second": "Requests a second that it may make; null for the setting's.",
    "Upload.data": "The bytes, in base64.",
    "UploadEnd.parts": "The parts, in order.",
    "UploadEnd.upload_id": "The upload's id.",
    "UploadPart.data": "The bytes, in base64.",
    "UploadPart.number": "Which part it is.",
    "WatchQuery.job": "Of this job and its runs.",
    "WatchQuery.run": "Of this run.",
    "WatchQuery.type": "Of these types.",
    "Why.executors": "The executors that had it.",
    "Why.next_fire": "The fire after it.",
    "Why.run_id": "The run that is explained, if there is one.",
    "Why.steps": "What happened, in order.",
    "Why.subject": "What was asked about.",
    "WhyQuery.at": "The moment to explain.",
    "Workflow.payload": "JSON handed to its nodes.",
    "WorkflowRun.edges": "Pairs of node ids: the second waits for the first.",
}
"""`Struct.field` where the name alone says too little or something else."""


def doc_of(struct: type[Struct], name: str) -> str:
    """The sentence for a field; empty if there is none."""
    for found in (
        OWN.get(f"{struct.__name__}.{name}", ""),
        _about(struct, name),
        _docstring(struct, name),
        COMMON.get(name, "") if not _of_a_definition(struct) else "",
        _as_requested(struct, name),
        COMMON.get(name, ""),
    ):
        if found:
            return " ".join(found.split())
    return ""


def _about(struct: type[Struct], name: str) -> str:
    field = next(field for field in msgspec.structs.fields(struct) if field.name == name)
    metas = getattr(field.type, "__metadata__", ())
    return next((meta.description for meta in metas if isinstance(meta, Meta) and meta.description), "")


def _docstring(struct: type[Struct], name: str) -> str:
    bases = getattr(struct, "__origin__", struct).__mro__
    return next((text for base in bases if (text := _docstrings(base).get(name, ""))), "")


@cache
def _docstrings(struct: type[Any]) -> dict[str, str]:
    """The strings that stand below the fields of a class, which Python itself does not keep."""
    if not struct.__module__.startswith("waterclock.") or struct.__module__ not in sys.modules:
        return {}
    return _of_module(struct.__module__).get(struct.__name__, {})


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[name])).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {
                field.target.id: text.value.value
                for field, text in zip(node.body, node.body[1:], strict=False)
                if isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            }
    return found


_REQUESTS: tuple[type[Struct], ...] = (
    JobRequest,
    NodeRequest,
    HttpRequest,
    RetryRequest,
    CatchUpRequest,
    RetentionRequest,
    LimitsRequest,
    FanOutRequest,
)


def _of_a_definition(struct: type[Struct]) -> bool:
    """Its fields are those of a definition: they mean what the request says."""
    return struct.__module__ in ("waterclock.proto.spec", "waterclock.proto.policies") or struct.__name__ in (
        "Job",
        "Workflow",
        "RetryPolicy",
    )


def _as_requested(struct: type[Struct], name: str) -> str:
    stem = struct.__name__.removesuffix("Policy").removesuffix("Patch")
    own = [kind for kind in _REQUESTS if kind.__name__.removesuffix("Request") == stem]
    kinds: list[type[Struct]] = [*own, JobRequest, NodeRequest, PreviewRequest]
    for kind in kinds:
        if name in kind.__struct_fields__ and (text := _about(kind, name) or _docstring(kind, name)):
            return text
    return ""
