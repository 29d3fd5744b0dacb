-- name: firing
-- Jobs by when they fire next, from a place on; only those that recur, if that is asked for.
SELECT s.job_id, s.next_run_at, d.name, d.spec -> 'schedule' AS schedule
  FROM waterclock.job_state s
  JOIN waterclock.job_definitions d USING (job_id)
 WHERE s.namespace = $1
   AND s.next_run_at >= $2 AND s.next_run_at < $3
   AND (s.next_run_at, s.job_id) > ($2, $4::text)
   AND ($5::text IS NULL OR s.job_id = $5)
   AND ($6::jsonb IS NULL OR d.labels @> $6)
   AND ($7::text[] IS NULL OR d.labels ?& $7)
   AND (NOT $8::boolean OR d.spec #>> '{schedule,schedule_type}' IN ('CRON', 'INTERVAL'))
 ORDER BY s.next_run_at, s.job_id
 LIMIT $9;
