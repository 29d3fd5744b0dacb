"""The options that define a job, for `submit` and `update` alike, and the fields they stand for."""

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from waterclock.api.cli.exits import Wrong

Cron = Annotated[list[str] | None, typer.Option(help="Cron expression; may be repeated.", metavar="E")]
Tz = Annotated[str | None, typer.Option(help="IANA time zone of the cron.", metavar="Z")]
Every = Annotated[str | None, typer.Option(help="Fixed interval: 30s, 5m, 1h30m.", metavar="D")]
At = Annotated[str | None, typer.Option(help="Once, at an RFC 3339 instant.", metavar="T")]
In = Annotated[str | None, typer.Option("--in", help="Once, after a delay.", metavar="D")]
After = Annotated[
    list[str] | None, typer.Option(help="Run when this job has ended well; may be repeated.", metavar="JOB")
]
Shell = Annotated[str | None, typer.Option(help="A shell command line.", metavar="STR")]
Http = Annotated[tuple[str, str] | None, typer.Option(help="An HTTP call.", metavar="METHOD URL")]
Handler = Annotated[str | None, typer.Option(help="A handler that a worker serves.", metavar="H")]
Artifact = Annotated[
    str | None,
    typer.Option(help="A file to upload and run, or its digest; arguments after --.", metavar="FILE"),
]
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- CMD ARG…]", help="A program and its arguments.", show_default=False),
]
Payload = Annotated[
    str | None, typer.Option(help="JSON handed to the job; @FILE reads it, - from stdin.", metavar="JSON")
]
Retries = Annotated[int | None, typer.Option(help="Attempts after the first.", metavar="N")]
Timeout = Annotated[str | None, typer.Option(help="Longest an attempt may take.", metavar="D")]
Priority = Annotated[int | None, typer.Option(help="0 to 100; higher goes first.", metavar="N")]
Tier = Annotated[str | None, typer.Option(help="light, medium or heavy.", metavar="T")]
Queue = Annotated[str | None, typer.Option(help="The queue it waits in.", metavar="Q")]
Overlap = Annotated[
    str | None,
    typer.Option(
        help="allow, skip, queue_one, queue_all, cancel_previous or terminate_previous.", metavar="P"
    ),
]
CatchUp = Annotated[str | None, typer.Option(help="After downtime: none, latest or all.", metavar="P")]
Label = Annotated[list[str] | None, typer.Option(help="May be repeated.", metavar="K=V")]
Critical = Annotated[bool | None, typer.Option("--critical/--not-critical", help="Alert when it fails.")]
ExactlyOnce = Annotated[
    bool | None, typer.Option("--exactly-once/--at-least-once", help="Never two attempts at once.")
]


def fields(
    *,
    cron: list[str] | None,
    tz: str | None,
    every: str | None,
    at: str | None,
    in_: str | None,
    after: list[str] | None,
    shell: str | None,
    http: tuple[str, str] | None,
    handler: str | None,
    artifact: str | None,
    command: list[str] | None,
    payload: str | None,
    retries: int | None,
    timeout: str | None,
    priority: int | None,
    tier: str | None,
    queue: str | None,
    overlap: str | None,
    catch_up: str | None,
    label: list[str] | None,
    critical: bool | None,
    exactly_once: bool | None,
) -> dict[str, Any]:
    """The fields of a definition; only those that were said."""
    _one_of(shell=shell, http=http, handler=handler, artifact=artifact, command=command)
    said: dict[str, Any] = {
        "cron": cron or None,
        "timezone": tz,
        "every": every,
        "schedule_time": at,
        "delay": in_,
        "dependencies": after or None,
        "http": {"method": http[0], "url": http[1]} if http else None,
        "handler": handler,
        "artifact": artifact,
        "args": (command or None) if artifact else None,
        "command": shell if shell is not None else (command or None) if artifact is None else None,
        "payload": _json("--payload", payload),
        "max_retries": retries,
        "timeout": timeout,
        "priority": priority,
        "tier": tier,
        "queue": queue,
        "overlap": overlap,
        "catch_up": catch_up,
        "labels": _labels(label),
        "critical": critical,
        "delivery": None if exactly_once is None else "exactly_once" if exactly_once else "at_least_once",
    }
    return {name: value for name, value in said.items() if value is not None}


def _one_of(**given: Any) -> None:
    said = [name for name, value in given.items() if value]
    if len(said) > 1 and said != ["artifact", "command"]:
        names = [f"--{name}" if name != "command" else "-- CMD" for name in said]
        raise Wrong(f"{' and '.join(names)}: say one thing to run")


def _json(option: str, text: str | None) -> Any:
    """JSON as it stands, or from a file (`@FILE`), or from standard input (`-`)."""
    if text is None:
        return None
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text()
        return msgspec.json.decode(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(f"{option} {text}: {error}") from None
    except msgspec.DecodeError as error:
        raise Wrong(f"{option}: {error}; quote JSON for the shell, as in {option} '{{\"a\": 1}}'") from None


def _labels(pairs: list[str] | None) -> dict[str, str] | None:
    for pair in pairs or ():
        if "=" not in pair:
            raise Wrong(f"--label {pair}: expected key=value")
    return dict(pair.split("=", 1) for pair in pairs) if pairs else None
