-- name: some_jobs
-- A few jobs of a namespace: the newest, and of those that may still fire the oldest.
(SELECT job_id FROM waterclock.job_definitions WHERE namespace = $1 ORDER BY created_at DESC LIMIT $2)
UNION
(SELECT job_id FROM waterclock.job_state WHERE namespace = $1 AND status <> 'COMPLETED' ORDER BY created_at LIMIT $2);

-- name: jobs_after
-- All jobs of a namespace, in order, from an id on.
SELECT job_id FROM waterclock.job_definitions WHERE namespace = $1 AND job_id > $2 ORDER BY job_id LIMIT $3;

-- name: jobs
-- Jobs as a user of SQL sees them.
SELECT job_id, status, version, name, schedule_type, next_run_at, skipped, last_run ->> 'run_id' AS last_run_id,
       last_run ->> 'status' AS last_status
FROM waterclock.jobs WHERE namespace = $1 AND job_id = ANY ($2::text[]);

-- name: some_runs
-- A few runs of a namespace whose beginning the log has: the newest, and of those that are open the oldest.
(SELECT run_id, first_sequence FROM waterclock.job_runs
  WHERE namespace = $1 AND first_sequence >= $3 ORDER BY scheduled_time DESC LIMIT $2)
UNION
(SELECT run_id, first_sequence FROM waterclock.job_runs
  WHERE namespace = $1 AND first_sequence >= $3 AND status IN ('WAITING', 'QUEUED', 'RUNNING', 'RETRYING')
  ORDER BY due_time LIMIT $2);

-- name: runs
-- Runs as a user of SQL sees them.
SELECT * FROM waterclock.job_runs WHERE run_id = ANY ($1::text[]);

-- name: runs_after
-- All runs of a namespace whose beginning is in a part of the log, in order, from a place on.
SELECT run_id, first_sequence FROM waterclock.job_runs
WHERE namespace = $1 AND first_sequence BETWEEN $2 AND $3 AND run_id > $4
ORDER BY run_id LIMIT $5;

-- name: may_be_deleted
-- Of some jobs, those that are gone, or keep fewer runs than the system.
SELECT ids.job_id FROM unnest($1::text[]) AS ids (job_id)
LEFT JOIN waterclock.job_definitions d USING (job_id)
WHERE d.job_id IS NULL OR d.has_retention;

-- name: work_by_queue
-- Runs that have work in a queue, or with an executor.
SELECT queue, tier, count(*) AS count FROM waterclock.job_runs
WHERE status IN ('QUEUED', 'RUNNING') AND queue IS NOT NULL
GROUP BY queue, tier;

-- name: running
-- Runs that run, and where.
SELECT run_id, executor_id FROM waterclock.job_runs
WHERE namespace = $1 AND status = 'RUNNING' AND executor_id IS NOT NULL
ORDER BY due_time LIMIT $2;

-- name: executors
-- Who is there.
SELECT executor_id FROM waterclock.executors WHERE status <> 'GONE';

-- name: dead_letters_that_live
-- Dead letters whose run has another status.
SELECT l.run_id, l.status, r.status AS run_status
FROM waterclock.dead_letters l JOIN waterclock.job_runs r USING (run_id)
WHERE l.namespace = $1 AND r.status <> l.status
LIMIT 100;
