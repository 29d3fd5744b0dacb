"""`waterclock token`: create, list, revoke, rotate-admin. And `waterclock namespace`: quotas."""

from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec import structs

from waterclock.api import decoding
from waterclock.api.cli import output
from waterclock.api.cli.exits import WrongUsage
from waterclock.api.cli.listing import Listing
from waterclock.api.cli.options import Data, Json, Watch
from waterclock.api.cli.output import note as say
from waterclock.api.cli.output import print_json, table
from waterclock.api.cli.session import connected
from waterclock.api.client.discovery import find
from waterclock.api.errors import Conflict, NotFound
from waterclock.core.runtime.data_directory import TOKEN_USER, read_connection, token_url, write_connection
from waterclock.proto import methods
from waterclock.proto.answers import Namespace, Token
from waterclock.proto.commands import QuotaRequest, TokenRef, TokenRequest
from waterclock.proto.queries import Nothing

token = typer.Typer(name="token", help="Who may use the service.", no_args_is_help=True, add_completion=False)
namespace = typer.Typer(
    name="namespace", help="Tenants, and what they may hold.", no_args_is_help=True, add_completion=False
)
quarantine = typer.Typer(
    name="quarantine",
    help="Records that could not be read and were left out.",
    no_args_is_help=True,
    add_completion=False,
)
"""Its commands are made from the method table."""


@token.command()
def create(
    scope: Annotated[
        list[str], typer.Option(help="read, submit, operate, execute or admin; may be repeated.", metavar="S")
    ],
    namespace: Annotated[str, typer.Option(help="The tenant it is for.", metavar="NS")] = "default",
    note: Annotated[str, typer.Option(help="Whose it is.", metavar="TEXT")] = "",
    rate: Annotated[float | None, typer.Option(help="Requests a second.", metavar="N")] = None,
    days: Annotated[float | None, typer.Option(help="Days until it expires.", metavar="N")] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(help="With execute: a queue whose work it may take; may be repeated.", metavar="Q"),
    ] = None,
    handler: Annotated[
        list[str] | None,
        typer.Option(help="With execute: a handler it may serve in them; may be repeated.", metavar="NAME"),
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Make a token. The secret is shown once, now."""
    fields = {
        "scopes": scope,
        "namespace": namespace,
        "note": note,
        "rate_per_second": rate,
        "expires_in_seconds": None if days is None else days * 86_400,
        "queues": queue or ["default"],
        "handlers": handler or [],
    }
    with connected(data) as wire:
        made = wire.call(methods.TOKENS_CREATE, decoding.convert(fields, TokenRequest, text=False))
    if json:
        print_json(made)
        return
    print(made.token)
    say(f"keep it: it is not shown again. Revoke it with `waterclock token revoke {made.token_id}`")


@token.command("list")
def list_tokens(json: Json = False, watch: Watch = False, data: Data = None) -> None:
    """List tokens, without their secrets."""
    with connected(data) as wire:
        _TOKENS.show(lambda: wire.call(methods.TOKENS_LIST, Nothing()), json=json, watch=watch)


def _token_table(tokens: Sequence[Token]) -> str:
    rows = [
        (
            one.token_id,
            ",".join(one.scopes),
            one.namespace,
            output.ago(one.created_at),
            output.ago(one.expires_at),
            one.note,
        )
        for one in tokens
    ]
    heads = ("TOKEN", "SCOPES", "NAMESPACE", "MADE", "EXPIRES", "NOTE")
    return table(heads, rows) if rows else "no tokens beside the one in connection.json"


_TOKENS = Listing[Token](key=lambda one: one.token_id, text=_token_table)


@token.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="TOKEN-ID", show_default=False)],
    json: Json = False,
    data: Data = None,
) -> None:
    """Revoke a token, at once and everywhere."""
    with connected(data) as wire:
        revoked = wire.call(methods.TOKENS_REVOKE, TokenRef(token_id=token_id))
    print_json(revoked) if json else print(f"{revoked.token_id} revoked")


@token.command("rotate-admin")
def rotate_admin(json: Json = False, data: Data = None) -> None:
    """Replace the administrator's token in connection.json, and revoke the one before, at once and everywhere.

    Cut short it may be repeated: the one before is valid until the new one is in the file.
    """
    settings = find(data=data).settings
    directory, found = settings.data, read_connection(settings.data)
    if settings.token is not None:
        raise WrongUsage(
            "the token is given by WATERCLOCK_TOKEN: make another with `waterclock token create --scope admin`, put it"
            " there, then `waterclock token revoke bootstrap`"
        )
    if found is None:
        raise WrongUsage(
            f"there is no {directory / 'connection.json'}: run this where `waterclock up` keeps its data"
        )
    request = TokenRequest(scopes=("admin",), note=_ROTATED)
    with connected(data) as wire:
        made = wire.call(methods.TOKENS_CREATE, request)
    assert made.token is not None
    is_ours = found.nats.partition("://")[2].startswith(f"{TOKEN_USER}:")
    nats = token_url(made.token, found.nats.rpartition("@")[2]) if is_ours else found.nats
    inbox = made.nats_inbox if is_ours else found.nats_inbox
    write_connection(directory, structs.replace(found, token=made.token, nats=nats, nats_inbox=inbox))
    with connected(data) as wire:
        tokens = wire.call(methods.TOKENS_LIST, Nothing()).items
        former = [one.token_id for one in tokens if one.note == _ROTATED and one.token_id != made.token_id]
        for token_id in (*former, _BOOTSTRAP):
            try:
                wire.call(methods.TOKENS_REVOKE, TokenRef(token_id=token_id))
            except (NotFound, Conflict):
                continue  # revoked before, or the new one by its other name
    answer = structs.replace(made, token=None)
    print_json(answer) if json else print(f"{made.token_id} is in connection.json; those before are revoked")


_ROTATED = "administrator, in connection.json"
_BOOTSTRAP = "bootstrap"


@namespace.command("list")
def list_namespaces(json: Json = False, watch: Watch = False, data: Data = None) -> None:
    """List namespaces with their jobs and quotas."""
    with connected(data) as wire:
        _NAMESPACES.show(lambda: wire.call(methods.NAMESPACES_LIST, Nothing()), json=json, watch=watch)


def _namespace_table(namespaces: Sequence[Namespace]) -> str:
    rows = [
        (
            one.namespace,
            str(one.jobs),
            output.text(one.max_jobs),
            str(one.default_max_retries),
            _seconds(one.default_timeout_seconds),
        )
        for one in namespaces
    ]
    header = ("NAMESPACE", "JOBS", "AT MOST", "RETRIES IF NOT SAID", "TIMEOUT IF NOT SAID")
    return table(header, rows) if rows else "no namespaces in use"


def _seconds(timeout: float | None) -> str:
    return "none" if timeout is None else f"{timeout:g} s"


_NAMESPACES = Listing[Namespace](key=lambda one: one.namespace, text=_namespace_table)


@namespace.command()
def limit(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE", show_default=False)],
    max_jobs: Annotated[
        int | None, typer.Option(help="Jobs at the same time; not said: no limit.", metavar="N")
    ] = None,
    default_retries: Annotated[
        int | None,
        typer.Option(help="Retries of jobs that do not say; not said: as in all namespaces.", metavar="N"),
    ] = None,
    default_timeout: Annotated[
        float | None,
        typer.Option(
            help="Timeout of jobs that do not say; 0: none; not said: as in all.", metavar="SECONDS"
        ),
    ] = None,
    json: Json = False,
    data: Data = None,
) -> None:
    """Set or lift what holds in a namespace: its quota, and what jobs have that do not say."""
    with connected(data) as wire:
        said = {
            "namespace": name,
            "max_jobs": max_jobs,
            "default_max_retries": default_retries,
            "default_timeout_seconds": default_timeout,
        }
        request = decoding.convert(said, QuotaRequest, text=False)
        found = wire.call(methods.NAMESPACES_LIMIT, request)
    print_json(found) if json else print(
        f"{name}: {found.jobs} jobs, at most {output.text(found.max_jobs) or 'any number'}"
    )
