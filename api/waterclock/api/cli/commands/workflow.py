"""`waterclock workflow`: define workflows, look at them and run them."""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from waterclock.api.cli import output
from waterclock.api.cli.commands.apply import DryRun, Files, MoreFiles, Prune, Set
from waterclock.api.cli.commands.apply import apply as apply_files
from waterclock.api.cli.declarations import read_declarations
from waterclock.api.cli.exits import Exit, WrongUsage
from waterclock.api.cli.graph import draw
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, Json, Limit, Version, Watch, WorkflowId
from waterclock.api.cli.output import note, print_json, table
from waterclock.api.cli.session import connected, with_job, with_run
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.api.client.messages import request_of
from waterclock.proto import commands, methods, queries
from waterclock.proto.answers import Page, WhatIf, Workflow, WorkflowAccepted, WorkflowRun
from waterclock.proto.verdicts import TERMINAL

workflow = typer.Typer(name="workflow", help="Graphs of jobs.", no_args_is_help=True, add_completion=False)

_PAUSE = 0.2

Wait = Annotated[bool, typer.Option("--wait", help="Follow the wave; exit with its result.")]


@workflow.command()
def apply(
    files: Files,
    more: MoreFiles = None,
    prune: Prune = False,
    dry_run: DryRun = False,
    name: Set = "default",
    json: Json = False,
    data: Data = None,
) -> int:
    """Create or update workflows declared in YAML or JSON."""
    return apply_files(files, more, prune, dry_run, name, json, data)


@workflow.command()
def create(files: Files, more: MoreFiles = None, json: Json = False, data: Data = None) -> None:
    """Define workflows from YAML or JSON; each is a new one unless its id is there already."""
    made: list[WorkflowAccepted] = []
    with connected(data) as wire:
        for _, fields in read_declarations([*files, *(more or ())]):
            request = request_of(methods.WORKFLOWS_CREATE, {"idempotency_key": None, **fields})
            made.append(wire.call(methods.WORKFLOWS_CREATE, request))
            output.warn(made[-1].warnings, made[-1].workflow_id)
    print_json({"items": made}) if json else print("\n".join(one.workflow_id for one in made))


@workflow.command()
def update(
    workflow_id: WorkflowId,
    file: Annotated[
        Path, typer.Option("-f", "--file", help="What to change, in YAML or JSON.", metavar="FILE")
    ],
    if_version: Version = None,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Change nothing: show which waves would come and go.")
    ] = False,
    json: Json = False,
    data: Data = None,
) -> None:
    """Change a workflow. What the file does not say stays."""
    declared = [fields for _, fields in read_declarations([file])]
    if len(declared) != 1:
        raise WrongUsage(f"{file}: expected one workflow, found {len(declared)}")
    edit = {name: value for name, value in declared[0].items() if name not in ("job_id", "workflow_id")}

    def changed(id: str) -> Workflow:
        patch = {**edit, "workflow_id": id, "if_match": if_version}
        return wire.call(methods.WORKFLOWS_UPDATE, request_of(methods.WORKFLOWS_UPDATE, patch))

    def tried(id: str) -> WhatIf:
        patch = {**edit, "workflow_id": id, "if_match": if_version}
        return wire.call(methods.WORKFLOWS_WHAT_IF, request_of(methods.WORKFLOWS_WHAT_IF, patch))

    with connected(data) as wire:
        if what_if:
            output.print_what_if(with_job(wire, workflow_id, tried), json=json)
            return
        found = with_job(wire, workflow_id, changed)
    output.warn(found.warnings)
    print_json(found) if json else print(f"{found.workflow_id} updated (version {found.version})")


@workflow.command("list")
def list_(limit: Limit = 50, json: Json = False, watch: Watch = False, data: Data = None) -> None:
    """List workflows."""
    query = queries.JobsQuery(limit=limit)
    with connected(data) as wire:
        _WORKFLOWS.show(lambda: wire.call(methods.WORKFLOWS_LIST, query), json=json, watch=watch)


def _workflow_table(workflows: Sequence[Workflow]) -> str:
    rows = [
        (
            one.workflow_id,
            one.name,
            one.status,
            str(len(one.nodes)),
            output.ago(one.next_run_at),
            f"{one.last_run.status} {output.ago(one.last_run.modified_time)}" if one.last_run else "",
        )
        for one in workflows
    ]
    heads = ("ID", "NAME", "STATUS", "NODES", "NEXT", "LAST WAVE")
    return table(heads, rows) if rows else "no workflows"


@workflow.command()
def show(
    what: Annotated[str, typer.Argument(metavar="WORKFLOW-or-WAVE", show_default=False)],
    json: Json = False,
    data: Data = None,
) -> None:
    """Draw a workflow's graph; of a wave, with the state of every node."""
    with connected(data) as wire:
        if "@" in what:
            wave = with_run(wire, what, lambda id: _wave(wire, id))
            print_json(wave) if json else _draw(wave)
            return
        found = with_job(
            wire, what, lambda id: wire.call(methods.WORKFLOWS_GET, queries.WorkflowRef(workflow_id=id))
        )
    if json:
        print_json(found)
        return
    edges = [(upstream, node.id) for node in found.nodes for upstream in node.depends_on]
    print(f"{found.workflow_id}  {found.status}  version {found.version}")
    print(draw([node.id for node in found.nodes], edges, {}))


@workflow.command()
def run(
    workflow_id: WorkflowId,
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter; may be repeated.", metavar="K=V")
    ] = None,
    wait: Wait = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Run a wave now."""
    parameters, key = _parameters(param), secrets.token_hex(10)
    with connected(data) as wire:
        accepted = with_job(
            wire,
            workflow_id,
            lambda id: wire.call(
                methods.WORKFLOWS_RUN_NOW,
                commands.RunWorkflow(workflow_id=id, parameters=parameters, idempotency_key=key),
            ),
        )
        if wait:
            return _follow(wire, accepted.workflow_run_id, json=json)
    print_json(accepted) if json else print(accepted.workflow_run_id)
    return 0


@workflow.command()
def runs(
    workflow_id: WorkflowId,
    limit: Limit = 20,
    json: Json = False,
    watch: Watch = False,
    data: Data = None,
) -> None:
    """List a workflow's waves, newest first."""

    def listed(id: str) -> Page[WorkflowRun]:
        return wire.call(methods.WORKFLOWS_RUNS, queries.WorkflowRunsQuery(workflow_id=id, limit=limit))

    with connected(data) as wire:
        _WAVES.show(lambda: with_job(wire, workflow_id, listed), json=json, watch=watch)


def _wave_table(waves: Sequence[WorkflowRun]) -> str:
    rows = [
        (
            wave.workflow_run_id,
            output.text(wave.epoch),
            wave.status,
            f"{sum(node.status in TERMINAL for node in wave.nodes)}/{len(wave.nodes)}",
            output.ago(wave.start_time),
            wave.reason or "",
        )
        for wave in waves
    ]
    heads = ("WAVE", "EPOCH", "STATUS", "NODES", "STARTED", "REASON")
    return table(heads, rows) if rows else "no waves yet"


_WORKFLOWS = Listing[Workflow](key=lambda one: one.workflow_id, text=_workflow_table)
_WAVES = Listing[WorkflowRun](key=lambda wave: wave.workflow_run_id, text=_wave_table)


@workflow.command()
def rerun(
    wave: Annotated[str, typer.Argument(metavar="WAVE", show_default=False)],
    node: Annotated[
        list[str] | None, typer.Option(help="From this node on; may be repeated.", metavar="ID")
    ] = None,
    wait: Wait = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Run a wave again from what failed, or from chosen nodes."""
    with connected(data) as wire:
        again = with_run(
            wire,
            wave,
            lambda id: wire.call(
                methods.WORKFLOW_RUNS_RERUN, commands.Rerun(workflow_run_id=id, nodes=tuple(node or ()))
            ),
        )
        if wait:
            return _follow(wire, again.workflow_run_id, json=json)
    print_json(again) if json else _draw(again)
    return 0


def _follow(wire: BlockingWire, wave_id: str, *, json: bool) -> int:
    """Says what changes until the wave has ended."""
    seen: dict[str, str] = {}
    while True:
        wave = _wave(wire, wave_id)
        for node in wave.nodes:
            if seen.get(node.id) != node.status and node.status not in ("WAITING", "QUEUED"):
                note(f"{node.id} {node.status}{': ' + node.reason if node.reason else ''}")
            seen[node.id] = node.status
        if wave.status in TERMINAL:
            break
        time.sleep(_PAUSE)
    print_json(wave) if json else _draw(wave)
    return Exit.DONE if wave.status == "SUCCESS" else Exit.FAILED


def _wave(wire: BlockingWire, wave_id: str) -> WorkflowRun:
    return wire.call(methods.WORKFLOW_RUNS_GET, queries.WorkflowRunRef(workflow_run_id=wave_id))


def _draw(wave: WorkflowRun) -> None:
    print(
        f"{wave.workflow_run_id}  epoch {wave.epoch}  {wave.status}{': ' + wave.reason if wave.reason else ''}"
    )
    print(draw([node.id for node in wave.nodes], wave.edges, {node.id: node.status for node in wave.nodes}))


def _parameters(pairs: list[str] | None) -> dict[str, Any]:
    """Values are JSON where they can be read as such, else text."""
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise WrongUsage(f"--param {pair}: expected key=value")
        try:
            found[name] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[name] = value
    return found
