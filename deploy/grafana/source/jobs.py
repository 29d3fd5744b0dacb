"""All jobs: which fail, which are slow, which are late."""

from typing import Any

from source.panels import dashboard as build
from source.panels import sql, stat, table

ONE = "/d/waterclock-one-job?var-job=${__data.fields.job_id}"


def dashboard() -> dict[str, Any]:
    statuses = ("SCHEDULED", "PAUSED", "COMPLETED", "CANCELLED")
    return build(
        "jobs",
        "Jobs",
        "All jobs: which fail, which are slow, which are late.",
        [
            (
                4,
                [
                    stat(
                        status.capitalize(),
                        sql(f"SELECT count(*) AS jobs FROM waterclock.jobs WHERE status = '{status}'"),
                    )
                    for status in statuses
                ]
                + [
                    stat(
                        "Dead letters", sql("SELECT count(*) AS runs FROM waterclock.dead_letters"), bad_at=1
                    )
                ],
            ),
            (
                10,
                [
                    table(
                        "Fail most",
                        """SELECT job_id, count(*) FILTER (WHERE status = 'FAILED') AS failed,
                                  count(*) FILTER (WHERE status = 'TIMED_OUT') AS timed_out, count(*) AS ended,
                                  max(end_time) FILTER (WHERE status <> 'SUCCESS') AS last_failure
                           FROM waterclock.job_runs
                           WHERE $__timeFilter(end_time) AND status IN ('SUCCESS', 'FAILED', 'TIMED_OUT')
                           GROUP BY job_id HAVING count(*) FILTER (WHERE status <> 'SUCCESS') > 0
                           ORDER BY count(*) FILTER (WHERE status <> 'SUCCESS') DESC LIMIT 50""",
                        links={"job_id": ONE},
                    ),
                    table(
                        "Slowest",
                        """SELECT job_id, count(*) AS runs,
                                  percentile_cont(0.5) WITHIN GROUP (
                                      ORDER BY extract(epoch FROM end_time - start_time)) AS median_s,
                                  max(extract(epoch FROM end_time - start_time)) AS longest_s
                           FROM waterclock.job_runs
                           WHERE $__timeFilter(end_time) AND start_time IS NOT NULL
                           GROUP BY job_id ORDER BY median_s DESC LIMIT 50""",
                        links={"job_id": ONE},
                    ),
                ],
            ),
            (
                10,
                [
                    table(
                        "Latest to start",
                        """SELECT job_id, count(*) AS runs, max(extract(epoch FROM start_time - due_time)) AS worst_s,
                                  avg(extract(epoch FROM start_time - due_time)) AS mean_s
                           FROM waterclock.job_runs
                           WHERE $__timeFilter(start_time)
                           GROUP BY job_id ORDER BY worst_s DESC LIMIT 50""",
                        links={"job_id": ONE},
                    ),
                    table(
                        "Skipped and missed",
                        """SELECT job_id, status, reason, sum(fires) AS fires, max(scheduled_time) AS last
                           FROM waterclock.job_runs
                           WHERE status IN ('SKIPPED', 'MISSED') AND $__timeFilter(created_at)
                           GROUP BY job_id, status, reason ORDER BY last DESC LIMIT 50""",
                        links={"job_id": ONE},
                    ),
                ],
            ),
        ],
    )
