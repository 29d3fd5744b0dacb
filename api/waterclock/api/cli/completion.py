"""Ids for the shell to complete, asked of the service. Silent when that cannot be: a prompt is no place for errors."""

import typer


def jobs(context: typer.Context, incomplete: str) -> list[str]:
    return _ids("job", context, incomplete)


def runs(context: typer.Context, incomplete: str) -> list[str]:
    return _ids("run", context, incomplete)


def _ids(kind: str, context: typer.Context, incomplete: str) -> list[str]:
    from waterclock.api.cli.session import connected
    from waterclock.api.errors import Refused, Unreachable
    from waterclock.core.runtime.settings import SettingsError
    from waterclock.proto import methods, queries

    if not incomplete:
        return []
    query = queries.IdQuery(kind="run" if kind == "run" else "job", prefix=incomplete)
    try:
        with connected(context.params.get("data"), patience=0.5) as wire:
            return list(wire.call(methods.IDS_FIND, query).ids)
    except (Refused, Unreachable, SettingsError):
        return []
