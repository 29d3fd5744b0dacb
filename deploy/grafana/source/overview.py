"""Is all well? What a person looks at first."""

from typing import Any

from source.panels import dashboard as build
from source.panels import promql, quantiles, series, sql, stat, table

RUN = "/d/waterclock-one-job?var-job=${__data.fields.job_id}"


def dashboard() -> dict[str, Any]:
    return build(
        "overview",
        "Overview",
        "Is all well: what runs, what fails, what is late, and who is there.",
        [
            (
                4,
                [
                    stat(
                        "Runs a second",
                        promql("sum(rate(waterclock_runs_ended_total[$__rate_interval]))"),
                        unit="ops",
                    ),
                    stat(
                        "Failed",
                        promql(
                            'sum(rate(waterclock_runs_ended_total{outcome=~"failed|timed_out"}[$__rate_interval]))'
                            " / sum(rate(waterclock_runs_ended_total[$__rate_interval]))"
                        ),
                        unit="percentunit",
                        bad_at=0.05,
                    ),
                    stat(
                        "Start lag, p99",
                        quantiles("waterclock_executor_start_lag_seconds")[2],
                        unit="s",
                        bad_at=1,
                        about="From when an attempt was due to when it started.",
                    ),
                    stat(
                        "Waiting",
                        promql("sum(waterclock_queue_waiting)"),
                        about="Attempts that no executor has taken.",
                    ),
                    stat(
                        "Partitions without an owner",
                        promql('sum(waterclock_partitions_owned{owner=""}) or vector(0)'),
                        bad_at=1,
                    ),
                    stat("Executors", promql('sum(waterclock_executors{state="ACTIVE"})')),
                ],
            ),
            (
                8,
                [
                    series(
                        "Runs ended",
                        promql(
                            "sum by (outcome) (rate(waterclock_runs_ended_total[$__rate_interval]))",
                            "{{outcome}}",
                        ),
                        unit="ops",
                        stack=True,
                    ),
                    series("Start lag", *quantiles("waterclock_executor_start_lag_seconds"), unit="s"),
                ],
            ),
            (
                8,
                [
                    series(
                        "Runs by status",
                        sql(
                            """SELECT $__timeGroupAlias(end_time, $__interval), status AS metric, count(*) AS value
                               FROM waterclock.job_runs
                               WHERE $__timeFilter(end_time) GROUP BY 1, 2 ORDER BY 1""",
                            "time_series",
                        ),
                        stack=True,
                        about="From the read models: also what was skipped, missed or cancelled.",
                    ),
                    series(
                        "Retries, dead letters, rejected outcomes",
                        promql("sum(rate(waterclock_retries_total[$__rate_interval]))", "retries"),
                        promql("sum(rate(waterclock_dead_letters_total[$__rate_interval]))", "dead letters"),
                        promql(
                            'sum(rate(waterclock_executor_outcomes_total{outcome="rejected"}[$__rate_interval]))',
                            "rejected outcomes",
                        ),
                        unit="ops",
                    ),
                ],
            ),
            (
                9,
                [
                    table(
                        "Failed last",
                        """SELECT end_time, job_id, run_id, status, attempt_number, reason, error_message
                           FROM waterclock.job_runs
                           WHERE status IN ('FAILED', 'TIMED_OUT') AND $__timeFilter(end_time)
                           ORDER BY end_time DESC LIMIT 50""",
                        links={"job_id": RUN},
                    ),
                    table(
                        "Due next",
                        """SELECT next_run_at, job_id, name, schedule_type, last_fire_at
                           FROM waterclock.upcoming ORDER BY next_run_at LIMIT 50""",
                        links={"job_id": RUN},
                    ),
                ],
            ),
        ],
    )
