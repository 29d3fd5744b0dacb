"""Executors and queues: what waits, for how long, and who could take it."""

from typing import Any

from source.panels import dashboard as build
from source.panels import heatmap, promql, quantiles, series, table


def dashboard() -> dict[str, Any]:
    return build(
        "executors",
        "Executors and queues",
        "What waits, for how long, and who could take it.",
        [
            (
                8,
                [
                    series(
                        "Waiting",
                        promql("sum by (queue, tier) (waterclock_queue_waiting)", "{{queue}} {{tier}}"),
                        stack=True,
                    ),
                    series(
                        "Age of the oldest that waits",
                        promql("max by (queue, tier) (waterclock_queue_age_seconds)", "{{queue}} {{tier}}"),
                        unit="s",
                    ),
                    series(
                        "Taken, not finished",
                        promql("sum by (queue, tier) (waterclock_queue_running)", "{{queue}} {{tier}}"),
                        stack=True,
                    ),
                ],
            ),
            (
                8,
                [
                    series(
                        "Slots",
                        promql("sum by (state) (waterclock_executors_slots)", "{{state}}"),
                        promql("sum(waterclock_executor_in_hand)", "in hand"),
                    ),
                    series(
                        "Executors", promql("sum by (state) (waterclock_executors)", "{{state}}"), stack=True
                    ),
                    series(
                        "Duration of attempts", *quantiles("waterclock_executor_attempt_seconds"), unit="s"
                    ),
                ],
            ),
            (
                8,
                [
                    series(
                        "Start lag by part, p95",
                        quantiles("waterclock_start_lag_part_seconds", "part")[1],
                        unit="s",
                        about="decide: due to queued; queue: to pulled; start: to started.",
                    ),
                    heatmap(
                        "Start lag, from the scheduled time",
                        promql(
                            "sum by (le) (increase(waterclock_start_lag_seconds_bucket[$__rate_interval]))",
                            "{{le}}",
                        ),
                    ),
                    series(
                        "Attempts by outcome, and redeliveries by verdict",
                        promql(
                            "sum by (outcome) (rate(waterclock_executor_outcomes_total[$__rate_interval]))",
                            "{{outcome}}",
                        ),
                        promql(
                            "sum by (verdict) (rate(waterclock_executor_claims_total[$__rate_interval]))",
                            "claim: {{verdict}}",
                        ),
                        unit="ops",
                    ),
                ],
            ),
            (
                9,
                [
                    table(
                        "Executors",
                        """SELECT executor_id, status, host, pid, queues, tiers, handlers, slots, busy, started_at,
                                  seen_at
                           FROM waterclock.executors ORDER BY status, executor_id""",
                    ),
                    table(
                        "Queues",
                        """SELECT queue, handler, tier, priority, waiting, due, running, missing, redelivered, pulls,
                                  oldest_time
                           FROM waterclock.queues ORDER BY waiting DESC, queue, tier, priority""",
                    ),
                ],
            ),
        ],
    )
