"""Spans of an attempt, seen by a provider of the test's own; and none without one."""

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, TraceFlags, Tracer, TracerProvider

from executor_rig.builders import NOON, work_item
from waterclock.executor.attempt.tracing import tracer
from waterclock.proto.events import RunFailed, RunSucceeded


class Seen(NonRecordingSpan):
    def __init__(self, name: str, parent: SpanContext, number: int, options: dict[str, Any]) -> None:
        super().__init__(SpanContext(parent.trace_id, number, False, TraceFlags(1)))
        self.name, self.parent, self.options = name, parent, options
        self.status: Status | None = None
        self.ended: int | None = None

    def end(self, end_time: int | None = None) -> None:
        self.ended = end_time

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status


class Notebook(TracerProvider, Tracer):
    def __init__(self) -> None:
        self.spans: list[Seen] = []

    def get_tracer(self, *args: Any, **options: Any) -> Tracer:
        return self

    def start_span(self, name: str, context: Any = None, *args: Any, **options: Any) -> Seen:
        parent = trace.get_current_span(context).get_span_context()
        self.spans.append(Seen(name, parent, len(self.spans) + 1, options))
        return self.spans[-1]

    def start_as_current_span(self, name: str, *args: Any, **options: Any) -> Any:
        raise AssertionError("spans are made after the fact")


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    notebook = Notebook()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: notebook)
    monkeypatch.setattr(trace, "get_tracer", notebook.get_tracer)
    return notebook


def outcome(kind: type, attempt: int = 1, **fields: Any) -> Any:
    run_id = work_item().run_id
    given = {"executor_id": "e", "attempt": attempt, "started": NOON + 30, "at": NOON + 100, **fields}
    return kind(run_id=run_id, **given)


def test_nothing_without_a_provider() -> None:
    assert tracer({}) is None
    assert tracer({"OTEL_SERVICE_NAME": "waterclock"}) is None


def test_an_attempt_is_a_span_with_its_parts_inside(notebook: Notebook) -> None:
    write = tracer({"OTEL_SERVICE_NAME": "waterclock"})
    assert write is not None
    write(work_item(run={"queued": NOON + 10}), outcome(RunSucceeded), NOON + 20)
    whole, *parts = notebook.spans
    assert (whole.name, whole.options["start_time"], whole.ended) == ("run", NOON * 1000, (NOON + 100) * 1000)
    assert whole.options["attributes"]["waterclock.run_id"] == work_item().run_id
    times = [
        (part.name, part.options["start_time"] // 1000 - NOON, (part.ended or 0) // 1000 - NOON)
        for part in parts
    ]
    assert times == [("decide", 0, 10), ("queue", 10, 20), ("start", 20, 30), ("execute", 30, 100)]
    assert {part.parent.span_id for part in parts} == {whole.get_span_context().span_id}
    assert whole.status is None


def test_attempts_of_a_run_share_a_trace_and_failures_are_errors(notebook: Notebook) -> None:
    write = tracer({"OTEL_SERVICE_NAME": "waterclock"})
    assert write is not None
    write(work_item(), outcome(RunFailed, reason="exit 1"), NOON)
    write(work_item(run={"attempt": 2}), outcome(RunFailed, 2, reason="exit 1"), NOON)
    roots = [span for span in notebook.spans if span.name in ("run", "retry")]
    assert [root.name for root in roots] == ["run", "retry"]
    assert len({root.parent.trace_id for root in roots}) == 1
    assert all(root.status is not None and root.status.description == "exit 1" for root in roots)
