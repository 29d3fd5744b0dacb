"""Who may publish and subscribe to what on NATS: one role for each kind of program, with the least it needs.

Made from `ROLES`: the embedded server's configuration, the cluster's (`deploy/nats/users.conf`), and the table in
`docs/security.md`.
"""

import json
import sys
from collections.abc import Iterable, Mapping

from msgspec import Struct

from waterclock.core.runtime.data_directory import inbox_of
from waterclock.core.runtime.embedded.nats import Permissions, nats_users
from waterclock.proto import names

_API = "$JS.API"


class Role(Struct, frozen=True, kw_only=True):
    """Streams by what is done with them; subjects where it is about messages."""

    name: str
    purpose: str
    publishes: tuple[str, ...] = ()
    subscribes: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    """Roles whose requests it answers, into their inboxes."""
    reads: tuple[str, ...] = ()
    """Streams read in order, and message by message."""
    gets: tuple[str, ...] = ()
    """Streams of which single messages are looked up."""
    takes: tuple[str, ...] = ()
    """Work queues whose messages are pulled and acknowledged."""
    counts: tuple[str, ...] = ()
    """Streams whose consumers are listed, to see how much waits."""
    purges: tuple[str, ...] = ()
    """Streams of which messages are removed."""
    everything: bool = False
    plain_inbox: bool = False
    """Receives answers under `_INBOX`, the default of every NATS tool."""

    @property
    def inbox(self) -> str:
        """Where answers to it arrive. Nobody else can listen there."""
        return "_INBOX" if self.plain_inbox else inbox_of(self.name)

    def may_publish(self) -> list[str]:
        if self.everything:
            return [">"]
        subjects = [*self.publishes, *(f"{ROLE[name].inbox}.>" for name in self.answers)]
        subjects += [f"$JS.ACK.{stream}.>" for stream in self.takes]
        return subjects + [f"{_API}.{call}" for call in self._calls()]

    def may_subscribe(self) -> list[str]:
        return [">"] if self.everything else [*self.subscribes, f"{self.inbox}.>"]

    def _calls(self) -> Iterable[str]:
        if self.reads or self.takes:
            yield "STREAM.NAMES"
            yield "STREAM.INFO.*"
        for stream in self.reads:
            yield from (f"CONSUMER.{verb}.{stream}.*" for verb in ("CREATE", "INFO", "DELETE", "MSG.NEXT"))
        for stream in self.takes:
            yield from (f"CONSUMER.{verb}.{stream}.*" for verb in ("CREATE", "INFO", "MSG.NEXT"))
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
            names.HANDOVER,
            names.kv_subject(names.TIMING, ">"),
            *_control(names.member_key("scheduler", "*"), "snapshot.>", names.cancel_key("*")),
        ),
        subscribes=(names.claim_subject(), names.HANDOVER),
        answers=("executor",),
        reads=(names.JOBS, names.RUNS, _TIMING, _CONTROL, _ARTIFACTS),
        gets=(names.WORK,),
        purges=(names.WORK, _TIMING, _CONTROL),
    ),
    Role(
        name="executor",
        purpose="runs attempts; a Python worker too",
        publishes=(
            _RUNS,
            names.claim_subject(),
            names.log_filter("*"),
            f"$O.{names.LOGS}.>",
            *_control(names.member_key("executor", "*"), "run.*", "key.*.*", "rate.*"),
        ),
        subscribes=(
            "wc.work.>",
            names.stop_subject("*"),
            names.tell_subject("*"),
            *_control(names.cancel_key("*")),
        ),
        answers=("api",),
        reads=(_CONTROL, _ARTIFACTS, _SECRETS),
        gets=(_LOGS,),
        takes=(names.WORK,),
        purges=(names.WORK,),
    ),
    Role(
        name="projector",
        purpose="fills the read models",
        publishes=_control(names.member_key("projector", "*"), names.ALERTS_KEY, names.HALT_KEY),
        subscribes=(names.FRESHNESS_WANTED,),
        reads=(names.JOBS, names.RUNS, _CONTROL),
        counts=(names.WORK,),
        gets=(names.WORK,),
    ),
    Role(
        name="api",
        purpose="accepts, changes and shows",
        publishes=(
            _JOBS,
            _RUNS,
            names.tell_subject("*"),
            names.FRESHNESS_WANTED,
            f"$O.{names.ARTIFACTS}.>",
            f"$O.{names.LOGS}.>",
            *_control("token.*", "namespace.*", "artifact.*.*", "backfill.*.*", "dependencies"),
            *_control(names.member_key("api", "*")),
            names.kv_subject(names.SECRETS, ">"),
            names.access_subject("*", "*"),
        ),
        subscribes=(f"{names.SERVICE_PREFIX}.>", "$SRV.>", names.log_filter("*")),
        answers=("client", "admin"),
        reads=(names.JOBS, names.RUNS, _CONTROL, _ARTIFACTS, _LOGS, _SECRETS, names.ACCESS),
        counts=(names.WORK,),
        gets=(names.WORK,),
        purges=(_ARTIFACTS, _LOGS),
    ),
    Role(
        name="client",
        purpose="command line, Python client, any NATS tool",
        publishes=(f"{names.SERVICE_PREFIX}.>", "$SRV.>"),
        plain_inbox=True,
    ),
    Role(name="admin", purpose="operators; `up` and `setup`, to lay out the streams", everything=True),
)

ROLE: Mapping[str, Role] = {role.name: role for role in ROLES}


PERMISSIONS: Mapping[str, Permissions] = {
    role.name: {
        "publish": {"allow": role.may_publish()},
        "subscribe": {"allow": role.may_subscribe()},
    }
    for role in ROLES
}
"""What a server's configuration says about each user. What is not allowed is denied."""


def table() -> str:
    """The same for people, in Markdown."""
    lines = [
        "| user | publishes | listens to | reads in order | looks up | takes work | purges |",
        "|---|---|---|---|---|---|---|",
    ]
    for role in ROLES:
        subjects = (*role.publishes, *(f"{ROLE[name].inbox}.>" for name in role.answers))
        cells = (
            f"**{role.name}**: {role.purpose}",
            "`>`" if role.everything else _listed(subjects),
            "`>`" if role.everything else _listed(role.may_subscribe()),
            "all" if role.everything else _listed(role.reads),
            "all" if role.everything else _listed((*role.gets, *(f"{s} consumers" for s in role.counts))),
            "all" if role.everything else _listed(role.takes),
            "all" if role.everything else _listed(role.purges),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _listed(items: Iterable[str]) -> str:
    return ", ".join(f"`{item}`" for item in items) or "–"


def server_config() -> str:
    """The same for a server of your own. Passwords come from its environment: `NATS_SCHEDULER_PASSWORD` and so on."""
    variables = {name: f"$NATS_{name.upper()}_PASSWORD" for name in ROLE}
    listed = json.dumps(nats_users(PERMISSIONS, variables), indent=2)
    for variable in variables.values():
        listed = listed.replace(f'"{variable}"', variable)
    return f"# Made by `python -m waterclock.core.jetstream.permissions --config`.\nusers: {listed}"


if __name__ == "__main__":
    print(server_config() if sys.argv[1:] == ["--config"] else table())
