"""One job: its definition, its runs, and where their time goes."""

from typing import Any

from source.panels import dashboard as build
from source.panels import job_variable, series, sql, stat, table


def dashboard() -> dict[str, Any]:
    mine = "job_id = '$job'"
    return build(
        "one-job",
        "One job",
        "One job: its definition, its runs, and where their time goes.",
        [
            (
                4,
                [
                    stat("Status", sql(f"SELECT status FROM waterclock.jobs WHERE {mine}"), unit="string"),
                    stat(
                        "Next run",
                        sql(
                            f"SELECT extract(epoch FROM next_run_at) * 1000 AS at FROM waterclock.jobs WHERE {mine}"
                        ),
                        unit="dateTimeFromNow",
                    ),
                    stat(
                        "Succeeded",
                        sql(
                            f"""SELECT avg((status = 'SUCCESS')::int) AS share FROM waterclock.job_runs
                                WHERE {mine} AND $__timeFilter(end_time)
                                AND status IN ('SUCCESS', 'FAILED', 'TIMED_OUT')"""
                        ),
                        unit="percentunit",
                    ),
                    stat(
                        "Median duration",
                        sql(
                            f"""SELECT percentile_cont(0.5) WITHIN GROUP (
                                    ORDER BY extract(epoch FROM end_time - start_time)) AS seconds
                                FROM waterclock.job_runs WHERE {mine} AND $__timeFilter(end_time)"""
                        ),
                        unit="s",
                    ),
                ],
            ),
            (
                9,
                [
                    series(
                        "Where the time went",
                        sql(
                            f"""SELECT scheduled_time AS time,
                                       extract(epoch FROM due_time - scheduled_time) AS jitter,
                                       extract(epoch FROM queued_time - due_time) AS decide,
                                       extract(epoch FROM start_time - queued_time) AS queue,
                                       extract(epoch FROM end_time - start_time) AS run
                                FROM waterclock.job_runs WHERE {mine} AND $__timeFilter(scheduled_time)
                                ORDER BY scheduled_time""",
                            "time_series",
                        ),
                        unit="s",
                        stack=True,
                    ),
                    series(
                        "Runs by status",
                        sql(
                            f"""SELECT $__timeGroupAlias(scheduled_time, $__interval), status AS metric,
                                       sum(fires) AS value
                                FROM waterclock.job_runs WHERE {mine} AND $__timeFilter(scheduled_time)
                                GROUP BY 1, 2 ORDER BY 1""",
                            "time_series",
                        ),
                        stack=True,
                    ),
                ],
            ),
            (
                11,
                [
                    table(
                        "Runs",
                        f"""SELECT scheduled_time, run_id, status, reason, attempt_number, crash_count, executor_id,
                                   start_time, end_time, exit_code, error_message, log_url
                            FROM waterclock.job_runs WHERE {mine} AND $__timeFilter(created_at)
                            ORDER BY created_at DESC LIMIT 200""",
                    )
                ],
            ),
            (
                6,
                [
                    table(
                        "Definition",
                        f"""SELECT name, schedule_type, cron_expression, interval_seconds, timezone, overlap, catch_up,
                                   queue, tier, priority, max_retries, timeout_seconds, delivery, critical, labels,
                                   version, updated_at
                            FROM waterclock.jobs WHERE {mine}""",
                    )
                ],
            ),
        ],
        [job_variable()],
    )
