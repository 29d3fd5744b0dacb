"""Scheduler internals: partitions, passes, the log, the projection, the alerts."""

from typing import Any

from source.panels import dashboard as build
from source.panels import promql, quantiles, series, table


def dashboard() -> dict[str, Any]:
    return build(
        "scheduler",
        "Scheduler internals",
        "Partitions and their owners, passes, the log, the projection, the alerts.",
        [
            (
                8,
                [
                    series(
                        "Partitions by owner", promql("waterclock_partitions_owned", "{{owner}}"), stack=True
                    ),
                    series(
                        "Lag of partitions",
                        promql("topk(8, waterclock_partition_lag_seconds)", "{{partition}}"),
                        unit="s",
                    ),
                    series(
                        "Given up, and takeovers",
                        promql(
                            "sum by (reason) "
                            "(increase(waterclock_scheduler_partitions_given_up_total[$__rate_interval]))",
                            "given up: {{reason}}",
                        ),
                        promql(
                            "sum(increase(waterclock_scheduler_takeover_seconds_count[$__rate_interval]))",
                            "taken over",
                        ),
                    ),
                ],
            ),
            (
                8,
                [
                    series(
                        "Decisions",
                        promql(
                            "sum by (event) (rate(waterclock_scheduler_events_total[$__rate_interval]))",
                            "{{event}}",
                        ),
                        unit="ops",
                        stack=True,
                    ),
                    series("Decision lag", *quantiles("waterclock_scheduler_decision_lag_seconds"), unit="s"),
                    series("Passes", *quantiles("waterclock_scheduler_pass_seconds"), unit="s"),
                ],
            ),
            (
                8,
                [
                    series(
                        "How far behind",
                        promql("waterclock_drain_seconds", "to drain"),
                        promql("waterclock_behind_seconds", "behind"),
                        unit="s",
                    ),
                    series(
                        "Backlog and unread definitions",
                        promql("sum(waterclock_scheduler_partition_backlog)", "backlog"),
                        promql("sum(waterclock_scheduler_partition_unread)", "unread"),
                    ),
                    series(
                        "Creations admitted and refused",
                        promql(
                            "sum by (result) (rate(waterclock_api_admissions_total[$__rate_interval]))",
                            "{{result}}",
                        ),
                        unit="ops",
                        stack=True,
                    ),
                ],
            ),
            (
                8,
                [
                    series(
                        "Active runs and armed schedules",
                        promql("sum(waterclock_scheduler_partition_active_runs)", "active runs"),
                        promql("sum(waterclock_scheduler_partition_armed)", "armed"),
                    ),
                    series(
                        "The log",
                        promql("sum(rate(waterclock_log_published_total[$__rate_interval]))", "published"),
                        promql("sum(rate(waterclock_work_published_total[$__rate_interval]))", "work"),
                        promql(
                            "sum by (stream) (rate(waterclock_log_pulled_total[$__rate_interval]))",
                            "pulled {{stream}}",
                        ),
                        unit="ops",
                    ),
                    series(
                        "Answers lost and publishes refused",
                        promql(
                            "sum(rate(waterclock_log_publish_repeats_total[$__rate_interval]))",
                            "answers lost",
                        ),
                        promql(
                            "sum by (reason) (rate(waterclock_log_publish_refusals_total[$__rate_interval]))",
                            "{{reason}}",
                        ),
                        unit="ops",
                    ),
                ],
            ),
            (
                8,
                [
                    series(
                        "Projection lag", promql("waterclock_projection_lag_seconds", "{{stream}}"), unit="s"
                    ),
                    series(
                        "Projection",
                        promql(
                            "sum(rate(waterclock_projection_events_total[$__rate_interval]))",
                            "events a second",
                        ),
                        promql("sum(waterclock_projection_waiting)", "waiting"),
                    ),
                    series(
                        "Requests",
                        promql(
                            "sum by (method, status) (rate(waterclock_api_requests_total[$__rate_interval]))",
                            "{{method}} {{status}}",
                        ),
                        unit="ops",
                    ),
                ],
            ),
            (
                8,
                [
                    table(
                        "Projection by partition",
                        """SELECT stream, partition, position, event_time, projector, updated_at
                           FROM waterclock.projection_state ORDER BY stream, partition""",
                    )
                ],
            ),
        ],
    )
