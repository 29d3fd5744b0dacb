-- name: firing
-- Jobs by when they fire next, from a place on; without those of which a fire is to be left out.
SELECT s.job_id, s.next_run_at, s.skipped, d.name, d.spec -> 'schedule' AS schedule
  FROM waterclock.job_state s
  JOIN waterclock.job_definitions d USING (job_id)
 WHERE s.namespace = $1
   AND s.next_run_at >= $2 AND s.next_run_at < $3
   AND s.skipped = '{}'
   AND (s.next_run_at, s.job_id) > ($2, $4::text)
   AND ($5::text IS NULL OR s.job_id = $5)
   AND ($6::jsonb IS NULL OR d.labels @> $6)
   AND ($7::text[] IS NULL OR d.labels ?& $7)
 ORDER BY s.next_run_at, s.job_id
 LIMIT $8;

-- name: recurring
-- Jobs that fire again and again, and next up to a place; without those of which a fire is to be left out.
SELECT s.job_id, s.next_run_at, s.skipped, d.name, d.spec -> 'schedule' AS schedule
  FROM waterclock.job_state s
  JOIN waterclock.job_definitions d USING (job_id)
 WHERE s.namespace = $1
   AND s.next_run_at <= $2 AND (s.next_run_at, s.job_id) <= ($2, $6::text)
   AND s.skipped = '{}'
   AND ($3::text IS NULL OR s.job_id = $3)
   AND ($4::jsonb IS NULL OR d.labels @> $4)
   AND ($5::text[] IS NULL OR d.labels ?& $5)
   AND d.spec #>> '{schedule,schedule_type}' IN ('CRON', 'INTERVAL');

-- name: skipping
-- Jobs of which a fire is to be left out: theirs may come before the one they fire at next.
SELECT s.job_id, coalesce(s.next_run_at, s.skipped[1]) AS next_run_at, s.skipped, d.name, d.spec -> 'schedule' AS schedule
  FROM waterclock.job_state s
  JOIN waterclock.job_definitions d USING (job_id)
 WHERE s.namespace = $1
   AND s.skipped <> '{}'
   AND s.status = 'SCHEDULED'
   AND least(s.next_run_at, s.skipped[1]) < $2
   AND ($3::text IS NULL OR s.job_id = $3)
   AND ($4::jsonb IS NULL OR d.labels @> $4)
   AND ($5::text[] IS NULL OR d.labels ?& $5);
