-- name: of_job
-- Runs of a job that match, newest first, from a place on.
SELECT to_jsonb(runs) AS run, created_at, run_id FROM waterclock.job_runs runs
WHERE job_id = $1 AND namespace = $2
  AND ($3::text IS NULL OR status = $3)
  AND ($4::timestamptz IS NULL OR scheduled_time >= $4)
  AND ($5::timestamptz IS NULL OR scheduled_time < $5)
  AND ($6::timestamptz IS NULL OR (created_at, run_id) < ($6, $7::text))
ORDER BY created_at DESC, run_id DESC
LIMIT $8;

-- name: one
-- One run.
SELECT to_jsonb(runs) AS run FROM waterclock.job_runs runs WHERE run_id = $1 AND namespace = $2;

-- name: attempts
-- The attempts of a run that have started, oldest first. One that runs has output as soon as it says something.
SELECT jsonb_build_object(
           'attempt_number', attempt_number, 'status', status, 'start_time', start_time, 'end_time', end_time,
           'executor_id', executor_id, 'exit_code', exit_code,
           'error_message', CASE WHEN status IN ('RUNNING', 'SUCCESS') THEN error_message ELSE coalesce(error_message, reason) END,
           'cpu_seconds', cpu_seconds, 'memory_bytes', memory_bytes,
           'log_url', CASE WHEN status = 'RUNNING' THEN '' ELSE log_url END) AS attempt
  FROM waterclock.job_attempts
 WHERE run_id = $1 AND namespace = $2
 ORDER BY attempt_number, end_time NULLS LAST, start_time;

-- name: by_prefix
-- Ids that begin with a text, to find out what a shortened one means.
SELECT run_id FROM waterclock.job_runs
WHERE namespace = $1 AND run_id >= $2 AND run_id < $3
ORDER BY run_id
LIMIT 3;

-- name: redrivable
-- What another attempt of runs that ended badly needs to know.
SELECT run_id, version, scheduled_time, attempt_number, workflow_run_id, epoch
FROM waterclock.job_runs
WHERE namespace = $1 AND run_id = ANY ($2::text[])
  AND status IN ('FAILED', 'TIMED_OUT', 'CANCELLED', 'SKIPPED', 'MISSED');

-- name: extent
-- Where in the log the history of a run lies, and whether it goes on.
SELECT first_sequence, last_sequence, status IN ('WAITING', 'QUEUED', 'RUNNING', 'RETRYING') AS open
FROM waterclock.job_runs WHERE run_id = $1;

-- name: version
-- The version of the definition a run runs with.
SELECT version FROM waterclock.job_runs WHERE run_id = $1;

-- name: fires_taken
-- How many fires of its schedule a job has taken: what was skipped or missed is none.
SELECT count(*) AS count FROM waterclock.job_runs
WHERE job_id = $1 AND trigger IN ('schedule', 'catch_up', 'dependency') AND status NOT IN ('SKIPPED', 'MISSED');

-- name: nodes
-- The runs of a workflow run's nodes.
SELECT to_jsonb(runs) AS run FROM waterclock.job_runs runs WHERE workflow_run_id = $1 ORDER BY created_at;

-- name: parameters
-- What a workflow run was started with.
SELECT parameters FROM waterclock.job_runs WHERE run_id = $1;

-- name: dead_letters
-- Dead letters that match, newest first, from a place on.
SELECT to_jsonb(letters) AS letter, dead_time, run_id
FROM waterclock.dead_letters letters
WHERE namespace = $1
  AND ($2::text IS NULL OR job_id = $2)
  AND ($3::text IS NULL OR status = $3)
  AND ($4::text IS NULL OR reason ILIKE $4 OR error_message ILIKE $4)
  AND ($5::timestamptz IS NULL OR dead_time >= $5)
  AND ($6::timestamptz IS NULL OR dead_time < $6)
  AND ($7::timestamptz IS NULL OR (dead_time, run_id) < ($7, $8::text))
ORDER BY dead_time DESC, run_id DESC
LIMIT $9;

-- name: count_dead_letters
-- How many runs are out of attempts.
SELECT count(*) AS count FROM waterclock.dead_letters WHERE namespace = $1;

-- name: backfill_progress
-- How many runs of a backfill are in which status.
SELECT status, count(*) AS count FROM waterclock.job_runs WHERE workflow_run_id = $1 GROUP BY status;

-- name: outcomes
-- How the scheduled times of a range went.
SELECT scheduled_time, status FROM waterclock.job_runs
WHERE job_id = $1 AND scheduled_time >= $2 AND scheduled_time < $3;
