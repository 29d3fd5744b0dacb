"""Good definitions: what is asked for, what becomes of it, and what an edit leaves as it was."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.core.domain.instants import SECOND
from waterclock.core.domain.job.edit import describe, fields_of
from waterclock.core.domain.job.naming import snake_case
from waterclock.core.domain.job.parse import (
    InvalidDefinition,
    amend,
    define,
    define_body,
    define_schedule,
    differences,
    read_preview,
    read_request,
)
from waterclock.core.domain.job.validate import Defaults
from waterclock.core.domain.schedule.local_time import as_instant
from waterclock.core.domain.schedule.zone import zone
from waterclock.proto.policies import CatchUp, Limits, Retention, Retry
from waterclock.proto.problem import Difference
from waterclock.proto.spec import (
    Argv,
    Artifact,
    FanOut,
    Handler,
    Http,
    JobRequest,
    JobSpec,
    Node,
    Schedule,
    Shell,
    Workflow,
)

NOW = 1_794_816_000_000_000
"""2026-11-16T08:00:00Z"""
DIGEST = "sha256:" + "a" * 64


def made(**fields: Any) -> JobSpec:
    return define_body({"name": "job", **fields}, NOW)


def edited(spec: JobSpec, **fields: Any) -> JobSpec:
    return amend(spec, read_request(fields), NOW)


# --- the contract's own examples -----------------------------------------------------------------------


def test_a_handler_at_a_time() -> None:
    body = b"""{"job_type": "email_send", "schedule_time": "2026-12-31T23:59:59Z",
                "payload": {"user_id": 123, "body": "..."}, "retries": 3}"""
    assert define(read_request(body), NOW) == JobSpec(
        name="email_send",
        task=Handler(handler="email_send"),
        schedule=Schedule(
            schedule_type="FUTURE", schedule_time=datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
        ),
        payload={"user_id": 123, "body": "..."},
        max_retries=3,
    )


def test_a_cron_without_anything_to_run() -> None:
    body = b"""{"name": "Daily Data Cleanup", "schedule_type": "CRON", "cron_expression": "0 0 * * *",
                "payload": {"cleanup_target": "old_logs", "retention_days": 30}, "max_retries": 2}"""
    assert define(read_request(body), NOW) == JobSpec(
        name="Daily Data Cleanup",
        task=Handler(handler="daily_data_cleanup"),
        schedule=Schedule(schedule_type="CRON", cron_expression=("0 0 * * *",)),
        payload={"cleanup_target": "old_logs", "retention_days": 30},
        max_retries=2,
    )


def test_a_shell_command_with_everything() -> None:
    body = b"""{"job_id": "backup", "name": "backup", "schedule": "0 0 * * *",
                "command": "pg_dump prod > /backups/prod.sql", "dependencies": [], "max_retries": 3,
                "timeout_seconds": 3600, "priority": 5, "metadata": {"team": "data"}}"""
    assert define(read_request(body), NOW) == JobSpec(
        name="backup",
        task=Shell(command="pg_dump prod > /backups/prod.sql"),
        schedule=Schedule(schedule_type="CRON", cron_expression=("0 0 * * *",)),
        max_retries=3,
        timeout_seconds=3600,
        priority=5,
        metadata={"team": "data"},
    )


# --- when ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Schedule()),
        ({"schedule": "now"}, Schedule()),
        ({"schedule": " NOW "}, Schedule()),
        ({"schedule_type": "IMMEDIATE"}, Schedule()),
        ({"schedule": None, "cron": None, "timezone": None}, Schedule()),
        ({"dependencies": ["a"]}, Schedule(schedule_type="DEPENDENT")),
        ({"dependencies": ["a"], "schedule_type": "DEPENDENT"}, Schedule(schedule_type="DEPENDENT")),
        ({"dependencies": ["a"], "schedule": "now"}, Schedule()),
        ({"dependencies": ["a"], "schedule_type": "IMMEDIATE"}, Schedule()),
        (
            {"dependencies": ["a"], "cron": "@daily"},
            Schedule(schedule_type="CRON", cron_expression=("@daily",)),
        ),
        (
            {"schedule": "every 1h30m"},
            Schedule(schedule_type="INTERVAL", interval_seconds=5400),
        ),
        ({"every": "1500ms"}, Schedule(schedule_type="INTERVAL", interval_seconds=1.5)),
        ({"every": 90}, Schedule(schedule_type="INTERVAL", interval_seconds=90)),
        ({"interval_seconds": 90.5}, Schedule(schedule_type="INTERVAL", interval_seconds=90.5)),
        ({"schedule": "@every 90s"}, Schedule(schedule_type="INTERVAL", interval_seconds=90)),
        (
            {"cron_expression": "@every 1h30m", "schedule_type": "CRON"},
            Schedule(schedule_type="INTERVAL", interval_seconds=5400),
        ),
        (
            {"cron": "CRON_TZ=Europe/Paris 0 3 * * *"},
            Schedule(schedule_type="CRON", cron_expression=("0 3 * * *",), timezone="Europe/Paris"),
        ),
        (
            {
                "cron": ["TZ=Europe/Paris 0 3 * * *", "CRON_TZ=Europe/Paris @daily"],
                "timezone": "Europe/Paris",
            },
            Schedule(schedule_type="CRON", cron_expression=("0 3 * * *", "@daily"), timezone="Europe/Paris"),
        ),
        (
            {"schedule": "2026-12-31T23:59:59+01:00"},
            Schedule(schedule_type="FUTURE", schedule_time=datetime(2026, 12, 31, 22, 59, 59, tzinfo=UTC)),
        ),
        (
            {"schedule_time": "2020-01-01T00:00:00Z"},
            Schedule(schedule_type="FUTURE", schedule_time=datetime(2020, 1, 1, tzinfo=UTC)),
        ),
        (
            {"delay": "1m"},
            Schedule(schedule_type="FUTURE", schedule_time=datetime(2026, 11, 16, 8, 1, tzinfo=UTC)),
        ),
        (
            {"delay": 0.25},
            Schedule(
                schedule_type="FUTURE", schedule_time=datetime(2026, 11, 16, 8, 0, 0, 250_000, tzinfo=UTC)
            ),
        ),
        (
            {"cron": ["0 0 * * *", "0 12 * * SUN"], "timezone": "Europe/Berlin", "dst_gap": "skip"},
            Schedule(
                schedule_type="CRON",
                cron_expression=("0 0 * * *", "0 12 * * SUN"),
                timezone="Europe/Berlin",
                dst_gap="skip",
            ),
        ),
        (
            {
                "schedule": "@hourly",
                "schedule_type": "CRON",
                "start_at": "2026-12-01T00:00:00+02:00",
                "end_at": "2027-01-01T00:00:00Z",
                "jitter_seconds": 30,
                "max_fires": 10,
                "dst_overlap": "both",
                "exclude": ["2026-12-25"],
            },
            Schedule(
                schedule_type="CRON",
                cron_expression=("@hourly",),
                start_at=datetime(2026, 11, 30, 22, tzinfo=UTC),
                end_at=datetime(2027, 1, 1, tzinfo=UTC),
                jitter_seconds=30,
                max_fires=10,
                dst_overlap="both",
                exclude=("2026-12-25",),
            ),
        ),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else "",
)
def test_when(fields: dict[str, Any], expected: Schedule) -> None:
    schedule = made(**fields).schedule
    assert schedule == expected
    for time in (schedule.schedule_time, schedule.start_at, schedule.end_at):
        assert time is None or time.tzinfo is UTC


def test_a_preview_takes_the_same_fields() -> None:
    request = read_preview({"cron": "H 3 * * *", "name": "nightly", "from": "2026-01-01T00:00:00Z", "n": 3})
    assert request.n == 3
    assert request.start == datetime(2026, 1, 1, tzinfo=UTC)
    assert define_schedule(request, NOW) == Schedule(schedule_type="CRON", cron_expression=("H 3 * * *",))
    with pytest.raises(InvalidDefinition, match="cron"):
        define_schedule(read_preview({"cron": "0 0 30 2 *"}), NOW)
    with pytest.raises(InvalidDefinition, match="command: there is no such field"):
        read_preview({"cron": "* * * * *", "command": "true"})


def test_a_preview_may_look_at_a_schedule_that_is_over() -> None:
    over = read_preview({"every": "1h", "end_at": "2020-01-01T00:00:00Z"})
    assert define_schedule(over, NOW).interval_seconds == 3600


# --- what ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "name", "task"),
    [
        ({"command": "/usr/bin/pg_dump prod"}, "pg_dump", Shell(command="/usr/bin/pg_dump prod")),
        ({"command": ["echo", ""]}, "echo", Argv(command=("echo", ""))),
        ({"command": "x", "env": {"A": "b\nc"}}, "x", Shell(command="x", env={"A": "b\nc"})),
        ({"job_type": "send", "handler": "send"}, "send", Handler(handler="send")),
        ({"handler": "Send-2"}, "Send-2", Handler(handler="Send-2")),
        ({"name": "EmailSend v2"}, "EmailSend v2", Handler(handler="email_send_v2")),
        ({"name": "Café — nightly"}, "Café — nightly", Handler(handler="cafe_nightly")),
        ({"job_id": "backup", "command": "true"}, "backup", Shell(command="true")),
        (
            {"artifact": DIGEST, "args": ["-v"], "entry": "bin/run"},
            "bin/run",
            Artifact(artifact=DIGEST, args=("-v",), entry="bin/run"),
        ),
        (
            {"http": {"url": "https://example.org/x", "method": "post", "ok": 201, "body": {"a": 1}}},
            "example.org",
            Http(url="https://example.org/x", method="POST", ok=(201,), body={"a": 1}),
        ),
        (
            {
                "name": "x",
                "http": {"url": "http://[::1]:8080/", "headers": {"X-A": "b\tc"}, "ok": [200, 404]},
            },
            "x",
            Http(url="http://[::1]:8080/", headers={"X-A": "b\tc"}, ok=(200, 404)),
        ),
        (
            {"name": "x", "http": {"url": "http://h:{{ parameters.port }}/{{ item }}"}},
            "x",
            Http(url="http://h:{{ parameters.port }}/{{ item }}"),
        ),
        (
            {"name": "x", "http": {"url": "{{ nodes.a.output.url }}/x"}},
            "x",
            Http(url="{{ nodes.a.output.url }}/x"),
        ),
    ],
)
def test_what(fields: dict[str, Any], name: str, task: Any) -> None:
    spec = define_body(fields, NOW)
    assert spec.task == task
    assert spec.name == name


@pytest.mark.parametrize(
    ("name", "handler"),
    [
        ("Daily Data Cleanup", "daily_data_cleanup"),
        ("  spaced -- out  ", "spaced_out"),
        ("HTTPServerCheck", "http_server_check"),
        ("v2Report", "v2_report"),
        ("ÅÄÖ", "aao"),
        ("…", ""),
    ],
)
def test_snake_case(name: str, handler: str) -> None:
    assert snake_case(name) == handler


# --- how -----------------------------------------------------------------------------------------------


def test_policies() -> None:
    spec = made(
        command="true",
        retry={"initial_seconds": 5, "non_retryable_exit_codes": [2, 64], "jitter": False},
        catch_up={"policy": "all"},
        retention={"days": 30},
        limits={"memory_bytes": 1 << 30},
        fan_out={"over": {"range": 1000}, "tolerated_failures": "5%"},
        timeout="1m30s",
        concurrency_key="db",
        rate_key="api",
        rate_per_second=2.5,
        secrets=["TOKEN"],
        dependencies=["a", "b", "a"],
        labels={"team": "data"},
        delivery="exactly_once",
        critical=True,
        overlap="queue_one",
    )
    assert spec.retry == Retry(initial_seconds=5, non_retryable_exit_codes=(2, 64), jitter=False)
    assert spec.catch_up == CatchUp(policy="all", window_seconds=3600)
    assert spec.retention == Retention(days=30)
    assert spec.limits == Limits(memory_bytes=1 << 30)
    assert spec.fan_out == FanOut(over={"range": 1000}, tolerated_failures="5%")
    assert spec.timeout_seconds == 90
    assert (spec.concurrency_key, spec.concurrency_limit) == ("db", 1)
    assert (spec.rate_key, spec.rate_per_second) == ("api", 2.5)
    assert spec.dependencies == ("a", "b")
    assert spec.delivery == "exactly_once"
    assert made(catch_up="none").catch_up == CatchUp(policy="none")


def test_defaults_weigh_nothing_in_the_log() -> None:
    assert msgspec.json.encode(define_body({"job_type": "send"}, NOW)) == (
        b'{"name":"send","task":{"kind":"handler","handler":"send"}}'
    )


def test_null_is_the_default() -> None:
    nulls = {field.encode_name: None for field in msgspec.structs.fields(JobRequest)}
    assert define_body({**nulls, "name": "job"}, NOW) == made()


ZONES = (
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "UTC",
)


def test_fields_from_yaml_may_be_times() -> None:
    assert made(start_at=datetime(2027, 1, 1, tzinfo=UTC), every="1h").schedule.start_at == datetime(
        2027, 1, 1, tzinfo=UTC
    )
    assert made(start_at=datetime(2027, 1, 1), every="1h").schedule.start_at == datetime(
        2027, 1, 1, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("local", "instant"),
    [
        ("2026-12-31T23:59:59", "2026-12-31T22:59:59Z"),
        ("2027-07-01T12:00:00.25", "2027-07-01T10:00:00.25Z"),
        ("2027-03-28T02:30:00", "2027-03-28T01:00:00Z"),  # left out: the first instant after it
        ("2027-10-31T02:30:00", "2027-10-31T00:30:00Z"),  # comes twice: the first
    ],
)
@pytest.mark.parametrize("field", ["schedule_time", "schedule"])
def test_a_time_without_an_offset_is_one_of_the_zone(field: str, local: str, instant: str) -> None:
    spec = made(**{field: local}, timezone="Europe/Paris")
    assert spec.schedule.schedule_time == datetime.fromisoformat(instant)
    assert made(**{field: local}).schedule.schedule_time == datetime.fromisoformat(f"{local}Z")


def test_bounds_without_an_offset_are_times_of_the_zone() -> None:
    bounds = {"start_at": "2027-01-01T00:00:00", "end_at": "2027-02-01T00:00:00"}
    schedule = made(every="1h", timezone="America/New_York", **bounds).schedule
    assert schedule.start_at == datetime(2027, 1, 1, 5, tzinfo=UTC)
    assert schedule.end_at == datetime(2027, 2, 1, 5, tzinfo=UTC)


@given(st.datetimes(datetime(1975, 1, 1), datetime(2035, 1, 1)), st.sampled_from(ZONES))
def test_a_local_time_is_what_the_zone_database_says(wall: datetime, key: str) -> None:
    """`zoneinfo` with fold 0 knows the same rule, but for times that are left out: it goes by the offset before."""
    place = zone(key)
    assert place is not None
    found = as_instant(wall, place)
    assert found is not None
    expected = wall.replace(tzinfo=ZoneInfo(key))
    if expected.astimezone(UTC).astimezone(ZoneInfo(key)).replace(tzinfo=None) == wall:
        assert found == expected.astimezone(UTC)  # a time that comes twice equals none of another zone
    else:
        assert as_instant(wall, place, "skip") is None
        assert found.astimezone(ZoneInfo(key)).replace(tzinfo=None) > wall
        before = (found - timedelta(microseconds=1)).astimezone(ZoneInfo(key)).replace(tzinfo=None)
        assert before < wall


# --- what is not said ----------------------------------------------------------------------------------

UNSAID = Defaults(max_retries=3, timeout_seconds=3600)


def test_what_is_not_said_is_stored_as_if_it_had_been() -> None:
    spec = define_body({"name": "job", "command": "true"}, NOW, defaults=UNSAID)
    assert (spec.max_retries, spec.timeout_seconds) == (3, 3600)
    stored = msgspec.json.decode(msgspec.json.encode(spec), type=JobSpec)
    assert stored == spec


def test_what_is_said_is_so_nothing_and_null_included() -> None:
    spec = define_body(
        {"name": "job", "command": "true", "max_retries": 0, "timeout_seconds": 0}, NOW, defaults=UNSAID
    )
    assert (spec.max_retries, spec.timeout_seconds) == (0, None)
    assert define_body({"name": "job", "timeout": "0s"}, NOW, defaults=UNSAID).timeout_seconds is None
    nulls = {"name": "job", "retries": None, "timeout_seconds": None}
    spec = define_body(nulls, NOW, defaults=UNSAID)
    assert (spec.max_retries, spec.timeout_seconds) == (3, 3600)


def test_nodes_have_the_defaults_and_their_workflow_has_none() -> None:
    spec = define_body(
        {"name": "flow", "nodes": [{"id": "a"}, {"id": "b", "retries": 1}]}, NOW, defaults=UNSAID
    )
    assert (spec.max_retries, spec.timeout_seconds) == (0, None)
    assert isinstance(spec.task, Workflow)
    assert [(node.max_retries, node.timeout_seconds) for node in spec.task.nodes] == [(3, 3600), (1, 3600)]


def test_an_edit_leaves_what_was_stored_without_defaults_as_it_was() -> None:
    job = made(command="true")
    edited = amend(job, JobRequest(priority=5), NOW, defaults=UNSAID)
    assert (edited.max_retries, edited.timeout_seconds) == (0, None)
    asked = amend(job, JobRequest(max_retries=None, timeout=None), NOW, defaults=UNSAID)
    assert (asked.max_retries, asked.timeout_seconds) == (3, 3600)
    flow = define_body({"name": "flow", "nodes": [{"id": "a"}]}, NOW)
    assert amend(flow, JobRequest(priority=5), NOW, defaults=UNSAID).task == flow.task


# --- workflows -----------------------------------------------------------------------------------------


def test_a_workflow_is_a_job_whose_task_is_a_graph() -> None:
    spec = define_body(
        {
            "name": "etl",
            "workflow_id": "etl",
            "cron": "0 3 * * *",
            "nodes": [
                {"id": "fetch", "command": ["curl", "x"], "retries": 2, "timeout": "5m"},
                {"id": "parse", "depends_on": ["fetch", "fetch"], "map": {"over": {"from": "fetch"}}},
                {
                    "id": "tell",
                    "http": {"url": "http://example.org"},
                    "depends_on": ["parse"],
                    "trigger_rule": "all_done",
                    "condition": "{{ nodes.parse.output.rows }}",
                },
            ],
        },
        NOW,
    )
    assert spec.task == Workflow(
        nodes=(
            Node(id="fetch", task=Argv(command=("curl", "x")), max_retries=2, timeout_seconds=300),
            Node(
                id="parse",
                task=Handler(handler="parse"),
                depends_on=("fetch",),
                map=FanOut(over={"from": "fetch"}),
            ),
            Node(
                id="tell",
                task=Http(url="http://example.org"),
                depends_on=("parse",),
                trigger_rule="all_done",
                condition="{{ nodes.parse.output.rows }}",
            ),
        )
    )


def test_a_node_may_wait_for_others_to_be_skipped() -> None:
    nodes: list[dict[str, Any]] = [
        {"id": "a", "condition": "{{ parameters.day }}"},
        {"id": "b", "map": {"over": []}},
        {"id": "c", "depends_on": ["a"]},
        {"id": "d", "depends_on": ["a", "b", "c"], "trigger_rule": "all_skipped"},
    ]
    assert isinstance(made(nodes=nodes).task, Workflow)
    nodes.append({"id": "e", "depends_on": ["a"], "trigger_rule": "all_done"})
    nodes.append({"id": "f", "depends_on": ["e"], "trigger_rule": "all_skipped"})
    with pytest.raises(InvalidDefinition, match=r"nodes\[5\]\.trigger_rule: 'f' can never run"):
        made(nodes=nodes)


def test_a_workflow_without_a_time_waits_to_be_started() -> None:
    nodes = [{"id": "a", "command": "true"}]
    assert made(nodes=nodes).schedule == Schedule(schedule_type="DEPENDENT")
    assert made(nodes=nodes, schedule="now").schedule == Schedule()


# --- edits ---------------------------------------------------------------------------------------------


FULL = made(
    command="backup",
    env={"A": "b"},
    cron="0 3 * * *",
    timezone="Europe/Berlin",
    start_at="2026-01-01T00:00:00Z",
    max_retries=3,
    timeout_seconds=60,
    labels={"team": "data"},
    payload={"a": [1]},
    idempotency_key="key",
    concurrency_key="db",
)


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        ({}, {}),
        ({"priority": 7}, {"priority": 7}),
        ({"timeout_seconds": None}, {"timeout_seconds": None}),
        ({"timeout": "2m"}, {"timeout_seconds": 120.0}),
        ({"retries": 1}, {"max_retries": 1}),
        ({"labels": {"x": "y"}}, {"labels": {"x": "y"}}),
        ({"payload": None}, {"payload": None}),
        ({"cron_expression": "0 4 * * *"}, {"cron_expression": "0 4 * * *"}),
        (
            {"schedule": "every 1h"},
            {"schedule_type": "INTERVAL", "cron_expression": None, "interval_seconds": 3600.0},
        ),
        (
            {"schedule_type": "INTERVAL", "every": 60},
            {"schedule_type": "INTERVAL", "cron_expression": None, "interval_seconds": 60.0},
        ),
        ({"timezone": "Asia/Tokyo"}, {"timezone": "Asia/Tokyo"}),
        ({"cron": "CRON_TZ=Asia/Tokyo 0 3 * * *"}, {"timezone": "Asia/Tokyo"}),
        ({"command": "other"}, {"task": {"kind": "shell", "command": "other", "env": {"A": "b"}}}),
        ({"command": ["x"], "env": None}, {"task": {"kind": "argv", "command": ["x"]}}),
        ({"env": {"C": "d"}}, {"task": {"kind": "shell", "command": "backup", "env": {"C": "d"}}}),
        ({"job_type": "send"}, {"task": {"kind": "handler", "handler": "send"}}),
        (
            {"artifact": DIGEST, "args": ["x"]},
            {"task": {"kind": "artifact", "artifact": DIGEST, "args": ["x"], "env": {"A": "b"}}},
        ),
        ({"name": "renamed"}, {"name": "renamed"}),
        ({"idempotency_key": "another", "job_id": "x"}, {}),
        ({"retry": {"factor": 3}}, {"retry": {**describe(FULL)["retry"], "factor": 3.0}}),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_an_edit_changes_what_it_says(patch: dict[str, Any], changed: dict[str, Any]) -> None:
    spec = edited(FULL, **patch)
    assert {difference.field: difference.given for difference in differences(FULL, spec)} == changed
    assert describe(spec) == {**describe(FULL), **changed}


@pytest.mark.parametrize(
    ("patch", "field", "reason"),
    [
        ({"priority": 101}, "priority", "<= 100"),
        ({"cron": "0 0 30 2 *"}, "cron", "can never fire"),
        ({"cron": "0 0 ?,* * *"}, "cron", "? stands alone"),
        ({"cron": "CRON_TZ=Nowhere/At 0 3 * * *"}, "cron", "there is no time zone 'Nowhere/At'"),
        ({"cron": "TZ=Asia/Tokyo 0 3 * * *", "timezone": "UTC"}, "cron", "says CRON_TZ=Asia/Tokyo"),
        ({"cron": ["TZ=Asia/Tokyo 0 3 * * *", "0 4 * * *"]}, "cron", "have one zone"),
        ({"cron": ["@every 5m", "0 4 * * *"]}, "cron", "stands alone"),
        ({"cron": "@every soon"}, "cron", "is not a duration"),
        ({"end_at": "2026-06-01T00:00:00Z"}, "end_at", "is in the past"),
        ({"http": {"url": "x"}, "command": "y"}, "http", "cannot be combined with command"),
        ({"namespace": "other"}, "namespace", "cannot be changed"),
        ({"colour": "blue"}, "colour", "there is no such field"),
        ({"schedule_type": "FUTURE"}, "schedule_type", "FUTURE needs schedule_time"),
    ],
)
def test_an_edit_is_checked_as_a_definition_is(patch: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        edited(FULL, **patch)
    assert [error.field for error in refused.value.errors] == [field]
    assert reason in refused.value.errors[0].reason


def test_a_schedule_that_is_over_does_not_stand_in_the_way_of_an_edit() -> None:
    ended = define_body({"name": "x", "every": "1h", "end_at": "2026-11-16T09:00:00Z"}, NOW)
    later = NOW + 86_400 * SECOND
    assert amend(ended, read_request({"priority": 3}), later).priority == 3
    with pytest.raises(InvalidDefinition, match="can never fire"):
        amend(ended, read_request({"every": "2h"}), later)


def test_differences_name_both_sides() -> None:
    assert differences(FULL, FULL) == []
    assert differences(made(priority=1), made(priority=2)) == [
        Difference(field="priority", stored=1, given=2)
    ]


def test_a_delay_repeated_is_the_same_as_of_the_first_time() -> None:
    request = read_request({"name": "x", "delay": "5m"})
    first = define(request, NOW)
    assert differences(first, define(request, NOW + SECOND)) != []
    assert differences(first, define(request, NOW)) == []


def test_describe_has_the_fields_of_the_contract() -> None:
    described = describe(FULL)
    contract = """name schedule_type schedule_time cron_expression interval_seconds timezone start_at end_at
        jitter_seconds max_fires dst_gap dst_overlap overlap catch_up task payload labels metadata dependencies
        priority tier queue max_retries retry timeout_seconds delivery critical retention idempotency_key"""
    assert set(contract.split()) <= set(described)
    assert described["cron_expression"] == "0 3 * * *"
    assert described["retry"]["initial_seconds"] == 1
    assert described["task"] == {"kind": "shell", "command": "backup", "env": {"A": "b"}}
    assert describe(made(cron=["@daily", "@hourly"]))["cron_expression"] == ["@daily", "@hourly"]
    assert describe(made())["cron_expression"] is None


specs = st.builds(
    lambda when, what, how: define_body({"name": "job", **when, **what, **how}, NOW),
    st.sampled_from(
        [
            {},
            {"schedule": "now"},
            {"dependencies": ["a"]},
            {"dependencies": ["a"], "schedule": "now"},
            {"cron": ["H * * * *", "@daily"], "timezone": "Asia/Tokyo", "exclude": ["2027-01-01"]},
            {"every": 1.5, "start_at": "2026-12-01T00:00:00Z", "jitter_seconds": 0.5},
            {"schedule_time": "2027-01-01T00:00:00.123456Z", "max_fires": 3},
        ]
    ),
    st.sampled_from(
        [
            {},
            {"command": "true", "env": {"A": "b"}, "retry": {"factor": 3}},
            {"command": ["a", "b"], "concurrency_key": "k"},
            {"artifact": DIGEST, "args": ["x"], "entry": "y"},
            {"http": {"url": "http://x", "method": "PUT", "headers": {"A": "b"}, "body": [1], "ok": [200]}},
            {"job_type": "send"},
            {
                "nodes": [
                    {"id": "a", "retry": {"factor": 3}, "concurrency_key": "k", "limits": {"processes": 5}},
                    {"id": "c", "rate_key": "k", "rate_per_second": 2, "secrets": ["A"], "slots": 2},
                    {"id": "b", "depends_on": ["a"], "command": ["x"], "map": {"over": [1]}},
                ]
            },
        ]
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "priority": st.integers(0, 100),
            "payload": st.just({"a": [None, 1.5, "x"]}),
            "catch_up": st.sampled_from(["none", {"window_seconds": 5}]),
            "limits": st.just({"open_files": 10}),
            "retention": st.just({"days": 1}),
            "timeout": st.just("90s"),
            "labels": st.just({"a": "b"}),
            "secrets": st.just(["A"]),
        },
    ),
)


@settings(max_examples=100)
@given(specs, st.integers(1, 10**15))
def test_a_definition_survives_the_log_and_an_empty_edit(spec: JobSpec, later: int) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(spec), type=JobSpec)
    assert stored == spec
    assert define_body(fields_of(stored), NOW) == spec
    assert amend(stored, JobRequest(), NOW + later) == spec
