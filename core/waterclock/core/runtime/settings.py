"""Every setting of every component: one frozen struct, checked once at the edge.

A value comes from a flag, else the environment (`WATERCLOCK_<NAME>`), else `waterclock.toml`, else it is
the default.
"""

import os
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

ENVIRONMENT_PREFIX = "WATERCLOCK_"
SECRETS_FD = "WATERCLOCK_SECRETS_FD"
"""Of a component that `waterclock up` starts: where it reads the settings that are secret. The environment that a
process began with stays where others can look."""
SECRETS = (
    "token",
    "nats_url",
    "database_url",
    "secrets_key",
    "nats_issuer_seed",
    "alert_secret",
    "alert_routing_key",
    "alert_webhook",
)
FILE = Path("waterclock.toml")

_SECRET = ("token", "nats_issuer_seed", "secrets_key", "alert_secret", "alert_routing_key")
_USER_OF_URL = re.compile(r"://[^@/\s]*@")

# The description of a type is what an error says was expected.
Port = Annotated[int, Meta(ge=0, le=65535, description="a port number from 0 (any free one) to 65535")]
Count = Annotated[int, Meta(ge=1, le=1024, description="a number from 1 to 1024")]
Seconds = Annotated[float, Meta(ge=0, le=86_400, description="seconds, from 0 to 86400")]
Bytes = Annotated[int, Meta(ge=1, description="a number of bytes, at least 1")]
Processes = Annotated[int, Meta(ge=1, le=4_000_000, description="a number from 1 to 4000000")]
Directory = Annotated[Path, Meta(description="a directory")]
File = Annotated[Path, Meta(description="a file")]
Tls = Annotated[Literal["auto", "on", "off"], Meta(description="auto, on or off")]
HostName = Annotated[
    str, Meta(pattern=r"^(\*|[A-Za-z0-9._-]{1,253})$", description="host names separated by commas")
]
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
IssuerSeed = Annotated[
    str,
    Meta(pattern=r"^SA[A-Z2-7]{56}$", description="the seed of an account's nkey, SA and 56 more characters"),
]
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
Origin = Annotated[
    str,
    Meta(
        pattern=r"^(\*|https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?)$",
        description="origins like https://ops.example.org, separated by commas, or *",
    ),
]
HttpUrl = Annotated[str, Meta(pattern=r"^https?://\S+$", description="a URL like https://host:9000")]


class Settings(Struct, frozen=True, kw_only=True):
    """Sections and texts are what `docs/reference/settings.md` shows: a comment begins a section."""

    # Where everything is
    data: Directory = Path(".waterclock")
    """Where `waterclock up` keeps its servers' data, and where other commands find it."""
    host: Host = "127.0.0.1"
    """The address that the REST interface and the metrics listen on."""
    port: Port = 8080
    """The port of the REST interface; 0 is any free one."""
    nats_url: NatsUrl | None = None
    """An existing JetStream to use; then none is embedded."""
    database_url: DatabaseUrl | None = None
    """An existing Postgres to use; then none is embedded."""
    nats_credentials: File | None = None
    """A NATS credentials file (`.creds`), instead of a password in the URL."""
    nats_inbox: Annotated[str, Meta(pattern=r"^[\w-]{1,64}$", description="a name without dots")] = "_INBOX"
    """The prefix of subjects that answers are sent to: one's own, where the server lets nobody else listen there."""

    nats_issuer_seed: IssuerSeed | None = None
    """The key with which the api signs whom a NATS server of your own lets in (`waterclock nats-config` makes it)."""

    # TLS
    nats_tls: Tls = "auto"
    """`on`: TLS or no connection. `auto`: if the URL begins with tls://, or one of the next files is given."""
    nats_ca: File | None = None
    """Who signed the NATS server's certificate; without it the system's authorities count."""
    nats_cert: File | None = None
    """Our own certificate, for a NATS server that asks for one."""
    nats_key: File | None = None
    """The key of `nats_cert`, if it is in a file of its own."""
    database_tls: Tls = "auto"
    """`on`: as `sslmode=verify-full`. `auto`: if one of the next files is given, else as the URL says."""
    database_ca: File | None = None
    """Who signed the certificate of Postgres; without it the system's authorities count."""
    database_cert: File | None = None
    """Our own certificate, for a Postgres that asks for one."""
    database_key: File | None = None
    """The key of `database_cert`."""
    http_cert: File | None = None
    """The certificate (with its chain) of the REST interface, which then speaks HTTPS only."""
    http_key: File | None = None
    """The key of `http_cert`, if it is in a file of its own."""
    s3_ca: File | None = None
    """Who signed the certificate of the S3 service, if not one of the usual authorities."""

    # Access
    token: Token | None = None
    """The administrator's token; `waterclock up` makes one if none is given."""
    secrets_key: (
        Annotated[str, Meta(min_length=1, description="keys in base64, separated by commas")] | None
    ) = None
    """Encrypts secrets: 32 bytes in base64. Of several, separated by commas, the first encrypts and all decrypt.
    Without it `waterclock up` keeps one in `DIR/secrets.key`."""
    auth: Annotated[Literal["on", "off"], Meta(description="on or off")] = "on"
    """`off` lets everybody in who can reach the port; only on loopback."""
    cors_origins: tuple[Origin, ...] = ()
    """Web pages of other origins that may call the api: `https://ops.example.org`, several separated by commas; `*` for
    all. A page brings its token itself: cookies are never taken from another origin."""
    allowed_hosts: tuple[HostName, ...] = ()
    """Names by which callers may reach the api, beside addresses, names without a dot and those that no public DNS has:
    `jobs.example.org`, several separated by commas; `*` for any."""
    metrics_access: Annotated[
        Literal["loopback", "token", "open"], Meta(description="loopback, token or open")
    ] = "loopback"
    """Who may read `/metrics`: whoever has a token, and with `loopback` also whoever is on this machine, with `open`
    everybody."""
    http_connections: Annotated[int, Meta(ge=1, le=100_000, description="a number from 1 to 100000")] = 2000
    """How many connections the REST interface keeps open at once."""
    rate_limit: Annotated[float, Meta(gt=0, le=1e6, description="requests a second, above 0")] | None = None
    """Requests a second for tokens made without a rate of their own; the one that `up` writes has none."""

    streams_per_token: Annotated[int, Meta(ge=1, le=100_000, description="a number from 1 to 100000")] = 100
    """How many watches, logs and other streams whoever has a token may follow at a time, at each api."""

    # Size of the installation
    partitions: Annotated[int, Meta(ge=1, le=4096, description="a number from 1 to 4096")] = 16
    """How many parts the jobs are divided into. Fixed by the first start on a server."""
    replicas: Annotated[Literal[1, 3, 5], Meta(description="1, 3 or 5")] = 1
    """Copies of each stream; more than one needs a cluster of that many NATS servers."""
    lease_seconds: Annotated[float, Meta(ge=1, le=60, description="seconds, from 1 to 60")] = 1.5
    """How long a scheduler may be silent until others take it for dead, and take its partitions. The same for all."""
    schedulers: Count = 1
    """How many schedulers `waterclock up` runs."""
    executors: Count = 1
    """How many executors `waterclock up` runs."""
    projectors: Count = 1
    """How many projectors `waterclock up` runs."""

    # Executor
    queue: QueueName = "default"
    """The queue that an executor takes work from."""
    tier: Annotated[Literal["light", "medium", "heavy"], Meta(description="light, medium or heavy")] = "heavy"
    """The heaviest work an executor takes; it takes the lighter kinds too."""
    slots: Annotated[int, Meta(ge=1, le=100_000, description="a number from 1 to 100000")] = 64
    """How many attempts an executor runs at once."""
    worker: tuple[WorkerName, ...] = ()
    """Python handlers to run, as MODULE:NAME of a `Worker`; several are separated by commas."""
    ack_wait_seconds: Annotated[float, Meta(ge=1, le=300, description="seconds, from 1 to 300")] = 5.0
    """How long a silent executor keeps an attempt before it goes to another."""
    stop_grace_seconds: Seconds = 10.0
    """How long a job's process that was told to stop has before it is killed."""
    output_limit: Bytes = 10 * 1024 * 1024
    """How many bytes of an attempt's output are kept."""
    http_private: bool = False
    """Whether HTTP jobs may call loopback, private and other addresses that are not on the public net."""
    http_loopback: bool | None = None
    """Whether HTTP jobs may call loopback addresses. Without a value only where `waterclock up` runs everything on one
    machine, whose commands can do so anyway."""
    run_as: Annotated[str, Meta(min_length=1, description="the name of a user")] | None = None
    """The user that commands run as; only root can choose another than itself. Without a value each running job of a
    root executor has a user of its own; `root` lets them run as root, and read all that root can."""
    job_processes: Processes = 4096
    """How many processes and threads a job may have; where jobs share a user, all of them together."""
    job_processes_max: Processes = 16_384
    """How many a job may ask for in its `limits`."""
    job_file_bytes: Bytes = 16 * 1024 * 1024 * 1024
    """How large a file a job may write."""
    job_file_bytes_max: Bytes = 1024 * 1024 * 1024 * 1024
    """How large a file a job may ask for in its `limits`."""
    jobs_memory_bytes: Bytes | None = None
    """How much memory the jobs of an executor may use together, where it can make a cgroup (version 2) for them.
    Without a value four fifths of what the machine has."""
    cache_bytes: Bytes = 1024 * 1024 * 1024
    """How many bytes an executor keeps of the artifacts it has fetched."""

    # Storage
    store: StoreUrl | None = None
    """Where artifacts and logs are kept: an S3 bucket. Without a value they are kept in JetStream."""
    s3_endpoint: HttpUrl | None = None
    """The address of an S3 service other than Amazon's."""
    retention_days: Annotated[float, Meta(ge=1, le=36_500, description="days, from 1 to 36500")] = 90.0
    """How long runs stay in the read models; a job may ask for less."""

    # What a definition does not say
    default_max_retries: Annotated[int, Meta(ge=0, le=1_000, description="a number from 0 to 1000")] = 3
    """Attempts after the first, of jobs and nodes that do not say. A namespace may have its own."""
    default_timeout_seconds: Annotated[
        float, Meta(ge=0, le=3_155_760_000, description="seconds, from 0 (none) to a century")
    ] = 3600.0
    """The longest that an attempt may take, of jobs and nodes that do not say; 0: as long as it likes."""

    log_bytes: (
        Annotated[int, Meta(ge=1_000_000, description="a number of bytes, at least 1000000")] | None
    ) = None
    """What the streams may hold, all together; each has its share, and when that is full it refuses what is new: then
    callers get 503, nothing is lost, and `status` is red. Without a value the embedded server gets three quarters of
    the disk that was free at its first start, and a server of your own no limit."""

    # Limits
    payload_limit: Bytes = 1024 * 1024
    """How many bytes the payload of a job may have."""
    grace_seconds: Seconds = 10.0
    """How long a component may finish what it has in hand after it was told to stop."""

    # Alerts
    alert_webhook: HttpUrl | None = None
    """Where alerts are sent; without it none are."""
    alert_format: Annotated[
        Literal["generic", "slack", "pagerduty"], Meta(description="generic, slack or pagerduty")
    ] = "generic"
    """The form of the message that the receiver expects."""
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
    """Labels of jobs about which no alert is sent: `env=dev,team=qa`."""
    alert_lag_seconds: Seconds = 60.0
    """How late runs may begin before an alert is sent."""
    alert_no_executor_seconds: Seconds = 60.0
    """How long work may wait that no executor takes before an alert is sent."""
    alert_failure_rate: Annotated[float, Meta(ge=0, le=1, description="a share from 0 (off) to 1")] = 0.5
    """The share of failures at which an alert is sent, of at least 20 runs that ended in five minutes."""
    alert_repeat_seconds: Seconds = 3600.0
    """How long the same alert is not sent again."""
    alert_give_up_seconds: Annotated[
        float, Meta(ge=1, le=2_592_000, description="seconds, from 1 to 2592000")
    ] = 86_400.0
    """How long an alert that its receiver does not take is tried again."""
    alert_timeout_seconds: Annotated[float, Meta(ge=0.1, le=60, description="seconds, from 0.1 to 60")] = 10.0
    """How long the receiver has to answer."""

    # Logs and metrics
    metrics_port: Port | None = None
    """Where a component serves Prometheus metrics; without it nowhere. The api serves them at `/metrics`."""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="debug, info, warning or error")
    ] = "info"
    """The least severe messages that are logged."""
    log_format: Annotated[Literal["auto", "human", "json"], Meta(description="auto, human or json")] = "auto"
    """`auto`: lines for people on a terminal, JSON otherwise."""


def environment_variable(setting: str) -> str:
    return ENVIRONMENT_PREFIX + setting.upper()


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment for programs that are none of ours: without what is secret, or may hold a password."""
    hidden = {environment_variable(name) for name in (*_SECRET, "nats_url", "database_url")}
    return {name: value for name, value in environ.items() if name not in hidden}


def as_environment(settings: Settings, *, without: Collection[str] = ()) -> dict[str, str]:
    """The variables from which another process loads these same settings."""
    values = {
        field.name: getattr(settings, field.name)
        for field in msgspec.structs.fields(Settings)
        if field.name not in without
    }
    return {
        environment_variable(name): ",".join(value) if isinstance(value, tuple) else str(value)
        for name, value in values.items()
        if value is not None
    }


def secrets_of(settings: Settings) -> dict[str, str]:
    """Those that are not for the environment, as `load` reads them from the descriptor in `SECRETS_FD`."""
    return {name: value for name in SECRETS if (value := getattr(settings, name)) is not None}


_secrets: dict[str, str] = {}


def _inherited_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Read once; afterwards nobody else can."""
    descriptor = environ.get(SECRETS_FD)
    if descriptor is not None:
        os.environ.pop(SECRETS_FD, None)
        with open(int(descriptor), "rb") as pipe:
            _secrets.update(msgspec.json.decode(pipe.read(), type=dict[str, str]))
    return _secrets


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
    secrets = _inherited_secrets(environ)
    for name, field in fields.items():
        variable = environment_variable(name)
        if flags.get(name) is not None:
            values[name] = _convert(name, flags[name], field.type, f"flag --{name.replace('_', '-')}")
        elif name in secrets:
            values[name] = _convert(name, secrets[name], field.type, "waterclock up")
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
    if get_origin(wanted) is tuple and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        converted = msgspec.convert(value, wanted, strict=False, dec_hook=_from_text)
    except (msgspec.ValidationError, ValueError):
        raise SettingsError(key, expectation(wanted), found, where) from None
    if converted != converted:  # not a number: no bound catches it
        raise SettingsError(key, expectation(wanted), found, where)
    return converted


def _from_text(wanted: type, value: object) -> object:
    if wanted is Path and isinstance(value, str) and value:
        return Path(value)
    if isinstance(value, wanted):
        return value
    raise ValueError(f"{value!r} is no {wanted.__name__}")


def expectation(wanted: Any) -> str:
    """What a value of this type must be, in words."""
    for meta in getattr(wanted, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    return next(filter(None, map(expectation, get_args(wanted))), "")


def _shown(key: str, found: object) -> str:
    """Errors end up in logs: no token, and of a URL no password."""
    text = str(found)
    if key in _SECRET:
        return f"{len(text)} characters"
    text = _USER_OF_URL.sub("://…@", text)
    return f"'{text[:80]}…'" if len(text) > 80 else f"'{text}'"
