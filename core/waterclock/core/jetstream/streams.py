"""The streams waterclock lives on: what each is for, and bringing a server to that."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import LayoutError, NameInUse, NotFound, ServerRefused
from waterclock.proto import names

_SECOND = 1_000_000_000
_DAY = 86_400
_PARTITIONS = "waterclock.partitions"

MAX_CONSUMERS = 10_000
"""Said explicitly, since the server's default is 1,000 for a stream."""

_ACCESS_BYTES = 128 << 20
_ACCESS_RECORDS = 50_000

ACK_WAIT = 5.0
MAX_ACK_PENDING = 20_000
MAX_WAITING = 4096


SHARES = {
    names.JOBS: 0.1,
    names.RUNS: 0.3,
    names.WORK: 0.1,
    names.kv_stream(names.TIMING): 0.25,
    names.kv_stream(names.CONTROL): 0.1,
    names.object_stream(names.ARTIFACTS): 0.05,
    names.object_stream(names.LOGS): 0.1,
}
"""Of the bytes that all streams may hold. The others are small, and have a limit of their own. What is accepted has the
least room beside what is made of it (the timing index holds each definition once more): so it is `JOBS` that is full
first, and a caller who is refused, not a partition that has to wait."""


class Layout(Struct, frozen=True, kw_only=True):
    """At a limit of bytes a stream refuses the new, it never drops the old. None: the limit stays as it is, which at
    first is none."""

    partitions: int = 16
    replicas: int = 1
    runs_max_age_days: float = 30
    logs_max_age_days: float = 30
    total_bytes: int | None = None
    """What all streams together may hold; each gets its share."""
    only_unlimited: bool = False
    """Leave streams alone that have a limit, or hold too much for theirs."""
    work_duplicate_seconds: float = 10
    """How long `WORK` remembers message ids, at 220 bytes each: two minutes of 25,000 a second were 660 MB."""


async def ensure_streams(connection: Connection, layout: Layout) -> None:
    """Create what is missing and change what differs. LayoutError names what cannot be changed."""
    for config in stream_configs(layout):
        await _ensure_stream(connection, config, only_unlimited=layout.only_unlimited)


async def ensure_work_consumers(connection: Connection, lines: Iterable[tuple[str, str, str]]) -> None:
    """One durable consumer for each (route, tier, line). Attempts are counted in events, not by the server."""
    configs = [
        {
            "durable_name": names.work_consumer(route, tier, line),
            "filter_subject": names.work_filter(route, tier, line),
            "ack_policy": "explicit",
            "ack_wait": int(ACK_WAIT * _SECOND),
            "max_deliver": -1,
            "max_ack_pending": MAX_ACK_PENDING,
            "max_waiting": MAX_WAITING,
        }
        for route, tier, line in lines
    ]
    create = f"CONSUMER.CREATE.{names.WORK}"
    requests = [
        connection.api(f"{create}.{config['durable_name']}", {"stream_name": names.WORK, "config": config})
        for config in configs
    ]
    await asyncio.gather(*requests)


def stream_configs(layout: Layout) -> list[dict[str, Any]]:
    """The desired configurations; what is not named here stays as the server or an operator has it."""
    common: dict[str, Any] = {
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "num_replicas": layout.replicas,
        "max_consumers": MAX_CONSUMERS,
        "duplicate_window": 120 * _SECOND,
    }
    bucket = common | {
        "max_msgs_per_subject": 1,
        "allow_atomic": True,
        "allow_direct": True,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
        "duplicate_window": 30 * _SECOND,
    }
    objects = common | {
        "allow_atomic": True,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
    }
    configs = [
        _jobs(common, layout),
        _runs(common, layout),
        _work(common, layout),
        bucket | _named(names.kv_stream(names.TIMING), names.kv_subject(names.TIMING, ">")),
        # A marker shows those who follow the bucket that a member has expired.
        bucket
        | _named(names.kv_stream(names.CONTROL), names.kv_subject(names.CONTROL, ">"))
        | {"subject_delete_marker_ttl": 60 * _SECOND},
        bucket | _named(names.kv_stream(names.SECRETS), names.kv_subject(names.SECRETS, ">")),
        _access(common),
        # The oldest leaves for the newest: it is there to be looked at, and nothing is made from it.
        common
        | _named(names.QUARANTINE, names.quarantine_subject("*"))
        | {"discard": "old", "max_msgs": 1000, "max_msgs_per_subject": 1, "max_bytes": 64 * 1024 * 1024},
        objects | _object_names(names.ARTIFACTS),
        objects | _object_names(names.LOGS) | {"max_age": _days(layout.logs_max_age_days)},
    ]
    if layout.total_bytes is None:
        return configs
    return [
        config | {"max_bytes": int(layout.total_bytes * SHARES[config["name"]])}
        if config["name"] in SHARES
        else config
        for config in configs
    ]


def _jobs(common: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """Rollup and time to live together are how a finished job leaves; the server wants purging allowed for that."""
    return {
        **common,
        **_named(names.JOBS, "wc.jobs.>"),
        "metadata": {_PARTITIONS: str(layout.partitions)},
        "allow_atomic": True,
        "allow_direct": True,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
    }


def _runs(common: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """No delete markers: they would raise the time to live of a lease to their own. (The version before wrote such.)"""
    return {
        **common,
        **_named(names.RUNS, names.runs_subject(), names.lease_subject()),
        "metadata": {_PARTITIONS: str(layout.partitions)},
        "max_age": _days(layout.runs_max_age_days),
        "allow_atomic": True,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
    }


def _work(common: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """Derived, so it need not be synced: thirteen times as many acks a second. A cluster refuses that mode."""
    return {
        **common,
        **_named(names.WORK, "wc.work.>"),
        "retention": "workqueue",
        "max_msgs_per_subject": 1,
        "discard_new_per_subject": True,
        "duplicate_window": int(layout.work_duplicate_seconds * _SECOND),
        "persist_mode": "async" if layout.replicas == 1 else "default",
    }


def _access(common: Mapping[str, Any]) -> dict[str, Any]:
    """Who did what. Nobody can remove a record, and however many are denied they push out only one another: each
    namespace and kind has a subject of its own, with room for so many."""
    return {
        **common,
        **_named(names.ACCESS, "wc.access.>"),
        "discard": "old",
        "max_bytes": _ACCESS_BYTES,
        "max_msgs_per_subject": _ACCESS_RECORDS,
        "deny_delete": True,
        "deny_purge": True,
    }


def _named(name: str, *subjects: str) -> dict[str, Any]:
    return {"name": name, "subjects": list(subjects)}


def _object_names(bucket: str) -> dict[str, Any]:
    return _named(names.object_stream(bucket), f"$O.{bucket}.C.>", f"$O.{bucket}.M.>")


def _days(days: float) -> int:
    return int(days * _DAY) * _SECOND


async def _ensure_stream(
    connection: Connection, desired: dict[str, Any], *, only_unlimited: bool = False
) -> None:
    name = desired["name"]
    try:
        info = await connection.api(f"STREAM.INFO.{name}")
    except NotFound:
        try:
            await connection.api(f"STREAM.CREATE.{name}", desired)
            return
        except NameInUse:  # somebody else has just created it
            info = await connection.api(f"STREAM.INFO.{name}")
        except ServerRefused as error:
            raise LayoutError(f"{name} cannot be created: {error}") from error
    found = info["config"]
    if only_unlimited and (
        found["max_bytes"] > 0 or 2 * info["state"]["bytes"] > desired.get("max_bytes", 0)
    ):
        desired = {key: value for key, value in desired.items() if key != "max_bytes"}
    changes = _changes(found, desired)
    if not changes:
        return
    _check_possible(name, changes, info["state"]["bytes"])
    metadata = {**found.get("metadata", {}), **desired.get("metadata", {})}
    try:
        await connection.api(f"STREAM.UPDATE.{name}", {**found, **desired, "metadata": metadata})
    except ServerRefused as error:
        raise LayoutError(f"{name} cannot be changed ({_spelled(changes)}): {error}") from error


_Changes = dict[str, tuple[Any, Any]]


def _changes(found: Mapping[str, Any], desired: Mapping[str, Any]) -> _Changes:
    """What differs, as (found, desired)."""
    kept = found.get("metadata", {})
    wanted = {key: value for key, value in desired.items() if key != "metadata"}
    changes = {
        key: (found.get(key), value) for key, value in wanted.items() if not _same(found.get(key), value)
    }
    for key, value in desired.get("metadata", {}).items():
        if kept.get(key) != value:
            changes[key] = (kept.get(key), value)
    return changes


def _same(found: Any, desired: Any) -> bool:
    return found == desired or (found is None and desired in (False, 0, "default"))


def _check_possible(name: str, changes: _Changes, stored: int) -> None:
    partitions = changes.get(_PARTITIONS)
    if partitions is not None and partitions[0] is not None:
        raise LayoutError(
            f"{name} was made for {partitions[0]} partitions and cannot have {partitions[1]}: "
            "jobs would change their partition"
        )
    max_bytes = changes.get("max_bytes")
    if max_bytes is not None and 0 <= max_bytes[1] < stored:
        raise LayoutError(f"{name} holds {stored} bytes and cannot be limited to {max_bytes[1]}")


def _spelled(changes: _Changes) -> str:
    return ", ".join(f"{key}: {found!r} to {desired!r}" for key, (found, desired) in changes.items())
