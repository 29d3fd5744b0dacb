"""OpenTelemetry traces of attempts, where they are configured; otherwise nothing is loaded.

No context travels with a run: its trace id is a function of its id, so that the spans of all attempts, whichever
process makes them, are one trace. Spans are made when an attempt ends, from the times its events carry.
"""

import os
from collections.abc import Callable, Mapping
from hashlib import blake2b

from waterclock.executor.attempt_record import FinalEvent
from waterclock.proto.events import Instant, OutcomeRejected, RunsMissed, RunSucceeded
from waterclock.proto.work import WorkItem

Trace = Callable[[WorkItem, FinalEvent, Instant], None]


def tracer(environ: Mapping[str, str] = os.environ) -> Trace | None:
    """None unless a tracer provider is configured (`opentelemetry-instrument`, `OTEL_PYTHON_TRACER_PROVIDER`)."""
    if not any(name.startswith("OTEL_") for name in environ):
        return None
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return _trace


def _trace(item: WorkItem, event: FinalEvent, pulled: Instant) -> None:
    from opentelemetry import trace

    if isinstance(event, OutcomeRejected | RunsMissed) or event.started is None:
        return
    spans = trace.get_tracer("waterclock")
    digest = blake2b(item.run_id.encode(), digest_size=24).digest()
    origin = trace.SpanContext(
        trace_id=int.from_bytes(digest[:16]),
        span_id=int.from_bytes(digest[16:]),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
    attributes: dict[str, str | int] = {
        "waterclock.run_id": item.run_id,
        "waterclock.job_id": item.job_id,
        "waterclock.attempt": item.attempt,
        "waterclock.outcome": str(event.__struct_config__.tag),
    }
    begun = item.scheduled if item.attempt == 1 else item.due
    whole = spans.start_span(
        "run" if item.attempt == 1 else "retry",
        trace.set_span_in_context(trace.NonRecordingSpan(origin)),
        attributes=attributes,
        start_time=begun * 1000,
    )
    inside = trace.set_span_in_context(whole)
    moments = (
        ("decide", begun, item.queued),
        ("queue", item.queued, pulled),
        ("start", pulled, event.started),
        ("execute", event.started, event.at),
    )
    for name, start, end in moments:
        part = spans.start_span(name, inside, attributes=attributes, start_time=start * 1000)
        part.end(max(start, end) * 1000)
    if not isinstance(event, RunSucceeded):
        whole.set_status(trace.Status(trace.StatusCode.ERROR, getattr(event, "reason", "")))
    whole.end(event.at * 1000)
