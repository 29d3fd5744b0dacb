"""The streams waterclock lives on, and their one true configuration."""

import asyncio
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from waterclock.core.jetstream.connection import Connection
from waterclock.core.jetstream.errors import NotFound
from waterclock.proto import names

_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND


class Layout(Struct, frozen=True, kw_only=True):
    partitions: int = 16
    replicas: int = 1
    runs_max_age_days: float = 30
    logs_max_age_days: float = 30
    jobs_max_bytes: int = -1
    runs_max_bytes: int = -1
    work_max_bytes: int = -1
    objects_max_bytes: int = -1


async def ensure_streams(connection: Connection, layout: Layout) -> None:
    """Create what is missing and bring what exists to the layout."""
    for config in stream_configs(layout):
        name = config["name"]
        try:
            await connection.api(f"STREAM.INFO.{name}")
        except NotFound:
            await connection.api(f"STREAM.CREATE.{name}", config)
        else:
            await connection.api(f"STREAM.UPDATE.{name}", config)


async def ensure_work_consumers(connection: Connection, routes: Iterable[tuple[str, str]]) -> None:
    """One durable per (route, tier) and band."""
    await asyncio.gather(
        *(
            _ensure_work_consumer(connection, route, tier, band)
            for route, tier in routes
            for band in range(len(names.BANDS))
        )
    )


async def _ensure_work_consumer(connection: Connection, route: str, tier: str, band: int) -> None:
    name = names.work_consumer(route, tier, band)
    config = {
        "durable_name": name,
        "filter_subject": names.work_filter(route, tier, band),
        "ack_policy": "explicit",
        "ack_wait": 5 * _SECOND,
        "max_deliver": -1,
        "max_ack_pending": 20_000,
        "max_waiting": 4096,
    }
    await connection.api(
        f"CONSUMER.CREATE.{names.WORK}.{name}.{config['filter_subject']}",
        {"stream_name": names.WORK, "config": config},
    )


def stream_configs(layout: Layout) -> list[dict[str, Any]]:
    common = {"storage": "file", "num_replicas": layout.replicas, "retention": "limits", "discard": "new"}
    jobs = {
        **common,
        "name": names.JOBS,
        "subjects": ["wc.jobs.>"],
        "max_bytes": layout.jobs_max_bytes,
        "allow_atomic": True,
        "allow_msg_ttl": True,
        "allow_direct": True,
        "deny_delete": True,
        "max_consumers": 10_000,
    }
    runs = {
        **common,
        "name": names.RUNS,
        "subjects": [names.runs_subject(), names.lease_subject()],
        "max_bytes": layout.runs_max_bytes,
        "max_age": int(layout.runs_max_age_days * _DAY),
        "allow_atomic": True,
        "allow_msg_ttl": True,
        "allow_rollup_hdrs": True,
        "max_consumers": 10_000,
    }
    work = {
        **common,
        "name": names.WORK,
        "subjects": ["wc.work.>"],
        "retention": "workqueue",
        "max_bytes": layout.work_max_bytes,
        "max_msgs_per_subject": 1,
        "discard_new_per_subject": True,
        "duplicate_window": 120 * _SECOND,
        "max_consumers": 10_000,
    }
    if layout.replicas == 1:
        work["persist_mode"] = "async"
    kv = {
        **common,
        "max_msgs_per_subject": 1,
        "allow_msg_ttl": True,
        "allow_atomic": True,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "max_consumers": 10_000,
    }
    timing = {**kv, "name": names.kv_stream(names.TIMING), "subjects": [names.kv_subject(names.TIMING, ">")]}
    control = {
        **kv,
        "name": names.kv_stream(names.CONTROL),
        "subjects": [names.kv_subject(names.CONTROL, ">")],
        "subject_delete_marker_ttl": 60 * _SECOND,
    }
    objects = [
        {
            **common,
            "name": f"OBJ_{bucket}",
            "subjects": [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"],
            "max_bytes": layout.objects_max_bytes,
            "max_age": age,
            "allow_rollup_hdrs": True,
            "allow_direct": True,
            "max_consumers": 10_000,
        }
        for bucket, age in ((names.ARTIFACTS, 0), (names.LOGS, int(layout.logs_max_age_days * _DAY)))
    ]
    return [jobs, runs, work, timing, control, *objects]
