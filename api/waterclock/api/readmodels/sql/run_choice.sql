-- name: filter
-- What a run must be like: a part of the statements below. The job is the one that its id begins with: a node is listed
-- under an id of its own. Callers do not see the namespace that an id begins with, and do not look for it.
($2::text[] IS NULL OR r.status = ANY ($2))
  AND ($3::text IS NULL OR r.job_id = $3)
  AND ($4::text IS NULL OR r.workflow_run_id = $4)
  AND ($5::jsonb IS NULL OR d.labels @> $5)
  AND ($6::text[] IS NULL OR d.labels ?& $6)
  AND ($7::text IS NULL OR r.queue = $7)
  AND ($8::text IS NULL OR r.executor_id = $8)
  AND ($9::text IS NULL OR r.trigger = $9)
  AND ($10::text IS NULL OR d.name ILIKE $10 OR r.error_message ILIKE $10 OR r.reason ILIKE $10
       OR CASE r.namespace WHEN 'default' THEN r.run_id ELSE substr(r.run_id, length(r.namespace) + 2) END ILIKE $10)
  AND ($11::timestamptz IS NULL OR r.scheduled_time >= $11)
  AND ($12::timestamptz IS NULL OR r.scheduled_time < $12)

-- name: matching
-- Runs of a namespace that match and are in one of some states, in the order of their times, after one of them.
SELECT r.run_id, r.status, r.version, r.scheduled_time, r.attempt_number, r.workflow_run_id, r.epoch,
       coalesce(d.is_workflow, false) AS is_workflow
FROM waterclock.job_runs r
LEFT JOIN waterclock.job_definitions d ON d.job_id = split_part(r.run_id, '@', 1)
WHERE r.namespace = $1
  AND {filter}
  AND r.status = ANY ($13::text[])
  AND ($14::timestamptz IS NULL OR (r.scheduled_time, r.run_id) > ($14, $15::text))
ORDER BY r.scheduled_time, r.run_id
LIMIT $16;

-- name: count_matching
-- How many they are.
SELECT count(*) AS count
FROM waterclock.job_runs r
LEFT JOIN waterclock.job_definitions d ON d.job_id = split_part(r.run_id, '@', 1)
WHERE r.namespace = $1
  AND {filter}
  AND r.status = ANY ($13::text[]);

-- name: by_ids
-- The same of runs by their ids, whatever state they are in.
SELECT r.run_id, r.status, r.version, r.scheduled_time, r.attempt_number, r.workflow_run_id, r.epoch,
       coalesce(d.is_workflow, false) AS is_workflow
FROM waterclock.job_runs r
LEFT JOIN waterclock.job_definitions d ON d.job_id = split_part(r.run_id, '@', 1)
WHERE r.namespace = $1 AND r.run_id = ANY ($2::text[]);
