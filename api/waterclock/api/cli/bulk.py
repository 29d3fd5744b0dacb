"""Commands that are about one thing, or about many: some by their ids, or with `--all` whatever the options match.

On a terminal one is asked first, with the number of them.
"""

import inspect
import secrets
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar

import typer
from msgspec import Struct
from msgspec.structs import replace

from waterclock.api import decoding
from waterclock.api.cli.exits import Exit, Failed, WrongUsage
from waterclock.api.cli.moment import moment
from waterclock.api.cli.options import complete_job, complete_run
from waterclock.api.cli.output import note, print_json, progress
from waterclock.api.cli.session import job_id_of, run_id_of
from waterclock.api.client.blocking_wire import BlockingWire
from waterclock.proto import methods
from waterclock.proto.answers import BulkResult, Refusal
from waterclock.proto.commands import BulkJobs, BulkRuns

R = TypeVar("R")

JobIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[JOB]…",
        help="Ids, or the beginnings of them.",
        show_default=False,
        autocompletion=complete_job,
    ),
]
RunIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN]…",
        help="Ids, or the beginnings of them.",
        show_default=False,
        autocompletion=complete_run,
    ),
]
_LABEL = Annotated[
    list[str] | None, typer.Option(help="With --all: key=value or key; may be repeated.", metavar="K=V")
]
_QUEUE = Annotated[str | None, typer.Option(help="With --all: of this queue.", metavar="Q")]
_Q = Annotated[str | None, typer.Option("--search", "-q", help="With --all: with this text in them.")]
_STATUS = Annotated[str | None, typer.Option(help="With --all: in this status.", metavar="STATUS")]
_STATUSES = Annotated[
    str | None, typer.Option(help="With --all: in one of these, as in FAILED,TIMED_OUT.", metavar="STATUS")
]
_JOB = Annotated[str | None, typer.Option(help="With --all: of this job.", metavar="JOB")]
_WAVE = Annotated[str | None, typer.Option(help="With --all: of this workflow run.", metavar="WAVE")]
_SINCE = Annotated[
    str | None,
    typer.Option(help="With --all: scheduled since then, as in 2h or at an instant.", metavar="D-or-T"),
]
_UNTIL = Annotated[str | None, typer.Option(help="With --all: scheduled before that.", metavar="D-or-T")]
_ALL = Annotated[bool, typer.Option("--all", help="All that match; every one if nothing else is said.")]
_DRY_RUN = Annotated[bool, typer.Option("--dry-run", help="Only say how many.")]
_YES = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_OF_JOBS = {"label": _LABEL, "queue": _QUEUE, "q": _Q, "status": _STATUS}
_OF_RUNS = {
    "status": _STATUSES,
    "job": _JOB,
    "workflow_run": _WAVE,
    "label": _LABEL,
    "queue": _QUEUE,
    "q": _Q,
    "since": _SINCE,
    "until": _UNTIL,
}
_SWITCHES = {"every": _ALL, "dry_run": _DRY_RUN, "yes": _YES}


class Choice(Struct, frozen=True, kw_only=True):
    """What was chosen on the command line."""

    ids: tuple[str, ...]
    filter: dict[str, Any]
    every: bool
    dry_run: bool
    yes: bool

    @property
    def patience(self) -> float:
        """Seconds for which a call without an answer is repeated: of many, what is done already is not done again."""
        return 60.0 if self.single is None else 5.0

    @property
    def single(self) -> str | None:
        """The one thing that was named, if it was just that."""
        return self.ids[0] if len(self.ids) == 1 and not (self.dry_run or self.every) else None


def of_jobs(command: Callable[..., R]) -> Callable[..., R]:
    """Gives a command jobs to choose from, as its parameter `chosen`."""
    return _choosing(command, JobIds, _OF_JOBS)


def of_runs(command: Callable[..., R]) -> Callable[..., R]:
    return _choosing(command, RunIds, _OF_RUNS)


def _choosing(command: Callable[..., R], ids: Any, options: dict[str, Any]) -> Callable[..., R]:
    own = [
        each
        for each in inspect.signature(command, eval_str=True).parameters.values()
        if each.name != "chosen"
    ]

    @wraps(command)
    def wrapped(**given: Any) -> R:
        named = tuple(given.pop("ids") or ())
        wanted = {name: value for name in options if (value := given.pop(name)) not in (None, [])}
        switches = {name: given.pop(name) for name in _SWITCHES}
        chosen = Choice(ids=named, filter=wanted, **switches)
        _check(chosen)
        return command(chosen=chosen, **given)

    parameters = [
        _parameter("ids", ids, None),
        *(_parameter(name, kind, None) for name, kind in options.items()),
        *(_parameter(name, kind, False) for name, kind in _SWITCHES.items()),
        *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own),
    ]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _check(chosen: Choice) -> None:
    if chosen.ids and (chosen.every or chosen.filter):
        raise WrongUsage("name what is meant by ids, or by --all and options: not by both")
    if chosen.filter and not chosen.every:
        raise WrongUsage("add --all: it is done to all that these options match")
    if not chosen.ids and not chosen.every:
        raise WrongUsage("name what is meant by ids, or by --all and options")


def change_jobs(
    wire: BlockingWire, chosen: Choice, action: str, done: str, *, json: bool, **more: Any
) -> int:
    fields = {"action": action, "idempotency_key": secrets.token_hex(10), **more}
    if chosen.every:
        fields["filter"] = _with_status(chosen.filter, many=False)
    else:
        fields["ids"] = [job_id_of(wire, text) for text in chosen.ids]
    request = decoding.convert(fields, BulkJobs, text=False)
    return _carry_out(lambda one: wire.call(methods.JOBS_BULK, one), request, chosen, "jobs", done, json=json)


def change_runs(
    wire: BlockingWire, chosen: Choice, action: str, done: str, *, json: bool, **more: Any
) -> int:
    fields: dict[str, Any] = {"action": action, **more}
    if chosen.every:
        wanted = _with_status(chosen.filter, many=True)
        for option, field in (("since", "from"), ("until", "to")):
            if option in wanted:
                wanted[field] = moment(wanted.pop(option), f"--{option}")
        if "job" in wanted:
            wanted["job"] = job_id_of(wire, wanted["job"])
        if "workflow_run" in wanted:
            wanted["workflow_run"] = run_id_of(wire, wanted["workflow_run"])
        fields["filter"] = wanted
    else:
        fields["ids"] = [run_id_of(wire, text) for text in chosen.ids]
    request = decoding.convert(fields, BulkRuns, text=False)
    return _carry_out(lambda one: wire.call(methods.RUNS_BULK, one), request, chosen, "runs", done, json=json)


def _with_status(wanted: dict[str, Any], *, many: bool) -> dict[str, Any]:
    status = wanted.get("status")
    if status is None:
        return dict(wanted)
    said = [one.strip().upper() for one in status.split(",") if one.strip()]
    return {**wanted, "status": said if many else ",".join(said)}


B = TypeVar("B", BulkJobs, BulkRuns)


def _carry_out(
    call: Callable[[B], BulkResult], request: B, chosen: Choice, what: str, done: str, *, json: bool
) -> int:
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not chosen.yes
    if chosen.dry_run or asks:
        found = call(replace(request, dry_run=True))
        if chosen.dry_run:
            print_json(found) if json else print(f"{_counted(found.matched, what)} would be {done}")
            _tell(found.refused, found.more_refused)
            return Exit.DONE
        if found.matched and not typer.confirm(
            f"{_counted(found.matched, what)} will be {done}. Go on?", err=True
        ):
            raise Failed("nothing was done")
    total = BulkResult(matched=0, done=0)
    while True:
        part = call(request)
        total = _sum(total, part)
        if part.next_cursor is None:
            break
        progress(f"{total.done} so far")
        request = replace(request, cursor=part.next_cursor)
    progress("")
    print_json(total) if json else print(f"{_counted(total.done, what)} {done}")
    _tell(total.refused, total.more_refused)
    return Exit.FAILED if total.refused else Exit.DONE


def _sum(one: BulkResult, other: BulkResult) -> BulkResult:
    return BulkResult(
        matched=one.matched + other.matched,
        done=one.done + other.done,
        refused=[*one.refused, *other.refused],
        more_refused=one.more_refused + other.more_refused,
    )


def _tell(refused: list[Refusal], more: int) -> None:
    for refusal in refused:
        note(f"waterclock: {refusal.id}: {refusal.reason}")
    if more:
        note(f"waterclock: and {more} more")


def _counted(number: int, what: str) -> str:
    return f"{number} {what[:-1] if number == 1 else what}"
