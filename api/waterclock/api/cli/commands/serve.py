"""Commands that run the system: up, and each component by itself.

Components are imported by their names: the api depends on none of them.
"""

from typing import Annotated, Any

import typer

from waterclock.api.cli.options import Data, Json

Worker = Annotated[
    list[str] | None, typer.Option(help="Add a user's handlers; may be repeated.", metavar="MODULE:NAME")
]
Port = Annotated[
    str | None, typer.Option(help="Port of the REST interface; 0 means any free one.", metavar="N")
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.", metavar="ADDRESS")]
NatsUrl = Annotated[
    str | None, typer.Option(help="An existing JetStream; nothing is embedded.", metavar="URL")
]
DatabaseUrl = Annotated[
    str | None, typer.Option(help="An existing Postgres; nothing is embedded.", metavar="URL")
]
MetricsPort = Annotated[str | None, typer.Option(help="Serve Prometheus metrics on this port.", metavar="N")]
LogFormat = Annotated[str | None, typer.Option(help="auto, human or json.", metavar="F")]


def up(
    data: Data = None,
    port: Port = None,
    host: Host = None,
    demo: Annotated[bool, typer.Option("--demo", help="Submit a few jobs to look at.")] = False,
    schedulers: Annotated[str | None, typer.Option(help="How many schedulers.", metavar="N")] = None,
    executors: Annotated[str | None, typer.Option(help="How many executors.", metavar="N")] = None,
    worker: Worker = None,
    nats_url: NatsUrl = None,
    database_url: DatabaseUrl = None,
    log_format: LogFormat = None,
) -> int:
    """Start everything in one terminal: servers, scheduler, executor, projector and api.

    Prints `ready: URL` when work is accepted. Data survive a restart. Ctrl-C drains and stops.
    """
    import uvloop

    from waterclock.api.up import up as run_all
    from waterclock.core.runtime.settings import load

    settings = load(
        {
            "data": data,
            "port": port,
            "host": host,
            "schedulers": schedulers,
            "executors": executors,
            "worker": worker or None,
            "nats_url": nats_url,
            "database_url": database_url,
            "log_format": log_format,
        }
    )
    return uvloop.run(run_all(settings, demo=demo))


def setup(data: Data = None, nats_url: NatsUrl = None) -> None:
    """Lay out the streams, and the bucket if artifacts go to S3, on servers of your own; then start components there.

    The one command for which NATS must allow everything: no component may make a stream. It may be repeated.
    """
    import uvloop

    from waterclock.api.up import setup as lay_out
    from waterclock.core.runtime.data_directory import resolved
    from waterclock.core.runtime.settings import load

    settings = resolved(load({"data": data, "nats_url": nats_url}), "admin")
    uvloop.run(lay_out(settings))
    bucket = f", {settings.store}" if settings.store else ""
    print(f"ready for components: {settings.partitions} partitions, {settings.replicas} replicas{bucket}")


def nats_config(
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Make passwords and the key, as lines of an `.env`.")
    ] = False,
) -> None:
    """Print what a NATS server of your own needs to know of us: accounts, users, and who says whose token is good.

    Include it in the server's configuration. Passwords and the key's public half (NATS_ISSUER) come from its
    environment; the api has the other half, WATERCLOCK_NATS_ISSUER_SEED.
    """
    from waterclock.core.jetstream.access.server_config import new_secrets, server_config

    print(new_secrets() if secrets else server_config())


def scheduler(
    data: Data = None,
    nats_url: NatsUrl = None,
    metrics_port: MetricsPort = None,
    log_format: LogFormat = None,
) -> int:
    """Run one scheduler against existing servers."""
    return _component(
        "scheduler", data=data, nats_url=nats_url, metrics_port=metrics_port, log_format=log_format
    )


def executor(
    data: Data = None,
    tier: Annotated[
        str | None, typer.Option(help="The heaviest work taken: light, medium, heavy.", metavar="T")
    ] = None,
    slots: Annotated[str | None, typer.Option(help="Attempts run at once.", metavar="N")] = None,
    queue: Annotated[str | None, typer.Option(help="The queue to take work from.", metavar="Q")] = None,
    worker: Worker = None,
    nats_url: NatsUrl = None,
    metrics_port: MetricsPort = None,
    log_format: LogFormat = None,
) -> int:
    """Run one executor against existing servers."""
    return _component(
        "executor",
        data=data,
        tier=tier,
        slots=slots,
        queue=queue,
        worker=worker or None,
        nats_url=nats_url,
        metrics_port=metrics_port,
        log_format=log_format,
    )


def api(
    data: Data = None,
    port: Port = None,
    host: Host = None,
    nats_url: NatsUrl = None,
    database_url: DatabaseUrl = None,
    log_format: LogFormat = None,
) -> int:
    """Run one api against existing servers."""
    return _component(
        "api",
        data=data,
        port=port,
        host=host,
        nats_url=nats_url,
        database_url=database_url,
        log_format=log_format,
    )


projector = typer.Typer(
    name="projector",
    help="Run one projector against existing servers, or rebuild the read models.",
    invoke_without_command=True,
    add_completion=False,
)


@projector.callback()
def _projector(
    context: typer.Context,
    data: Data = None,
    nats_url: NatsUrl = None,
    database_url: DatabaseUrl = None,
    metrics_port: MetricsPort = None,
    log_format: LogFormat = None,
) -> int | None:
    if context.invoked_subcommand is not None:
        return None
    return _component(
        "projector",
        data=data,
        nats_url=nats_url,
        database_url=database_url,
        metrics_port=metrics_port,
        log_format=log_format,
    )


@projector.command()
def rebuild(
    data: Data = None,
    nats_url: NatsUrl = None,
    database_url: DatabaseUrl = None,
    json: Json = False,
) -> None:
    """Rebuild the read models from the log, beside the live ones, and put them in their place."""
    from importlib import import_module

    import uvloop

    from waterclock.api.cli.output import print_json, progress
    from waterclock.core.runtime.data_directory import resolved
    from waterclock.core.runtime.settings import load

    def show(now: Any) -> None:
        progress(f"{now.stage}: {now.done:.0%}, {now.events} events in {now.seconds:.1f} s")

    settings = resolved(load({"data": data, "nats_url": nats_url, "database_url": database_url}), "projector")
    rebuilder = import_module("waterclock.projector.rebuild.rebuilder")
    result = uvloop.run(rebuilder.rebuild(settings, show))
    progress("")
    if json:
        print_json(result)
        return
    print(
        f"rebuilt from {result.events} events in {result.seconds:.1f} s ({result.events_per_second:,.0f} a second); "
        f"{result.carried_runs} older runs kept"
    )


def _component(name: str, **flags: object) -> int:
    from importlib import import_module

    from waterclock.core.runtime.data_directory import resolved
    from waterclock.core.runtime.lifecycle import run_service
    from waterclock.core.runtime.settings import load

    settings = resolved(load(flags), name)
    return run_service(name, import_module(f"waterclock.{name}.service").run, settings)
