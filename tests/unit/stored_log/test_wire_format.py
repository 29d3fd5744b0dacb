"""Everything an earlier version wrote is understood, and nothing of it is lost when it is written again."""

import json
import re
from typing import Any, get_args

import msgspec
import pytest

from stored_log.stored_log import VERSIONS, Message, load, load_traffic
from waterclock.api.auth.quotas import _Quota
from waterclock.api.auth.tokens import Grant
from waterclock.api.commands.dependencies import PendingEdit
from waterclock.api.queries.artifacts import Upload
from waterclock.api.queries.backfills import StoredBackfill
from waterclock.core.domain.partition.state import PartitionState
from waterclock.core.domain.timing_index import IndexEntry
from waterclock.executor.limits.exactly_once import Holder
from waterclock.projector.alerts.alert import AlertState
from waterclock.proto.events import Frame, JobEvent, JobFrame, RunEvent
from waterclock.proto.heartbeats import ExecutorHeartbeat, ProjectorHeartbeat, SchedulerHeartbeat
from waterclock.proto.work import ClaimRequest, StopRequest, WorkItem
from waterclock.scheduler.jetstream.snapshot_bucket import Manifest

FORMATS: list[tuple[str, Any]] = [
    (r"wc\.jobs\..*", JobFrame),
    (r"wc\.runs\..*", Frame),
    (r"wc\.work\..*", WorkItem),
    (r"wc\.claim\..*", ClaimRequest),
    (r"wc\.stop\..*", StopRequest),
    (r"\$KV\.timing\..*", IndexEntry),
    (r"\$KV\.control\.snapshot\.\d+\.manifest", Manifest),
    (r"\$KV\.control\.snapshot\.\d+\.\d+\.0", PartitionState),
    (r"\$KV\.control\.member\.scheduler\..*", SchedulerHeartbeat),
    (r"\$KV\.control\.member\.executor\..*", ExecutorHeartbeat),
    (r"\$KV\.control\.member\.projector\..*", ProjectorHeartbeat),
    (r"\$KV\.control\.token\..*", Grant),
    (r"\$KV\.control\.namespace\..*", _Quota),
    (r"\$KV\.control\.artifact\..*", Upload),
    (r"\$KV\.control\.backfill\..*", StoredBackfill),
    (r"\$KV\.control\.dependencies", dict[str, PendingEdit]),
    (r"\$KV\.control\.run\..*", Holder),
    (r"\$KV\.control\.alerts\.state", AlertState),
]
OPAQUE = re.compile(r"wc\.(lease|handover|tell)\b|\$KV\.control\.(key|rate)\.|\$O\.")
"""What is no struct: a lease's holder, a place of a concurrency key, a rate's instant, an object's pieces."""

NOT_RECORDED = {"rejected"}
"""Needs an executor that freezes for longer than its lease at the right moment."""


def _written(version: str) -> list[Message]:
    stored = load(version, "killed").messages + load(version, "stopped").messages
    return [each for each in stored + load_traffic(version) if each.data and not each.is_absent]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_message_is_decoded_and_encoded_without_loss(version: str) -> None:
    decoders = [(re.compile(pattern), msgspec.json.Decoder(kind)) for pattern, kind in FORMATS]
    unused = {pattern.pattern for pattern, _ in decoders}
    for message in _written(version):
        if OPAQUE.match(message.subject):
            continue
        [decoder] = [found for pattern, found in decoders if pattern.fullmatch(message.subject)]
        again = json.loads(msgspec.json.encode(decoder.decode(message.data)))
        lost = list(_lost(json.loads(message.data), again, message.subject))
        assert lost == []
        unused -= {pattern.pattern for pattern, each in decoders if each is decoder}
    assert unused == set(), "nothing of this kind was recorded"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_event_there_was_has_been_recorded(version: str) -> None:
    log = load(version, "stopped")
    recorded = {
        event["type"]
        for stream in ("JOBS", "RUNS")
        for message in log.stream(stream)
        if not message.subject.startswith("wc.lease.")
        for event in json.loads(message.data)["events"]
    }
    known = {kind.__struct_config__.tag for kind in get_args(JobEvent) + get_args(RunEvent)}
    assert recorded - known == set(), "a tag, once released, keeps its meaning for ever"
    assert _TAGS_OF_0_1_0 - recorded == NOT_RECORDED


_TAGS_OF_0_1_0 = {
    *("job_created", "job_updated", "job_paused", "job_resumed", "job_cancelled"),
    *("requested", "queued", "waiting", "skipped", "missed", "started", "succeeded", "failed", "timed_out"),
    *("snoozed", "returned", "cancelled", "lost", "cancel_requested", "retry_requested", "skip_requested"),
    *(
        "backfill_requested",
        "backfill_steered",
        "backfill_ended",
        "opened",
        "progressed",
        "reported",
        "closed",
    ),
    *("rerun_requested", "node_cleared", "node_marked", "dependencies_changed", "dependent_changed"),
    *("dependency_completed", "dependencies_used", "letters_delivered", "rejected", "schedule_ended"),
}


def test_tags_of_the_first_release_are_all_there() -> None:
    known = {kind.__struct_config__.tag for kind in get_args(JobEvent) + get_args(RunEvent)}
    assert known >= _TAGS_OF_0_1_0


def _lost(before: Any, after: Any, where: str) -> Any:
    """What `before` says and `after` does not. A new field with a default may be added."""
    match before:
        case dict() if isinstance(after, dict):
            for key, value in before.items():
                if key not in after:
                    yield f"{where}.{key} = {value!r}"
                else:
                    yield from _lost(value, after[key], f"{where}.{key}")
        case list() if isinstance(after, list) and len(before) == len(after):
            for number, pair in enumerate(zip(before, after, strict=True)):
                yield from _lost(*pair, f"{where}[{number}]")
        case _ if before != after:
            yield f"{where}: {before!r} became {after!r}"
