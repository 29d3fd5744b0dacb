"""Bad definitions: each is refused with the field and the reason, and nothing else ever comes out."""

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from waterclock.core.domain.job.parse import (
    DefinitionLimits,
    InvalidDefinition,
    define,
    define_body,
    read_request,
)
from waterclock.proto.spec import JobRequest, JobSpec, NodeRequest

NOW = 1_794_816_000_000_000
"""2026-11-16T08:00:00Z"""
DIGEST = "sha256:" + "a" * 64
NESTED: list[Any] = []
for _ in range(100_000):
    NESTED = [NESTED]


def job(**fields: Any) -> dict[str, Any]:
    return {"name": "job", "command": "true", **fields}


def node(**fields: Any) -> dict[str, Any]:
    return {"command": "true", **fields}


def flow(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "flow", "nodes": list(nodes), **fields}


ROWS: list[tuple[dict[str, Any], str, str]] = [
    # names and ids
    ({}, "name", "is required"),
    (job(name=""), "name", "must not be empty"),
    (job(name="  "), "name", "must not be blank"),
    (job(name="n" * 10_000), "name", "length <= 256"),
    (job(name="two\nlines"), "name", "line breaks"),
    (job(name="nul\0"), "name", "NUL"),
    (job(name=7), "name", "expected str, got int"),
    (job(nme="x"), "nme", "did you mean name?"),
    (job(colour="blue"), "colour", "there is no such field"),
    (job(job_id="a.b"), "job_id", "must be letters, digits"),
    (job(job_id="a>b"), "job_id", "must be letters, digits"),
    (job(job_id="*"), "job_id", "must be letters, digits"),
    (job(job_id="a\r\n"), "job_id", "must be letters, digits"),
    (job(job_id="a\n"), "job_id", "must be letters, digits"),
    (job(job_id="a~1"), "job_id", "must be letters, digits"),
    (job(job_id="a@b"), "job_id", "must be letters, digits"),
    (job(job_id="a" * 65), "job_id", "must be letters, digits"),
    (job(job_id=""), "job_id", "must be letters, digits"),
    (job(queue="gpu.*"), "queue", "must be letters, digits"),
    (job(queue="gpu\n"), "queue", "must be letters, digits"),
    (job(namespace="a b"), "namespace", "must be letters, digits"),
    (job(labels={"a.b": "c"}), "labels", "a key must be letters"),
    (job(labels={"a\n": "c"}), "labels", "a key must be letters"),
    (job(labels={"a": 1}), "labels", "expected str, got int"),
    (job(labels={"a": "x" * 257}), "labels", "length <= 256"),
    (job(labels={"a": "b\nc"}), "labels.a", "line breaks"),
    (job(labels={f"k{n}": "v" for n in range(65)}), "labels", "length <= 64"),
    (job(idempotency_key="a\r\nb"), "idempotency_key", "line breaks"),
    (job(idempotency_key=""), "idempotency_key", "must not be empty"),
    (job(idempotency_key="k" * 300), "idempotency_key", "length <= 256"),
    (job(metadata=[1]), "metadata", "expected object, got array"),
    # when
    (job(schedule="61 * * * *"), "schedule", "'61' is not a valid minute"),
    (job(schedule="whenever"), "schedule", "has 1 fields; expected 5"),
    (job(schedule="every 10"), "schedule", "has no unit"),
    (job(schedule="every day"), "schedule", "is not a duration"),
    (job(schedule="every 100ms"), "schedule", "at least one second"),
    (job(schedule="2026-02-30T00:00:00Z"), "schedule", "not an RFC 3339 time"),
    (job(schedule="2026-12-31"), "schedule", "not an RFC 3339 time"),
    (job(schedule="@fortnightly"), "schedule", "is not one of @hourly"),
    (job(cron="* * * *"), "cron", "has 4 fields"),
    (job(cron_expression="0 0 31 2 *"), "cron_expression", "can never fire"),
    (job(cron_expression=["0 0 * * *", "0 0 30 2 *"]), "cron_expression", "can never fire"),
    (job(cron_expression=[]), "cron_expression", "must not be empty"),
    (job(cron_expression=["* * * * *"] * 33), "cron_expression", "length <= 32"),
    (job(schedule_time="tomorrow"), "schedule_time", "not an RFC 3339 time"),
    (job(schedule_time=1_794_816_000), "schedule_time", "expected datetime, got int"),
    (job(schedule_time="1969-12-31T00:00:00Z"), "schedule_time", "between the years 1970 and 9000"),
    (job(schedule_time="9999-12-31T00:00:00Z"), "schedule_time", "between the years 1970 and 9000"),
    (job(delay="soon"), "delay", "is not a duration"),
    (job(delay=-5), "delay", "must not be negative"),
    (job(every="0s"), "every", "at least one second"),
    (job(every=0.2), "every", "at least one second"),
    (job(every="5 parsecs"), "every", "is not a duration"),
    (job(every="1h1h"), "every", "is not a duration"),
    (job(every="9999999w"), "every", "longer than a century"),
    (job(interval_seconds=0), "interval_seconds", "> 0"),
    (job(interval_seconds="30"), "interval_seconds", "expected float, got str"),
    (job(cron="* * * * *", timezone="Mars/Olympus"), "timezone", "there is no time zone 'Mars/Olympus'"),
    (job(timezone="../../etc/passwd"), "timezone", "there is no time zone"),
    (job(timezone=""), "timezone", "must not be empty"),
    (job(cron="* * * * *", every="5m"), "every", "cannot be combined with cron"),
    (job(schedule="now", delay="5m"), "delay", "cannot be combined with schedule"),
    (job(cron="* * * * *", cron_expression="* * * * *"), "cron", "cannot be combined with cron_expression"),
    (
        job(schedule_type="SOMETIMES"),
        "schedule_type",
        "is not one of IMMEDIATE, FUTURE, CRON, INTERVAL, DEPENDENT",
    ),
    (job(schedule_type="CRON"), "schedule_type", "CRON needs cron_expression"),
    (job(schedule_type="FUTURE"), "schedule_type", "FUTURE needs schedule_time"),
    (job(schedule_type="INTERVAL"), "schedule_type", "INTERVAL needs interval_seconds"),
    (job(schedule_type="DEPENDENT"), "schedule_type", "DEPENDENT needs dependencies"),
    (job(schedule_type="CRON", every="5m"), "schedule_type", "is CRON, but every makes it INTERVAL"),
    (
        job(schedule_time="2027-03-28T02:30:00", timezone="Europe/Paris", dst_gap="skip"),
        "schedule_time",
        "there is no such time in Europe/Paris",
    ),
    (job(schedule_time="2027-03-28T02:30:00", timezone="Mars/Olympus"), "timezone", "there is no time zone"),
    (job(start_at="2027-01-01T00:00:00Z"), "start_at", "has no effect without a schedule"),
    (job(max_fires=3), "max_fires", "has no effect without a schedule"),
    (job(schedule="now", exclude=["2026-12-25"]), "exclude", "has no effect without a schedule"),
    (job(dependencies=["a"], end_at="2027-01-01T00:00:00Z"), "end_at", "has no effect without a schedule"),
    (flow(node(id="a"), max_retries=3), "max_retries", "has no effect on a workflow: say it of its nodes"),
    (flow(node(id="a"), retries=3), "retries", "has no effect on a workflow"),
    (flow(node(id="a"), concurrency_key="db"), "concurrency_key", "has no effect on a workflow"),
    (flow(node(id="a"), rate_key="api", rate_per_second=1), "rate_key", "has no effect on a workflow"),
    (flow(node(id="a"), tier="heavy"), "tier", "has no effect on a workflow"),
    (job(dependency_rule="same_time"), "dependency_rule", "has no effect without dependencies"),
    (
        job(every="5m", start_at="2027-01-02T00:00:00Z", end_at="2027-01-01T00:00:00Z"),
        "end_at",
        "after start_at",
    ),
    (job(every="5m", end_at="2026-01-01T00:00:00Z"), "end_at", "is in the past"),
    (job(cron="0 0 1 1 *", end_at="2026-12-31T00:00:00Z"), "end_at", "can never fire"),
    (
        job(cron="0 0 1 1 *", start_at="2027-01-02T00:00:00Z", end_at="2027-12-31T00:00:00Z"),
        "end_at",
        "can never fire",
    ),
    (job(cron="30 2 * 3 L0", timezone="Europe/Berlin", dst_gap="skip"), "schedule", "can never fire"),
    (job(every="5m", exclude=["Christmas"]), "exclude", "is neither a date"),
    (job(jitter_seconds=-1), "jitter_seconds", ">= 0"),
    (job(max_fires=0), "max_fires", ">= 1"),
    (job(dst_gap="jump"), "dst_gap", "is not one of next_valid, skip"),
    (job(dst_overlap="last"), "dst_overlap", "is not one of first, both"),
    # what
    (job(command=""), "command", "must not be empty"),
    (job(command="  \n "), "command", "is empty"),
    (job(command=[]), "command", "must not be empty"),
    (job(command=["", "x"]), "command", "is empty"),
    (job(command=["echo", 1]), "command[1]", "expected str, got int"),
    (job(command={"run": "x"}), "command", "expected"),
    (job(command="x" * 200_000), "command", "is longer than"),
    (job(command=["echo", "x" * 200_000]), "command", "is longer than"),
    (job(command="echo \0"), "command", "NUL"),
    (job(http={"url": "http://example.org"}), "http", "cannot be combined with command"),
    (job(job_type="send"), "job_type", "cannot be combined with command"),
    (job(artifact=DIGEST), "artifact", "cannot be combined with command"),
    (job(args=["x"]), "args", "only goes with artifact"),
    (job(entry="x"), "entry", "only goes with artifact"),
    ({"artifact": "md5:1"}, "artifact", "sha256: followed by 64"),
    ({"artifact": DIGEST + "\n"}, "artifact", "sha256: followed by 64"),
    ({"artifact": DIGEST, "entry": "../bin/sh"}, "entry", "inside the archive"),
    ({"artifact": DIGEST, "entry": "/bin/sh"}, "entry", "inside the archive"),
    (job(env={"A B": "c"}), "env", "name of an environment variable"),
    (job(env={"A=": "c"}), "env", "name of an environment variable"),
    (job(env={"A\n": "c"}), "env", "name of an environment variable"),
    (job(env={"A": "b\0"}), "env", "NUL"),
    ({"job_type": "a.b"}, "job_type", "must be letters, digits"),
    ({"job_type": "a\n"}, "job_type", "must be letters, digits"),
    ({"job_type": "a", "handler": "b"}, "handler", "cannot be combined with job_type"),
    ({"job_type": "a", "env": {"A": "b"}}, "env", "only goes with command or artifact"),
    ({"name": "日次処理"}, "name", "does not make the name of a handler"),
    ({"name": "word " * 40}, "name", "is too long for"),
    ({"http": {}}, "http.url", "is required"),
    ({"http": {"url": "ftp://example.org"}}, "http.url", "must begin with http"),
    ({"http": {"url": "file:///etc/passwd"}}, "http.url", "must begin with http"),
    ({"http": {"url": "http://"}}, "http.url", "names no host"),
    ({"http": {"url": "http://[::1"}}, "http.url", "is not a URL"),
    ({"http": {"url": "http://example.org:99999"}}, "http.url", "is not a URL"),
    ({"http": {"url": "http://example.org/a b"}}, "http.url", "contains a space"),
    ({"http": {"url": "http://example.org\r\nX: y"}}, "http.url", "contains a space or control"),
    ({"http": {"url": "http://example.org", "method": "GET /"}}, "http.method", "is not an HTTP method"),
    (
        {"http": {"url": "http://example.org", "headers": {"X Y": "z"}}},
        "http.headers",
        "not the name of a header",
    ),
    ({"http": {"url": "http://example.org", "headers": {"X": "a\r\nY: b"}}}, "http.headers", "line break"),
    ({"http": {"url": "http://example.org", "ok": [99]}}, "http.ok[0]", ">= 100"),
    ({"http": {"url": "http://example.org", "verb": "GET"}}, "http.verb", "there is no such field"),
    # how
    (job(priority=101), "priority", "<= 100"),
    (job(priority=-1), "priority", ">= 0"),
    (job(priority="high"), "priority", "expected int, got str"),
    (job(priority=1.5), "priority", "expected int, got float"),
    (job(tier="huge"), "tier", "is not one of light, medium, heavy"),
    (job(max_retries=-1), "max_retries", ">= 0"),
    (job(retries=1001), "retries", "<= 1000"),
    (job(retries=1, max_retries=2), "retries", "something else than max_retries"),
    (job(timeout_seconds=-1), "timeout_seconds", ">= 0"),
    (job(timeout=-1), "timeout", "must not be negative"),
    (job(timeout="long"), "timeout", "is not a duration"),
    (job(timeout="5m", timeout_seconds=300), "timeout", "cannot be combined with timeout_seconds"),
    (job(retry={"factor": 0.5}), "retry.factor", ">= 1"),
    (job(retry={"initial": 1}), "retry.initial", "there is no such field"),
    (job(retry=3), "retry", "expected object, got int"),
    (job(overlap="wait"), "overlap", "is not one of allow, skip, queue_one"),
    (job(catch_up="some"), "catch_up", "is not one of none, latest, all"),
    (job(catch_up={"policy": "some"}), "catch_up.policy", "is not"),
    (job(catch_up={"window_seconds": -1}), "catch_up.window_seconds", ">= 0"),
    (job(delivery="maybe"), "delivery", "is not one of at_least_once, exactly_once"),
    (job(critical="yes"), "critical", "expected bool, got str"),
    (job(slots=0), "slots", ">= 1"),
    (job(pause_on_failure=0), "pause_on_failure", ">= 1"),
    (job(concurrency_limit=2), "concurrency_limit", "needs a concurrency_key"),
    (job(rate_per_second=2), "rate_per_second", "needs a rate_key"),
    (job(rate_key="api"), "rate_key", "needs a rate_per_second"),
    (job(limits={"memory_bytes": 0}), "limits.memory_bytes", ">= 1024"),
    (job(limits={"memory_bytes": 1023}), "limits.memory_bytes", ">= 1024"),
    (job(retention={"days": -1}), "retention.days", "> 0"),
    (job(dependencies=["a.b"]), "dependencies[0]", "must be the id of a job"),
    (job(dependencies=["a\n"]), "dependencies", "is not the id of a job"),
    (job(job_id="a", dependencies=["b", "a"]), "dependencies", "a -> a"),
    (job(fan_out={}), "fan_out.over", "is required"),
    (job(fan_out={"over": 5}), "fan_out.over", "must be one of"),
    (job(fan_out={"over": {"range": True}}), "fan_out.over.range", "must be a number"),
    (job(fan_out={"over": {"range": -1}}), "fan_out.over.range", "must be between"),
    (job(fan_out={"over": {"range": 3, "from": "a"}}), "fan_out.over", "must be one of"),
    (job(fan_out={"over": {"from": "a"}}), "fan_out.over.from", "only a workflow's node"),
    (job(fan_out={"over": {"lines": "x"}}), "fan_out.over.lines", "sha256"),
    (job(fan_out={"over": [], "max_concurrency": 0}), "fan_out.max_concurrency", ">= 1"),
    (
        job(fan_out={"over": [], "tolerated_failures": "many"}),
        "fan_out.tolerated_failures",
        "share such as 5%",
    ),
    (
        job(fan_out={"over": [], "tolerated_failures": "101%"}),
        "fan_out.tolerated_failures",
        "share such as 5%",
    ),
    # workflows
    (flow(), "nodes", "must not be empty"),
    (flow(node(id="a"), node(id="a")), "nodes[1].id", "there is another node 'a'"),
    (flow(node(id="a", depends_on=["b"])), "nodes[0].depends_on", "there is no node 'b'"),
    (flow(node(id="a", depends_on=["a"])), "nodes", "a -> a"),
    (
        flow(node(id="a", depends_on=["c"]), node(id="b", depends_on=["a"]), node(id="c", depends_on=["b"])),
        "nodes",
        "a -> c -> b -> a",
    ),
    (flow(node(id="a.b")), "nodes[0].id", "must be letters, digits"),
    (flow(node(id="a\n")), "nodes[0].id", "must be letters, digits"),
    (flow(node(id="a", queue="q\n")), "nodes[0].queue", "must be letters, digits"),
    (flow({"id": "a", "command": " "}), "nodes[0].command", "is empty"),
    (flow(node(id="a", http={"url": "x"})), "nodes[0].http", "cannot be combined with command"),
    (flow(node(id="a", retries="x")), "nodes[0].retries", "expected int, got str"),
    (flow(node(id="a", depends="b")), "nodes[0].depends", "there is no such field"),
    (flow(node(id="a", trigger_rule="sometimes")), "nodes[0].trigger_rule", "is not"),
    (flow(node(id="a", trigger_rule="one_failed")), "nodes[0].trigger_rule", "'a' can never run"),
    (
        flow(node(id="a"), node(id="b", depends_on=["a"], trigger_rule="all_skipped")),
        "nodes[1].trigger_rule",
        "'b' can never run: all_skipped waits for 'a' to be skipped",
    ),
    (
        flow(node(id="a"), node(id="b", map={"over": {"from": "a"}})),
        "nodes[1].map.over.from",
        "not among the nodes it depends on",
    ),
    (flow(node(id="a"), command="true"), "command", "cannot be combined with nodes"),
    (flow(node(id="a"), fan_out={"over": [1]}), "fan_out", "cannot be combined with nodes"),
    (flow(node(id="a"), workflow_id="x", job_id="y"), "workflow_id", "something else than job_id"),
]


@pytest.mark.parametrize(("body", "field", "reason"), ROWS, ids=lambda value: json.dumps(value)[:60])
def test_refused(body: dict[str, Any], field: str, reason: str) -> None:
    for form in (body, json.dumps(body).encode()):
        with pytest.raises(InvalidDefinition) as refused:
            define_body(form, NOW)
        assert refused.value.kind == "invalid"
        assert [error.field for error in refused.value.errors] == [field], refused.value
        assert reason in refused.value.errors[0].reason


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        (b"", "malformed", "not JSON"),
        (b"{", "malformed", "not JSON"),
        (b"name=x", "malformed", "not JSON"),
        (b'{"name": "\xff"}', "malformed", "not UTF-8"),
        (b'{"payload": NaN}', "malformed", "not JSON"),
        (b'{"payload": 1e999}', "malformed", "not JSON"),
        (b'{"payload": "\\ud800"}', "malformed", "not JSON"),
        (b"[]", "malformed", "must be a JSON object"),
        (b'"x"', "malformed", "must be a JSON object"),
        (b"null", "malformed", "must be a JSON object"),
        (b"[" * 100_000, "malformed", "nested too deeply"),
        (b'{"payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "malformed", "nested too deeply"),
        (b'{"payload": "' + b"x" * 10_000_000 + b'"}', "too_large", "at most 2097152"),
        ({"payload": object()}, "malformed", "cannot be written as JSON"),
        ({"payload": NESTED}, "malformed", "nested too deeply"),
        ({"name": "\ud800"}, "malformed", "UTF-8"),
    ],
)
def test_unreadable(body: bytes | dict[str, Any], kind: str, reason: str) -> None:
    for attempt in (read_request, lambda body: define_body(body, NOW)):
        with pytest.raises(InvalidDefinition) as refused:
            attempt(body)
        assert refused.value.kind == kind
        assert len(refused.value.errors) == 1
        assert reason in refused.value.errors[0].reason


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        (job(payload=[[[[1]]]]), "payload", "nested too deeply"),
        (job(metadata={"a": {"b": {"c": {"d": 1}}}}), "metadata", "nested too deeply"),
        (job(payload={"a\0": 1}), "payload", "NUL"),
        (job(payload=[{"a": ["x\0"]}]), "payload", "NUL"),
        (job(payload=float("nan")), "payload", "not finite"),
        (job(timeout_seconds=float("inf")), "timeout_seconds", "not finite"),
    ],
)
def test_what_cannot_be_stored(body: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        define_body(body, NOW, DefinitionLimits(depth=3))
    assert [error.field for error in refused.value.errors] == [field]
    assert reason in refused.value.errors[0].reason


def test_a_payload_over_the_limit_is_too_large() -> None:
    body = job(payload="x" * (1 << 20))
    with pytest.raises(InvalidDefinition) as refused:
        define_body(body, NOW)
    assert refused.value.kind == "too_large"
    assert refused.value.errors[0].field == "payload"
    assert define_body(body, NOW, DefinitionLimits(payload_bytes=2 << 20)).payload == "x" * (1 << 20)


def test_all_problems_come_at_once() -> None:
    body = {
        "nme": "x",
        "name": "",
        "cron": "61 * * * *",
        "every": "30s",
        "timezone": "Mars/Olympus",
        "priority": 1000,
        "command": ["echo"],
        "http": {"url": "ftp://x", "method": "G T"},
        "labels": {"a.b": "c"},
        "retry": {"factr": 1},
        "dependencies": ["a b"],
    }
    with pytest.raises(InvalidDefinition) as refused:
        define_body(body, NOW)
    assert {error.field for error in refused.value.errors} == {
        "nme",
        "name",
        "cron",
        "every",
        "timezone",
        "priority",
        "http",
        "labels",
        "retry.factr",
        "dependencies[0]",
    }
    assert "nme: there is no such field" in str(refused.value)


def test_bounds_hold_for_requests_made_in_python() -> None:
    with pytest.raises(InvalidDefinition, match="priority: expected int <= 100"):
        define(JobRequest(name="x", priority=500), NOW)
    with pytest.raises(InvalidDefinition, match=r"nodes\[0\]\.id"):
        define(JobRequest(name="x", nodes=[NodeRequest(id="a b")]), NOW)
    with pytest.raises(InvalidDefinition, match="cannot be written as JSON"):
        define(JobRequest(name="x", payload=object()), NOW)
    with pytest.raises(InvalidDefinition, match="UTF-8"):
        define(JobRequest(name="\ud800"), NOW)


def test_a_node_says_what_runs_as_a_job_does() -> None:
    jobs = {field.name: field.type for field in msgspec.structs.fields(JobRequest)}
    nodes = {field.name: field.type for field in msgspec.structs.fields(NodeRequest)}
    own = {"id", "depends_on", "trigger_rule", "condition", "map"}
    assert {name: kind for name, kind in nodes.items() if name not in own} == {
        name: jobs[name] for name in nodes if name not in own
    }


# --- whatever the input --------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
field_names = st.sampled_from([field.encode_name for field in msgspec.structs.fields(JobRequest)])
plausible = st.sampled_from(
    [
        "now",
        "every 5m",
        "* * * * *",
        "0 0 31 2 *",
        "2026-12-31T23:59:59Z",
        "UTC",
        "a",
        "5m",
        "light",
        "latest",
        DIGEST,
        "CRON",
        "skip",
        "http://x",
        "",
        "\x00",
        "H H * * *",
        "2026-12-25",
        "all_done",
        "exactly_once",
        "{{ item }}",
    ]
)
nodes = st.lists(
    st.dictionaries(
        st.sampled_from([field.name for field in msgspec.structs.fields(NodeRequest)]),
        plausible | json_values | st.lists(st.sampled_from("abc"), max_size=3),
        max_size=5,
    ).map(lambda drawn: {"id": "a", **drawn}),
    max_size=4,
)
bodies = st.dictionaries(
    field_names, plausible | json_values | st.lists(plausible, max_size=3), max_size=8
) | st.fixed_dictionaries({"name": st.just("x"), "nodes": nodes})


@settings(max_examples=250)
@given(bodies)
@example({"name": "x", "command": "true", "payload": []})
@example({"name": "x", "nodes": [{"id": "a", "payload": [1]}]})
def test_any_fields_give_a_definition_or_a_refusal(body: dict[str, Any]) -> None:
    for form in (body, json.dumps(body).encode(errors="surrogatepass")):
        try:
            spec = define_body(form, NOW)
        except InvalidDefinition:
            continue
        assert msgspec.json.decode(msgspec.json.encode(spec), type=JobSpec) == spec


@settings(max_examples=100)
@given(
    st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode(errors="surrogatepass"))
)
def test_any_bytes_give_a_request_or_a_refusal(body: bytes) -> None:
    with contextlib.suppress(InvalidDefinition):
        define(read_request(body), NOW)
