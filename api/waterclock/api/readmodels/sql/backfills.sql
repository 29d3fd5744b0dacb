-- name: progress
-- How many runs of a backfill are in which status.
SELECT status, count(*) AS count FROM waterclock.job_runs WHERE workflow_run_id = $1 GROUP BY status;

-- name: outcomes
-- How the scheduled times of a range went.
SELECT scheduled_time, status FROM waterclock.job_runs
WHERE job_id = $1 AND scheduled_time >= $2 AND scheduled_time < $3;
