-- name: filter
-- What a job must be like: a part of the statements below. A listing and a bulk change have it in common.
($2::text IS NULL OR s.status = $2)
  AND ($3::jsonb IS NULL OR d.labels @> $3)
  AND ($4::text[] IS NULL OR d.labels ?& $4)
  AND ($5::text IS NULL OR d.name = $5)
  AND ($6::text IS NULL OR coalesce(d.spec ->> 'queue', 'default') = $6)
  AND ($7::text IS NULL OR coalesce(d.spec -> 'schedule' ->> 'schedule_type', 'IMMEDIATE') = $7)
  AND ($8::text IS NULL OR d.name ILIKE $8 OR d.labels::text ILIKE $8 OR (d.spec -> 'task')::text ILIKE $8
       OR CASE d.namespace WHEN 'default' THEN d.job_id ELSE substr(d.job_id, length(d.namespace) + 2) END ILIKE $8)
  AND ($9::timestamptz IS NULL OR d.created_at >= $9)
  AND ($10::timestamptz IS NULL OR d.created_at < $10)

-- name: next_run_at
-- When a job runs next; since when it waits, if it was told to run at once. As the view `jobs` has it.
coalesce(s.next_run_at, CASE
    WHEN s.status = 'SCHEDULED'
     AND (coalesce(d.spec #>> '{schedule,schedule_type}', 'IMMEDIATE') = 'IMMEDIATE'
          OR (d.spec #>> '{schedule,schedule_time}')::timestamptz <= d.effective_from)
     AND NOT EXISTS (SELECT FROM waterclock.job_runs e WHERE e.job_id = d.job_id AND e.scheduled_time >= d.effective_from)
    THEN d.effective_from END)

-- name: page
-- Jobs of a namespace that match, in order, from a place on.
SELECT d.job_id, s.status, d.version, d.created_at, d.updated_at, d.note, d.spec, d.payload,
       {next_run_at} AS next_run_at, s.skipped, r.*
FROM waterclock.job_definitions d
JOIN waterclock.job_state s USING (job_id)
LEFT JOIN LATERAL (
    SELECT to_jsonb(runs) AS last_run
    FROM waterclock.job_runs runs
    WHERE runs.job_id = d.job_id
    ORDER BY runs.created_at DESC
    LIMIT 1
) r ON true
WHERE d.namespace = $1
  AND {filter}
  AND ($11::boolean IS NULL OR d.is_workflow = $11)
  AND ($12::text IS NULL OR {after})
ORDER BY {order}
LIMIT $14;

-- name: matching
-- Jobs of a namespace that match and are in one of some states, in the order of their ids, after one of them.
SELECT d.job_id
FROM waterclock.job_definitions d
JOIN waterclock.job_state s USING (job_id)
WHERE d.namespace = $1
  AND {filter}
  AND s.status = ANY ($11::text[])
  AND ($12::text IS NULL OR d.job_id > $12)
ORDER BY d.job_id
LIMIT $13;

-- name: count_matching
-- How many they are.
SELECT count(*) AS count
FROM waterclock.job_definitions d
JOIN waterclock.job_state s USING (job_id)
WHERE d.namespace = $1
  AND {filter}
  AND s.status = ANY ($11::text[]);

-- name: lasting
-- Definitions that may fire again, in the order of their ids, after one of them. Those that were to run at once, and
-- one-shots that were made many at a time, are nobody's declarations.
SELECT d.job_id, s.status, d.version, d.created_at, d.updated_at, d.note, d.spec, d.payload,
       {next_run_at} AS next_run_at, s.skipped,
       NULL AS last_run
FROM waterclock.job_definitions d
JOIN waterclock.job_state s USING (job_id)
WHERE d.namespace = $1
  AND {filter}
  AND s.status = ANY ($11::text[])
  AND ($12::text IS NULL OR d.job_id > $12)
  AND CASE coalesce(d.spec -> 'schedule' ->> 'schedule_type', 'IMMEDIATE')
          WHEN 'IMMEDIATE' THEN false WHEN 'FUTURE' THEN position('~' IN d.job_id) = 0 ELSE true END
ORDER BY d.job_id
LIMIT $13;

-- name: one
-- What the read models know of a job, its definition included.
SELECT d.job_id, s.status, d.version, d.created_at, d.updated_at, d.note, d.spec, d.payload,
       {next_run_at} AS next_run_at, s.skipped, r.*
FROM waterclock.job_definitions d
JOIN waterclock.job_state s USING (job_id)
LEFT JOIN LATERAL (
    SELECT to_jsonb(runs) AS last_run
    FROM waterclock.job_runs runs
    WHERE runs.job_id = d.job_id
    ORDER BY runs.created_at DESC
    LIMIT 1
) r ON true
WHERE d.job_id = $1 AND d.namespace = $2;

-- name: by_prefix
-- Ids that begin with a text, to find out what a shortened one means.
SELECT job_id FROM waterclock.job_definitions
WHERE namespace = $1 AND job_id >= $2 AND job_id < $3
ORDER BY job_id
LIMIT 3;

-- name: by_name
-- Jobs that go by a name.
SELECT job_id FROM waterclock.job_definitions
WHERE namespace = $1 AND lower(left(name, 100)) = lower(left($2, 100)) AND name = $2
ORDER BY created_at DESC
LIMIT 3;

-- name: live_by_namespace
-- How many jobs of each namespace may still fire.
SELECT namespace, count(*) AS count FROM waterclock.job_state WHERE status <> 'COMPLETED' AND status <> 'CANCELLED'
GROUP BY namespace;
