"""Commands that take files of definitions: apply makes jobs and workflows be as declared, import does so with crontabs,
batch defines many jobs at once.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import UNSET

from waterclock.api.cli.crontab import Reading, local_zone, read_crontabs, this_user
from waterclock.api.cli.crontab import Refused as RefusedLine
from waterclock.api.cli.declarations import Declaration, read_declarations, read_lines
from waterclock.api.cli.exits import Exit, WrongUsage
from waterclock.api.cli.options import Data, Json
from waterclock.api.cli.output import note, print_json, progress, table, warn
from waterclock.api.cli.session import connected
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.api.client.messages import batches, numbered_on
from waterclock.api.client.pace import AS_LONG_AS_IT_TAKES
from waterclock.api.errors import Refused
from waterclock.core.domain.job.difference import field_changes
from waterclock.core.domain.job.naming import id_of_name
from waterclock.proto import methods
from waterclock.proto.answers import Applied, BatchResult
from waterclock.proto.commands import Apply, CancelJob
from waterclock.proto.queries import JobsQuery

LABEL = "applied"
"""Marks what a set of files declares, so that what is no longer declared can be found."""

Set = Annotated[str, typer.Option("--set", help="Name of this set of declarations.", metavar="NAME")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Prune = Annotated[
    bool, typer.Option("--prune", help="Cancel what this set declared before and no longer does.")
]


Files = Annotated[
    list[Path],
    typer.Option("-f", "--file", help="A file or a directory; may be repeated.", metavar="FILE"),
]
MoreFiles = Annotated[
    list[Path] | None, typer.Argument(metavar="[FILE]…", help="More of them.", show_default=False)
]


def apply(
    files: Files,
    more: MoreFiles = None,
    prune: Prune = False,
    dry_run: DryRun = False,
    name: Set = "default",
    json: Json = False,
    data: Data = None,
) -> int:
    """Create or update jobs and workflows declared in YAML or JSON. Applying again changes nothing.

    waterclock apply -f jobs.yaml --dry-run

    waterclock apply -f *.yaml --prune
    """
    declarations = list(read_declarations([*files, *(more or ())]))
    return _apply(declarations, name, prune=prune, dry_run=dry_run, json=json, data=data)


def batch(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Definitions as JSON, one a line or an array; - is stdin.",
            show_default=False,
        ),
    ],
    json: Json = False,
    data: Data = None,
) -> int:
    """Define many jobs at once. A bad one fails alone; exit 2 if one did."""
    lines = read_lines(file)
    results: list[BatchResult] = []
    with connected(data, saturated_patience=AS_LONG_AS_IT_TAKES) as wire:
        for start, request in batches([bytes(line) for line in lines]):
            progress(f"{start} of {len(lines)}")
            chunk = wire.call(methods.JOBS_BATCH, request)
            results += numbered_on(chunk, start)
    progress("")
    if json:
        print_json({"items": results})
    else:
        rows = [(str(one.line), one.job_id or "", str(one.status), _reason(one)) for one in results]
        print(table(("LINE", "ID", "STATUS", "REASON"), rows) if rows else "nothing is defined")
    for one in results:
        warn(one.warnings, f"line {one.line}")
    return Exit.USAGE if any(isinstance(one.status, int) for one in results) else Exit.DONE


def _reason(result: BatchResult) -> str:
    errors = "; ".join(f"{e.field}: {e.reason}" if e.field else e.reason for e in result.errors or ())
    return errors or result.detail or ""


import_ = typer.Typer(
    name="import", help="Bring jobs from elsewhere.", no_args_is_help=True, add_completion=False
)


@import_.callback()
def _import() -> None:
    """Keeps `crontab` a command of its own while it is the only one."""


@import_.command("crontab")
def import_crontab(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Crontabs, or directories of them; - is stdin.", show_default=False
        ),
    ],
    tz: Annotated[
        str | None, typer.Option(help="Their time zone; this machine's if not said.", metavar="Z")
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="Lines name a user, as in /etc/crontab and /etc/cron.d.")
    ] = False,
    user: Annotated[
        list[str] | None,
        typer.Option(help="Lines of USER wait in QUEUE, whose executors run as USER.", metavar="USER=QUEUE"),
    ] = None,
    no_mail: Annotated[
        bool, typer.Option("--no-mail", help="Take lines under MAILTO; their output is only logged.")
    ] = False,
    prune: Prune = False,
    dry_run: DryRun = False,
    name: Set = "crontab",
    json: Json = False,
    data: Data = None,
) -> int:
    """Make each line of a crontab a job with the same meaning, or say why it cannot be one: exit 2 if one cannot.

    crontab -l | waterclock import crontab -

    waterclock import crontab --system /etc/crontab /etc/cron.d --dry-run
    """
    reading = Reading(
        zone=tz or local_zone(),
        system=system,
        queues=dict(map(_user_and_queue, user or ())),
        without_mail=no_mail,
        me=this_user(),
    )
    jobs, refused, notes = read_crontabs(files, reading)
    for text in notes:
        note(f"waterclock: {text}")
    return _apply(jobs, name, prune=prune, dry_run=dry_run, json=json, data=data, refused=refused)


def _user_and_queue(text: str) -> tuple[str, str]:
    user, _, queue = text.partition("=")
    if not user:
        raise WrongUsage(f"--user {text}: expected USER=QUEUE, as in www-data=web")
    return user, queue


def _apply(
    declarations: list[Declaration],
    name: str,
    *,
    prune: bool,
    dry_run: bool,
    json: bool,
    data: str | None,
    refused: Sequence[RefusedLine] = (),
) -> int:
    """Applies what is declared; `refused` could not be read, and counts as what could not be applied."""
    done: list[Applied] = []
    failures = list(refused)
    pruned: list[str] = []
    beside = tuple(filter(None, (_id(definition) for _, definition in declarations)))
    with connected(data, saturated_patience=AS_LONG_AS_IT_TAKES) as wire:
        for number, (where, definition) in enumerate(_in_order(declarations)):
            if number and number % 100 == 0:
                progress(f"applying: {number} of {len(declarations)}")
            request = Apply(definition=definition, dry_run=dry_run, beside=beside, mark={LABEL: name})
            try:
                done.append(wire.call(methods.JOBS_APPLY, request))
            except Refused as refusal:
                errors = "; ".join(f"{e.field}: {e.reason}" for e in refusal.problem.errors)
                failures.append((where, errors or refusal.problem.detail))
        progress("")
        if prune and not failures:
            pruned = _prune(wire, name, {applied.job_id for applied in done}, dry_run=dry_run)
    if json:
        print_json(
            {"applied": done, "pruned": pruned, "failed": [{"where": w, "reason": r} for w, r in failures]}
        )
    else:
        _show(done, pruned)
    for one in done:
        warn(one.warnings, one.job_id)
    for where, reason in failures:
        note(f"waterclock: {where}: {reason}")
    return 2 if failures else 0


def _in_order(declarations: list[Declaration]) -> list[Declaration]:
    """What others depend on comes first."""
    ids = {_id(definition): place for place, (_, definition) in enumerate(declarations)}
    ordered: list[Declaration] = []
    placed: set[int] = set()

    def place(number: int, path: tuple[int, ...]) -> None:
        where, definition = declarations[number]
        if number in path:
            cycle = " -> ".join(_id(declarations[n][1]) for n in (*path[path.index(number) :], number))
            raise WrongUsage(f"{where}: the jobs wait for each other: {cycle}")
        if number in placed:
            return
        for needed in definition.get("dependencies") or ():
            if needed in ids:
                place(ids[needed], (*path, number))
        placed.add(number)
        ordered.append(declarations[number])

    for number in range(len(declarations)):
        place(number, ())
    return ordered


def _id(definition: dict[str, Any]) -> str:
    chosen, name = definition.get("job_id") or definition.get("workflow_id"), definition.get("name")
    return str(chosen or (isinstance(name, str) and id_of_name(name)) or "")


def _prune(wire: BlockingWire, name: str, declared_ids: set[str], *, dry_run: bool) -> list[str]:
    gone: list[str] = []
    cursor: str | None = None
    while True:
        page = wire.call(methods.JOBS_LIST, JobsQuery(label=(f"{LABEL}={name}",), limit=1000, cursor=cursor))
        live = [job.job_id for job in page.items if job.status in ("SCHEDULED", "PAUSED")]
        gone += [job_id for job_id in live if job_id not in declared_ids]
        cursor = page.next_cursor
        if cursor is None:
            break
    for job_id in gone if not dry_run else ():
        wire.call(methods.JOBS_CANCEL, CancelJob(job_id=job_id, note=f"no longer declared in {name}"))
    return gone


def _show(done: list[Applied], pruned: list[str]) -> None:
    rows: list[tuple[str, str, str]] = []
    for one in done:
        found = [change for d in one.differences for change in field_changes(d.stored, d.given, d.field)]
        changes = "; ".join(f"{c.field}: {_value(c.before)} -> {_value(c.after)}" for c in found)
        rows.append((one.job_id, one.action, changes))
    rows += [(job_id, "cancelled", "") for job_id in pruned]
    print(table(("ID", "ACTION", "CHANGES"), rows) if rows else "nothing is declared")


def _value(value: Any) -> str:
    return "nothing" if value is UNSET else repr(value)
