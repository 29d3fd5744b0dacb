"""How events of runs that have parts change their rows: waves of workflows, their nodes, fan-outs and members."""

from waterclock.core.domain.readmodel.rows import RunRow, clean, json_value
from waterclock.proto.events import (
    NodeCleared,
    NodeMarked,
    RerunRequested,
    RunClosed,
    RunOpened,
    RunProgressed,
)
from waterclock.proto.names import job_of, part_path

PartsEvent = RunOpened | RunProgressed | RunClosed | RerunRequested | NodeCleared | NodeMarked


def job_in_rows(run_id: str, trigger: str) -> str:
    """Under which job a run is listed: a node's runs and a fan-out's members are not among those of the whole."""
    path = part_path(run_id)
    if path and trigger == "fan_out":
        path[-1] = "member"
    return "~".join((job_of(run_id), *path))


def write(row: RunRow, event: PartsEvent) -> None:
    match event:
        case RunOpened():
            row.reason = row.end_time = row.output = None
            row.start_time, row.attempt_number = event.at, event.attempt
            row.version, row.due_time, row.epoch = event.version, event.due, event.epoch
            if event.parameters is not None:
                row.parameters = json_value(event.parameters)
            if event.total is not None:
                row.output = json_value({"total": event.total, "done": 0, "failed": 0})
        case RunProgressed():
            row.output = json_value({"total": event.total, "done": event.done, "failed": event.failed})
        case RunClosed():
            row.end_time, row.reason = event.at, clean(event.reason)
            row.output = None if event.output is None else json_value(event.output)
        case RerunRequested():
            row.reason = clean(event.note) or f"re-run requested by {clean(event.actor) or 'somebody'}"
            row.end_time = row.output = None
        case NodeCleared():
            row.reason = clean(event.reason)
            row.executor_id = row.start_time = row.end_time = row.exit_code = row.error_message = None
            row.output = row.log_url = row.fencing_token = None
        case NodeMarked():
            marked = f"marked as {'succeeded' if event.succeeded else 'skipped'}"
            who = f" by {clean(event.actor)}" if event.actor else ""
            row.reason = f"{marked}{who}: {clean(event.note)}" if event.note else marked + who
            row.end_time = event.at
            row.output = None if event.output is None else json_value(event.output)
