"""Who may publish and subscribe to what on NATS: one role for each kind of program, with the least it needs.

Made from `ROLES`: the embedded server's configuration, that of a server of your own (`waterclock nats-config`,
`deploy/nats/users.conf`), what the api lets the holder of a token do, and the table in `docs/security.md`.

There are three accounts, since a user of one account cannot reach what another does not export:

LOG         the streams, and who decides and shows: scheduler, projector, api. Nobody else's answers arrive here
EXECUTORS   who runs attempts. What an executor asks of JetStream is answered within EXECUTORS, wherever it says that
            the answer is to go: so no answer can be had written into a stream
CLIENTS     whoever comes with a token, to call the service
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from waterclock.core.runtime.data_directory import inbox_of
from waterclock.proto import names

LOG = "LOG"
EXECUTORS = "EXECUTORS"
CLIENTS = "CLIENTS"
SYSTEM = "SYS"

ANSWERS = "_R_.>"
"""What the server makes of the reply subject of a request from another account."""

CALLOUT = "$SYS.REQ.USER.AUTH"
CONNECTIONS = "$SYS.REQ.SERVER.PING.CONNZ"
KICK = "$SYS.REQ.SERVER.*.KICK"

_API = names.JETSTREAM_API
_MOST_EXACT_BYTES = 450_000
"""The server is told each consumer that a worker may take from by its name, in one message of at most a megabyte, which
is nearly twice what stands in it. A token for more routes, ten or so, is not told those of exact priorities: their work
is then ordered by ranges of priorities."""
_AUTH_TIMEOUT_SECONDS = 1.5
"""How long the server waits for an api to say whether somebody may come in."""
_PULL_ANSWERED_WITHIN = "30s"
_STREAM_SILENT_FOR = "10m"
"""After so long without an answer the server forgets where the answers to a request go."""


class Role(Struct, frozen=True, kw_only=True):
    """Streams by what is done with them; subjects where it is about messages."""

    name: str
    purpose: str
    account: str = LOG
    publishes: tuple[str, ...] = ()
    subscribes: tuple[str, ...] = ()
    answers: bool = False
    """Whether it answers requests from other accounts, more than one message each."""
    responds: bool = False
    """Whether it answers requests, with one message each."""
    reads: tuple[str, ...] = ()
    """Streams read in order, and message by message."""
    gets: tuple[str, ...] = ()
    """Streams of which single messages are looked up."""
    takes: tuple[str, ...] = ()
    """Work queues whose messages are pulled and acknowledged."""
    makes: tuple[str, ...] = ()
    """Work queues whose consumers it makes and removes."""
    watches: tuple[str, ...] = ()
    """Streams whose state it asks for, beside those that it reads."""
    counts: tuple[str, ...] = ()
    """Streams whose consumers are listed, to see how much waits."""
    purges: tuple[str, ...] = ()
    """Streams of which messages are removed."""
    everything: bool = False

    @property
    def inbox(self) -> str:
        """Where answers to it arrive. Nobody else can listen there."""
        return inbox_of(self.name)

    def may_publish(self) -> list[str]:
        if self.everything:
            return [">"]
        subjects = [*self.publishes, *([ANSWERS] if self.answers else [])]
        subjects += [f"$JS.ACK.{stream}.>" for stream in self.takes]
        return subjects + [f"{self._api}.{call}" for call in self._calls()]

    @property
    def _api(self) -> str:
        return names.EXECUTORS_API if self.account == EXECUTORS else _API

    def may_subscribe(self) -> list[str]:
        return [">"] if self.everything else [*self.subscribes, f"{self.inbox}.>"]

    def permissions(self) -> dict[str, Any]:
        """What is not allowed is denied."""
        found: dict[str, Any] = {
            "publish": {"allow": self.may_publish()},
            "subscribe": {"allow": self.may_subscribe()},
        }
        if self.responds:
            found["allow_responses"] = {"max": 1, "expires": "1m"}
        return found

    def _calls(self) -> Iterable[str]:
        if self.reads:
            yield "STREAM.NAMES"
            yield "STREAM.INFO.*"
        for stream in self.watches:
            yield f"STREAM.INFO.{stream}"
        for stream in self.reads:
            yield from (f"CONSUMER.{verb}.{stream}.*" for verb in ("CREATE", "INFO", "DELETE", "MSG.NEXT"))
        for stream in self.makes:
            yield from (f"CONSUMER.{verb}.{stream}.*" for verb in ("CREATE", "DELETE"))
            yield from (f"CONSUMER.{verb}.{stream}" for verb in ("NAMES", "LIST"))
        for stream in self.takes:
            yield from (f"CONSUMER.{verb}.{stream}.*" for verb in ("INFO", "MSG.NEXT"))
        for stream in self.counts:
            yield f"CONSUMER.LIST.{stream}"
            yield f"CONSUMER.INFO.{stream}.*"
        for stream in (*self.reads, *self.gets, *self.takes):
            yield f"STREAM.MSG.GET.{stream}"
        for stream in self.purges:
            yield f"STREAM.PURGE.{stream}"


def _control(*keys: str) -> tuple[str, ...]:
    return tuple(names.kv_subject(names.CONTROL, key) for key in keys)


_JOBS = names.jobs_of_partition()
_RUNS = names.runs_subject()
_CONTROL = names.kv_stream(names.CONTROL)
_TIMING = names.kv_stream(names.TIMING)
_ARTIFACTS = names.object_stream(names.ARTIFACTS)
_LOGS = names.object_stream(names.LOGS)
_SECRETS = names.kv_stream(names.SECRETS)
_SECRET_KEYS = names.kv_subject(names.SECRETS, ">")
_SERVICE = (f"{names.SERVICE_PREFIX}.>", "$SRV.>")

_REPORTS = (
    _RUNS,
    names.claim_subject(),
    names.log_filter("*"),
    f"$O.{names.LOGS}.>",
    names.quarantine_subject("executor"),
    *_control(names.member_key("executor", "*"), "run.*", "key.*.*", "rate.*"),
)
"""What whoever runs attempts says about them."""

_HEARD_BY_EXECUTORS = (
    "wc.work.>",
    names.stop_subject("*"),
    names.LINES_MADE,
    *_control(names.cancel_key("*")),
    _SECRET_KEYS,
)

ROLES = (
    Role(
        name="scheduler",
        purpose="decides what is due",
        publishes=(
            _JOBS,
            _RUNS,
            names.lease_subject(),
            "wc.work.>",
            names.stop_subject("*"),
            names.LINES_MADE,
            names.HANDOVER,
            names.kv_subject(names.TIMING, ">"),
            names.quarantine_subject("scheduler"),
            *_control(names.member_key("scheduler", "*"), "snapshot.>", names.cancel_key("*")),
        ),
        subscribes=(
            names.claim_subject(),
            names.waiting_subject(),
            names.serve_subject("*", "*"),
            names.LINES_MADE,
            names.HANDOVER,
        ),
        answers=True,
        responds=True,
        reads=(names.JOBS, names.RUNS, _TIMING, _CONTROL, _ARTIFACTS),
        gets=(names.WORK,),
        makes=(names.WORK,),
        purges=(names.WORK, _TIMING, _CONTROL),
    ),
    Role(
        name="executor",
        purpose="runs attempts; a Python worker too",
        account=EXECUTORS,
        publishes=(*_REPORTS, names.serve_subject("*", "*")),
        subscribes=(*_HEARD_BY_EXECUTORS, names.tell_subject("*")),
        responds=True,
        gets=(_CONTROL, _ARTIFACTS, _SECRETS),
        takes=(names.WORK,),
        watches=(names.RUNS,),
        purges=(names.WORK,),
    ),
    Role(
        name="projector",
        purpose="fills the read models",
        publishes=(
            names.quarantine_subject("projector"),
            *_control(names.member_key("projector", "*"), names.ALERTS_KEY, names.HALT_KEY),
        ),
        subscribes=(names.FRESHNESS_WANTED,),
        reads=(names.JOBS, names.RUNS, _CONTROL),
        counts=(names.WORK,),
        gets=(names.WORK, names.QUARANTINE),
    ),
    Role(
        name="api",
        purpose="accepts, changes and shows; says whose token is good",
        publishes=(
            _JOBS,
            _RUNS,
            names.tell_subject("*"),
            names.waiting_subject(),
            names.FRESHNESS_WANTED,
            f"$O.{names.ARTIFACTS}.>",
            f"$O.{names.LOGS}.>",
            names.quarantine_subject("*"),
            *_control("token.*", "session.*", "sign_in.*"),
            *_control("namespace.*", "artifact.*.*", "backfill.*.*", "dependencies"),
            *_control(names.member_key("api", "*")),
            _SECRET_KEYS,
            names.access_subject("*", "*"),
            CONNECTIONS,
            KICK,
        ),
        subscribes=(*_SERVICE, names.log_filter("*"), CALLOUT),
        answers=True,
        responds=True,
        reads=(names.JOBS, names.RUNS, _CONTROL, _ARTIFACTS, _LOGS, _SECRETS, names.ACCESS, names.QUARANTINE),
        counts=(names.WORK,),
        gets=(names.WORK,),
        purges=(_ARTIFACTS, _LOGS),
    ),
    Role(name="admin", purpose="operators; `up` and `setup`, to lay out the streams", everything=True),
)

ROLE: Mapping[str, Role] = {role.name: role for role in ROLES}

_SHARED_WITH_EXECUTORS = tuple(ROLE["executor"].may_publish())


def client_permissions(inboxes: Iterable[str]) -> dict[str, Any]:
    """Of whoever comes with a token: to call the service, and to hear its answers. In the form of a user's JWT."""
    return {
        "pub": {"allow": list(_SERVICE)},
        "sub": {"allow": [f"{inbox}.>" for inbox in inboxes]},
    }


def worker_permissions(
    inboxes: Iterable[str], queues: Sequence[str], handlers: Sequence[str], *, calls: bool
) -> dict[str, Any]:
    """Of a token to execute: the same as an executor, for the work of these queues and handlers only.

    `calls`: it may call the service as well. What is about runs cannot be told apart by subject: it can report on any.
    """
    api = names.EXECUTORS_API
    routes = [names.route_of(queue, handler) for queue in queues for handler in (None, *handlers)]
    of_ranges = [line for line in names.LINES if line.isdigit()]
    a_route = 2 * len(names.TIERS) * len(names.LINES)
    is_exact = a_route * sum(len(route) + 40 for route in routes) <= _MOST_EXACT_BYTES
    lines = names.LINES if is_exact else of_ranges
    asked = [*of_ranges, names.LINES[-1]] if is_exact else of_ranges  # the last is how it finds out
    consumers = [names.work_consumer(*each) for each in product(routes, names.TIERS, lines)]
    publish = [
        *_REPORTS,
        *(_SERVICE if calls else ()),
        *(names.serve_subject(route, "*") for route in routes),
        *(f"{api}.STREAM.INFO.{stream}" for stream in (names.RUNS,)),
        *(f"{api}.STREAM.MSG.GET.{stream}" for stream in (_CONTROL, _ARTIFACTS, _SECRETS)),
        *(
            f"{api}.CONSUMER.INFO.{names.WORK}.{names.work_consumer(*each)}"
            for each in product(routes, names.TIERS, asked)
        ),
        *(f"{api}.CONSUMER.MSG.NEXT.{names.WORK}.{name}" for name in consumers),
        *(f"$JS.ACK.{names.WORK}.{name}.>" for name in consumers),
    ]
    listen = [
        *(f"wc.work.{route}.>" for route in routes),
        *_HEARD_BY_EXECUTORS[1:],
        names.tell_subject("*"),
        *(f"{inbox}.>" for inbox in inboxes),
    ]
    return {
        "pub": {"allow": publish},
        "sub": {"allow": listen},
        "resp": {"max": 1, "ttl": 60_000_000_000},
    }


class _Access:
    """What `EmbeddedNats` needs to know."""

    users = tuple(ROLE)
    log_account = LOG

    def config(self, passwords: Mapping[str, str], issuer: str) -> dict[str, object]:
        return {
            "system_account": SYSTEM,
            "accounts": _accounts(passwords),
            "authorization": {
                "timeout": _AUTH_TIMEOUT_SECONDS,
                "auth_callout": {"issuer": issuer, "account": LOG, "auth_users": list(self.users)},
            },
        }


ACCESS = _Access()


def _accounts(passwords: Mapping[str, str]) -> dict[str, object]:
    def users(account: str) -> list[dict[str, object]]:
        return [
            {"user": role.name, "password": passwords[role.name], "permissions": role.permissions()}
            for role in ROLES
            if role.account == account
        ]

    asked = (CONNECTIONS, KICK)
    return {
        SYSTEM: {"exports": [_exported(subject, [LOG]) for subject in asked]},
        LOG: {
            "jetstream": "enabled",
            "users": users(LOG),
            "exports": [
                *(_exported(subject, [CLIENTS, EXECUTORS]) for subject in _SERVICE),
                *(_exported(_in_log(subject), [EXECUTORS]) for subject in _SHARED_WITH_EXECUTORS),
                *({"stream": subject, "accounts": [EXECUTORS]} for subject in _HEARD_BY_EXECUTORS),
            ],
            "imports": [
                *(_imported(SYSTEM, subject) for subject in asked),
                _imported(EXECUTORS, names.tell_subject("*")),
            ],
        },
        EXECUTORS: {
            "users": users(EXECUTORS),
            "exports": [_exported(names.tell_subject("*"), [LOG])],
            "imports": [
                *(_imported(LOG, subject) | {"share": True} for subject in _SERVICE),
                *(_imported(LOG, subject) for subject in _SHARED_WITH_EXECUTORS),
                *({"stream": {"account": LOG, "subject": subject}} for subject in _HEARD_BY_EXECUTORS),
            ],
        },
        # `share` has the server say in a header, which no client can set, who asks.
        CLIENTS: {"imports": [_imported(LOG, subject) | {"share": True} for subject in _SERVICE]},
    }


def _exported(subject: str, accounts: list[str]) -> dict[str, object]:
    found: dict[str, object] = {"service": subject, "accounts": accounts}
    if subject in _SERVICE or subject == CONNECTIONS:
        found |= {"response_type": "stream", "response_threshold": _STREAM_SILENT_FOR}
    elif ".MSG.NEXT." in subject:
        found |= {"response_type": "stream", "response_threshold": _PULL_ANSWERED_WITHIN}
    return found


def _imported(account: str, subject: str) -> dict[str, object]:
    found: dict[str, object] = {"service": {"account": account, "subject": _in_log(subject)}}
    return found if _in_log(subject) == subject else found | {"to": subject}


def _in_log(subject: str) -> str:
    """What executors know under another name."""
    if not subject.startswith(f"{names.EXECUTORS_API}."):
        return subject
    return _API + subject.removeprefix(names.EXECUTORS_API)


def table() -> str:
    """The same for people, in Markdown."""
    lines = [
        "| user | account | publishes | listens to | reads in order | looks up | takes work | purges |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for role in ROLES:
        subjects = (*role.publishes, *([ANSWERS] if role.answers else []))
        looks_up = (*role.gets, *(f"{stream} consumers" for stream in role.counts))
        takes = (*role.takes, *(f"{stream} (makes and removes its consumers)" for stream in role.makes))
        cells = (
            f"**{role.name}**: {role.purpose}",
            f"`{role.account}`",
            "`>`" if role.everything else _listed(subjects),
            "`>`" if role.everything else _listed(role.may_subscribe()),
            "all" if role.everything else _listed(role.reads),
            "all" if role.everything else _listed(looks_up),
            "all" if role.everything else _listed(takes),
            "all" if role.everything else _listed(role.purges),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _listed(items: Iterable[str]) -> str:
    return ", ".join(f"`{item}`" for item in items) or "–"


if __name__ == "__main__":
    print(table())
