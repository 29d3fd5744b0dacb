"""Every setting of every component: one frozen struct, checked once at the edge.

A value comes from a flag, else the environment (`WATERCLOCK_<NAME>`), else `waterclock.toml`, else it is
the default.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct

ENVIRONMENT_PREFIX = "WATERCLOCK_"
FILE = Path("waterclock.toml")

_USER_OF_URL = re.compile(r"://[^@/\s]*@")

# The description of a type is what an error says was expected.
Port = Annotated[int, Meta(ge=0, le=65535, description="a port number from 0 (any free one) to 65535")]
Count = Annotated[int, Meta(ge=1, le=1024, description="a number from 1 to 1024")]
Seconds = Annotated[float, Meta(ge=0, le=86_400, description="seconds, from 0 to 86400")]
Bytes = Annotated[int, Meta(ge=1, description="a number of bytes, at least 1")]
Directory = Annotated[Path, Meta(description="a directory")]
File = Annotated[Path, Meta(description="a file")]
Tls = Annotated[Literal["auto", "on", "off"], Meta(description="auto, on or off")]
Host = Annotated[str, Meta(min_length=1, description="an address to listen on")]
NatsUrl = Annotated[
    str,
    Meta(pattern=r"^(nats|tls)://[^\s/]+", description="URLs like nats://host:4222, separated by commas"),
]
DatabaseUrl = Annotated[
    str,
    Meta(pattern=r"^postgres(ql)?://\S+$", description="a URL like postgresql://user:password@host/database"),
]
Token = Annotated[str, Meta(min_length=16, pattern=r"^\S+$", description="a token of at least 16 characters")]
QueueName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="a name of at most 64 letters, digits, _ and -")
]
WorkerName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", description="MODULE:NAME of a Worker, several by commas"),
]


StoreUrl = Annotated[
    str, Meta(pattern=r"^s3://[a-z0-9.-]{3,63}(/\S*)?$", description="a URL like s3://bucket/prefix")
]
HttpUrl = Annotated[str, Meta(pattern=r"^https?://\S+$", description="a URL like https://host:9000")]


class Settings(Struct, frozen=True, kw_only=True):
    data: Directory = Path(".waterclock")
    host: Host = "127.0.0.1"
    port: Port = 8080
    nats_url: NatsUrl | None = None
    """Given: an existing JetStream is used, none is embedded."""
    database_url: DatabaseUrl | None = None
    """Given: an existing Postgres is used, none is embedded."""
    nats_credentials: File | None = None
    """A NATS credentials file (`.creds`), instead of a password in the URL."""
    nats_inbox: Annotated[str, Meta(pattern=r"^[\w-]{1,64}$", description="a name without dots")] = "_INBOX"
    """What answers are sent under: one's own, where the server lets nobody else listen there."""

    nats_tls: Tls = "auto"
    """On: TLS, or no connection. Auto: if the URL begins with tls://, or one of the files below is given."""
    nats_ca: File | None = None
    """Who signed the server's certificate; without it the system's authorities count."""
    nats_cert: File | None = None
    """Our own certificate, for a server that asks for one."""
    nats_key: File | None = None
    database_tls: Tls = "auto"
    """On: as `sslmode=verify-full`. Auto: if one of the files below is given, else as the URL says."""
    database_ca: File | None = None
    database_cert: File | None = None
    database_key: File | None = None
    http_cert: File | None = None
    """The certificate (with its chain) of the REST interface, which then speaks HTTPS only."""
    http_key: File | None = None
    s3_ca: File | None = None

    token: Token | None = None
    auth: Annotated[Literal["on", "off"], Meta(description="on or off")] = "on"
    """Off lets everybody in who can reach the port; only on loopback."""
    nats_without_token: Annotated[
        Literal["operate", "submit", "read", "nothing"], Meta(description="operate, submit, read or nothing")
    ] = "operate"
    """What a request over NATS may do that brings no token: its sender has only shown a NATS password."""
    rate_limit: Annotated[float, Meta(gt=0, le=1e6, description="requests a second, above 0")] | None = None
    """For tokens made without a rate of their own; the one that `up` writes has none."""

    partitions: Annotated[int, Meta(ge=1, le=4096, description="a number from 1 to 4096")] = 16
    replicas: Annotated[Literal[1, 3, 5], Meta(description="1, 3 or 5")] = 1
    """Copies of each stream; more than one needs a cluster of that many servers."""
    lease_seconds: Annotated[float, Meta(ge=1, le=60, description="seconds, from 1 to 60")] = 2.0
    """How long a dead scheduler keeps its partitions. JetStream knows no expiry under a second."""

    schedulers: Count = 1
    executors: Count = 1
    projectors: Count = 1

    queue: QueueName = "default"
    tier: Annotated[Literal["light", "medium", "heavy"], Meta(description="light, medium or heavy")] = "heavy"
    """The heaviest work an executor takes; it takes the lighter kinds too."""
    slots: Annotated[int, Meta(ge=1, le=100_000, description="a number from 1 to 100000")] = 64
    worker: tuple[WorkerName, ...] = ()
    ack_wait_seconds: Annotated[float, Meta(ge=1, le=300, description="seconds, from 1 to 300")] = 5.0
    """How long a silent executor keeps an attempt before it goes to another."""
    stop_grace_seconds: Seconds = 10.0
    """How long a process that was told to stop has before it is killed."""
    output_limit: Bytes = 10 * 1024 * 1024
    """How much output of an attempt is kept."""
    http_private: bool = False
    """Whether HTTP jobs may call loopback, private and other addresses that are not on the public net."""
    http_loopback: bool | None = None
    """Whether they may call loopback addresses; None: where `waterclock up` runs everything on one machine, whose
    commands can do so anyway."""
    run_as: Annotated[str, Meta(min_length=1, description="the name of a user")] | None = None
    """The user that commands run as; only root can choose another than itself."""
    cache_bytes: Bytes = 1024 * 1024 * 1024
    """How much an executor keeps of the artifacts it has fetched."""
    store: StoreUrl | None = None
    """Where artifacts and logs are kept: an S3 bucket, or None for the embedded store."""
    s3_endpoint: HttpUrl | None = None
    """An S3 service other than Amazon's."""

    payload_limit: Bytes = 1024 * 1024
    grace_seconds: Seconds = 10.0
    """How long a component may finish what it has in hand after it was told to stop."""

    retention_days: Annotated[float, Meta(ge=1, le=36_500, description="days, from 1 to 36500")] = 90.0
    """How long runs stay in the read models; a job may ask for less."""

    alert_webhook: HttpUrl | None = None
    """Where alerts are sent; without it nobody is told."""
    alert_format: Annotated[
        Literal["generic", "slack", "pagerduty"], Meta(description="generic, slack or pagerduty")
    ] = "generic"
    alert_secret: (
        Annotated[str, Meta(min_length=16, description="a secret of at least 16 characters")] | None
    ) = None
    """Signs alerts: HMAC-SHA256 over timestamp.body."""
    alert_key_id: Annotated[
        str, Meta(pattern=r"^[\w.-]{1,64}$", description="a name of letters, digits, . _ -")
    ] = "1"
    """Tells the receiver which secret it was, so that secrets can be changed."""
    alert_routing_key: str = ""
    """PagerDuty's integration key."""
    alert_silence: str = ""
    """Labels of jobs nobody wants to hear of: `env=dev,team=qa`."""
    alert_lag_seconds: Seconds = 60.0
    alert_no_executor_seconds: Seconds = 60.0
    alert_failure_rate: Annotated[float, Meta(ge=0, le=1, description="a share from 0 (off) to 1")] = 0.5
    """Of at least 20 runs that ended in five minutes."""
    alert_repeat_seconds: Seconds = 3600.0
    """How long the same thing is not told again."""
    alert_give_up_seconds: Annotated[
        float, Meta(ge=1, le=2_592_000, description="seconds, from 1 to 2592000")
    ] = 86_400.0
    """How long an alert that its receiver does not take is tried."""
    alert_timeout_seconds: Annotated[float, Meta(ge=0.1, le=60, description="seconds, from 0.1 to 60")] = 10.0

    metrics_port: Port | None = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="debug, info, warning or error")
    ] = "info"
    log_format: Annotated[Literal["auto", "human", "json"], Meta(description="auto, human or json")] = "auto"


def environment_variable(setting: str) -> str:
    return ENVIRONMENT_PREFIX + setting.upper()


def as_environment(settings: Settings) -> dict[str, str]:
    """The variables from which another process loads these same settings."""
    values = {field.name: getattr(settings, field.name) for field in msgspec.structs.fields(Settings)}
    return {
        environment_variable(name): ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
        if value is not None
    }


class SettingsError(Exception):
    """A setting that is wrong: which one, what was expected, what was found, and where."""

    def __init__(self, key: str, expected: str, found: object, where: str) -> None:
        super().__init__(f"{key}: expected {expected}, found {_shown(key, found)} ({where})")
        self.key = key
        self.expected = expected
        self.found = found


def load(
    flags: Mapping[str, object], environ: Mapping[str, str] = os.environ, file: Path | None = None
) -> Settings:
    """Flags that are None were not given. Without `file`, `waterclock.toml` is read if it is there."""
    from_file, file_name = _read_file(file)
    fields = {field.name: field for field in msgspec.structs.fields(Settings)}
    for key in from_file:
        if key not in fields:
            raise SettingsError(key, f"one of {', '.join(fields)}", f"{key} = …", file_name)

    values: dict[str, Any] = {}
    for name, field in fields.items():
        variable = environment_variable(name)
        if flags.get(name) is not None:
            values[name] = _convert(name, flags[name], field.type, f"flag --{name.replace('_', '-')}")
        elif environ.get(variable, "") != "":
            values[name] = _convert(name, environ[variable], field.type, f"environment {variable}")
        elif name in from_file:
            values[name] = _convert(name, from_file[name], field.type, file_name)
    return Settings(**values)


def _read_file(file: Path | None) -> tuple[dict[str, object], str]:
    chosen = file or FILE
    try:
        return tomllib.loads(chosen.read_text()), str(chosen)
    except FileNotFoundError:
        if file is None:
            return {}, str(chosen)
        raise SettingsError("file", "a file that can be read", str(file), "settings file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError("file", "TOML", str(error), str(chosen)) from None


def _convert(key: str, found: object, wanted: Any, where: str) -> object:
    value = found
    if key == "worker" and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        converted = msgspec.convert(value, wanted, strict=False, dec_hook=_from_text)
    except (msgspec.ValidationError, ValueError):
        raise SettingsError(key, _expectation(wanted), found, where) from None
    if converted != converted:  # not a number: no bound catches it
        raise SettingsError(key, _expectation(wanted), found, where)
    return converted


def _from_text(wanted: type, value: object) -> object:
    if wanted is Path and isinstance(value, str) and value:
        return Path(value)
    if isinstance(value, wanted):
        return value
    raise ValueError(f"{value!r} is no {wanted.__name__}")


def _expectation(wanted: Any) -> str:
    for meta in getattr(wanted, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    return next(filter(None, map(_expectation, get_args(wanted))), "")


def _shown(key: str, found: object) -> str:
    """Errors end up in logs: no token, and of a URL no password."""
    text = str(found)
    if key in ("token", "alert_secret", "alert_routing_key"):
        return f"{len(text)} characters"
    text = _USER_OF_URL.sub("://…@", text)
    return f"'{text[:80]}…'" if len(text) > 80 else f"'{text}'"
