"""A line of a bulk call that is like one before is the same, to the byte, as if it had been read by itself."""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from waterclock.api.auth.gate import Caller
from waterclock.api.commands.alike_lines import BulkReader
from waterclock.api.commands.idempotency import new_job
from waterclock.api.commands.similar_definitions import define_line
from waterclock.api.errors import Refused
from waterclock.api.eventlog import job_frames
from waterclock.api.eventlog.alike_jobs import AlikeJob
from waterclock.api.eventlog.job_frames import Creation
from waterclock.core.domain.job.line_shape import shape_of
from waterclock.core.domain.job.validate import Defaults
from waterclock.core.domain.schedule.fires import is_recurring, next_fire
from waterclock.core.runtime.settings import Settings
from waterclock.proto.codec import decode_job_frame, encode
from waterclock.proto.events import JobFrame

NOW = 1_790_000_000_000_000
SETTINGS = Settings()
CALLERS = (Caller(actor="token:a"), Caller(actor='b"%s', namespace="acme"))

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | st.sampled_from(['"', "\\", "\0", "%b", "\0j", ',"payload":', '"}', "9" * 120]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SCHEDULING: dict[str, list[Any]] = {
    "schedule": ["now", "NOW", "every 30s", "0 3 * * *", "2031-01-01T00:00:00Z", "nonsense", None],
    "schedule_time": ["2031-01-01T00:00:00+02:00", "2001-01-01T00:00:00Z", "2031-01-01T00:00:00", None, 5],
    "cron": [
        "*/5 * * * *",
        "H H * * *",
        "61 * * * *",
        "@daily",
        "CRON_TZ=Europe/Paris 0 3 * * *",
        ["0 1 * * *"],
    ],
    "cron_expression": [" 0 3 * * 1-5 ", "0 3 30 2 *", "? * * * *,?", "@every 90s"],
    "timezone": ["Europe/Paris", "Nowhere", "UTC", None],
    "delay": ["5m", "later", 3],
    "every": ["30s", "0s"],
    "start_at": ["2030-01-01T00:00:00Z", "2030-01-01T00:00:00"],
    "end_at": ["2020-01-01T00:00:00Z", "2040-01-01T00:00:00Z"],
    "jitter_seconds": [0, 30, -1],
    "exclude": [[], ["2031-01-01"], ["nonsense"]],
    "dst_gap": ["next_valid", "skip", None],
    "max_fires": [3, 0],
}
OWN = st.fixed_dictionaries(
    {},
    optional={
        "payload": VALUES,
        "job_id": st.sampled_from(["mine", "other", "not ok", "", None]),
        "idempotency_key": st.sampled_from(["k", "ключ", 'a"b\\c', "a\nb", "", None, "%s"]),
        **{field: st.sampled_from(values) for field, values in SCHEDULING.items()},
    },
)
CRONS = st.one_of(
    st.tuples(st.integers(0, 60), st.integers(0, 24), st.integers(1, 32), st.integers(1, 13)).map(
        lambda values: " ".join([*map(str, values), "*"])
    ),
    st.sampled_from(
        [
            "*/5 * * * *",
            " 0 3 * * MON-FRI ",
            "0  3 * * *",
            "0\t3 * * *",
            "0 3 l * *",
            "0 3 29 2 *",
            "0 3 30 2 *",
            "0 3 * * thu",
            "0 3 * * ?",
            "0 3 ?,1 * *",
            "H H * * *",
            "0 0 3 * * *",
            "@daily",
            "@every 90s",
            "TZ=UTC 0 3 * * *",
            "0 3 * *",
            "0 3 * * * *  *",
            "0 3 \u0661 * *",
            "0 3 * * \u00e9",
            "1," * 60 + "1 3 * * *",
            "1," * 150 + "1 3 * * *",
            "",
            ["0 3 * * *"],
            ["0 3 * * *", "0 4 * * *"],
            [],
            None,
            5,
        ]
    ),
)
SAID_OF_CRONS: list[dict[str, Any]] = [
    {},
    {"timezone": "UTC"},
    {"timezone": "Europe/Paris"},
    {"timezone": "Nowhere"},
    {"timezone": None},
    {"jitter_seconds": 30},
    {"start_at": "2030-01-01T00:00:00Z", "end_at": "2030-03-01T00:00:00Z"},
    {"schedule_type": "CRON"},
    {"schedule_type": "INTERVAL"},
    {"max_fires": 3},
    {"cron": "0 5 * * *"},
]
BASES = st.sampled_from(
    [
        {"name": "report 100%", "command": "true", "labels": {"team": "a"}},
        {"job_type": "noop", "metadata": {"a": "payload", "payload": 1}},
        {"name": "secret", "command": "true", "env": {"DB_PASSWORD": "x"}, "max_retries": 2},
        {"name": "elsewhere", "command": "true", "namespace": "other"},
        {"name": "waits", "command": "true", "dependencies": ["another"]},
        {"name": "flow", "nodes": [{"id": "a", "command": "true"}]},
        {"command": "true"},
    ]
)
WRITERS = st.sampled_from(
    [
        msgspec.json.encode,
        lambda value: json.dumps(value).encode(),
        lambda value: json.dumps(value, ensure_ascii=False, indent=1).encode(),
    ]
)


def defaults(namespace: str) -> Defaults:
    """Each namespace has its own."""
    return Defaults(max_retries=len(namespace), timeout_seconds=60.0)


def by_itself(line: bytes, caller: Caller, cause: str) -> Creation:
    spec, chosen = define_line(line, NOW, SETTINGS, caller, defaults)
    return new_job(spec, chosen, NOW, caller, cause)


def first_fire(job: Creation) -> int | None:
    return next_fire(job.schedule, job.spec.name, job.at) if is_recurring(job.schedule) else None


def outcome(job: Creation) -> dict[str, Any]:
    event = job.event("x~1")
    return {
        "event": event,
        "of the struct": encode(
            job_frames.creation("x~1", job.spec, job.at, decode(event).actor, job.cause, first_fire(job)),
        ),
        "job_id": job.job_id,
        "next_run_at": job.next_run_at,
        "schedule": job.schedule,
        "namespace": job.namespace,
        "warnings": job.warnings,
        "message": next(job_frames.frames([job], "key")),
    }


def decode(event: bytes) -> Any:
    return decode_job_frame(b'{"events":[%b],"v":1}' % event).events[0]


def outcomes(read: Any, lines: list[bytes]) -> list[Any]:
    found: list[Any] = []
    for place, line in enumerate(lines):
        try:
            found.append(outcome(read(line, place)))
        except Refused as refused:
            found.append(refused.problem)
    return found


@given(BASES, st.lists(OWN, min_size=1, max_size=4), WRITERS, st.sampled_from(CALLERS), st.data())
def test_each_line_is_read_as_if_it_were_alone(
    base: dict[str, Any], owns: list[dict[str, Any]], write: Any, caller: Caller, data: st.DataObject
) -> None:
    fields = [{**base, **own} for own in owns]
    if data.draw(st.booleans(), "the own fields first"):
        fields = [{**own, **base} for own in owns]
    lines = [write(each) for each in fields for _ in range(2)]
    reader = BulkReader("call", 100, NOW, SETTINGS, caller, defaults)
    wanted = outcomes(lambda line, place: by_itself(line, caller, f"call/{place}"), lines)
    assert outcomes(reader.read, lines) == wanted


@given(VALUES, VALUES)
def test_lines_that_differ_only_in_their_payloads(first: Any, second: Any) -> None:
    lines = [encode({"name": "a", "payload": payload, "job_type": "b"}) for payload in (first, second)]
    reader = BulkReader("call", 100, NOW, SETTINGS, CALLERS[0], defaults)
    wanted = outcomes(lambda line, place: by_itself(line, CALLERS[0], f"call/{place}"), lines)
    assert outcomes(reader.read, lines) == wanted


@given(
    st.lists(CRONS, min_size=2, max_size=6),
    st.sampled_from(SAID_OF_CRONS),
    st.sampled_from([{}, {"payload": {"a": 1}}, {"idempotency_key": "k"}, {"job_id": "mine"}]),
    st.sampled_from(["cron", "cron_expression", "schedule"]),
    st.sampled_from(CALLERS),
)
def test_lines_that_differ_only_in_their_crons(
    crons: list[Any], said: dict[str, Any], own: dict[str, Any], field: str, caller: Caller
) -> None:
    lines = [encode({"name": "a", "job_type": "b", **said, field: cron, **own}) for cron in crons]
    lines += lines[:1]
    reader = BulkReader("call", 100, NOW, SETTINGS, caller, defaults)
    wanted = outcomes(lambda line, place: by_itself(line, caller, f"call/{place}"), lines)
    assert outcomes(reader.read, lines) == wanted


ODD_VALUES = [
    b"1e400",
    b"1" * 5_000,
    b"-" + b"9" * 100,
    b'"' + b"9" * 200 + b'"',
    b"[" * 64 + b"]" * 64,
    b"[" * 65 + b"]" * 65,
    b"[" * 5_000 + b"]" * 5_000,
    b"1,2",
    b"1}",
    b'1,"job_id":"sneaked"',
    b'"a" "b"',
    b"",
    b"01",
    b"nul",
    b" 1 ",
    b'"\xff"',
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\\\\u0000"',
    b'"\\u00e9\\n\\/"',
    b'"\x00"',
    b"100000000000000000000000000.5",
    b"1E5",
    b'{"a":1,"a":2}',
    b'"' + b"x" * 2_000_000 + b'"',
]


def test_what_is_no_payload_is_refused_as_it_would_be_alone() -> None:
    known = b'{"name":"a","job_type":"b","payload":%b,"schedule":"now"}'
    lines = [known % b"1", *(known % value for value in ODD_VALUES)]
    reader = BulkReader("call", 100, NOW, SETTINGS, CALLERS[0], defaults)
    wanted = outcomes(lambda line, place: by_itself(line, CALLERS[0], f"call/{place}"), lines)
    assert outcomes(reader.read, lines) == wanted


def test_most_lines_are_found_to_be_alike() -> None:
    reader = BulkReader("call", 100, NOW, SETTINGS, CALLERS[0], defaults)
    lines = [
        encode({"name": "a", "job_type": "b", "schedule_time": f"2031-01-01T00:00:0{n}Z", "payload": n})
        for n in range(9)
    ]
    found = [reader.read(line, place) for place, line in enumerate(lines)]
    assert [isinstance(job, AlikeJob) for job in found] == [False, *[True] * 8]


def test_lines_with_other_crons_are_found_to_be_alike() -> None:
    reader = BulkReader("call", 100, NOW, SETTINGS, CALLERS[0], defaults)
    lines = [encode({"name": "a", "job_type": "b", "cron": f"{n} 3 * * *"}) for n in range(9)]
    found = [reader.read(line, place) for place, line in enumerate(lines)]
    assert [isinstance(job, AlikeJob) for job in found] == [False, *[True] * 8]


def test_jobs_in_one_frame_are_what_they_are_alone() -> None:
    reader = BulkReader("call", 100, NOW, SETTINGS, CALLERS[1], defaults)
    lines = [encode({"name": "a", "job_type": "b", "payload": {"n": n}}) for n in range(5)]
    jobs = [reader.read(line, place) for place, line in enumerate(lines)]
    (message,) = job_frames.frames(jobs, "key")
    plain = [by_itself(line, CALLERS[1], f"call/{place}") for place, line in enumerate(lines)]
    (wanted,) = job_frames.frames(plain, "key")
    assert message == wanted
    events = decode_job_frame(message.data).events
    assert encode(JobFrame(events=events)) == message.data
    assert [event.job_id for event in events] == message.job_ids
    assert message.creates_same(wanted.data)
    assert not message.creates_same(next(job_frames.frames(plain[:4], "key")).data)


def test_a_shape_is_not_taken_from_a_line_that_says_a_field_twice_or_hides_it() -> None:
    for line in (
        b'{"name":"a","payload":1,"payload":1}',
        b'{"name":"a","payl\\u006fad":1}',
        b'{"name":"\\"payload\\":1","payload":1,"payl\\u006fad":1}',
    ):
        assert shape_of(line, ("payload",), "payload") is None
    shape = shape_of(b'{"name":"\\"payload\\":1","payload":1}', ("payload",), "payload")
    assert shape is None or shape.values(b'{"name":"\\"payload\\":1","payload":[2]}') == [b"[2]"]


def test_the_widest_value_may_contain_what_stands_between_others() -> None:
    fields = ("delay", "payload", "job_id")
    line = b'{"delay":"1s","payload":%b,"job_id":"j","name":"n"}'
    shape = shape_of(line % b"1", fields, "payload")
    assert shape is not None
    for payload in (b'{"payload":2,"job_id":"k","name":"n"}', b'",\\"payload\\":"', b'[",\\"job_id\\":"]'):
        assert shape.values(line % payload) == [b'"1s"', payload, b'"j"']
    assert shape.values(b'{"delay":"1s","name":"n"}') is None
    assert shape.values(b"") is None
