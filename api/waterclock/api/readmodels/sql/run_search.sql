-- name: search
-- Runs of a namespace, newest first, from a place on: no more than so many are looked at, by an index, and what those
-- must match besides is asked of each. The last one looked at comes too, so that the next page knows where to go on.
SELECT to_jsonb(s) - 'place' || jsonb_build_object('job_name', d.name, 'labels', coalesce(d.labels, '{}')) AS run,
       s.scheduled_time, s.run_id, s.place, {matches} AS matched
  FROM (SELECT l.*, row_number() OVER (ORDER BY l.scheduled_time DESC, l.run_id DESC) AS place
          FROM (SELECT r.run_id, r.job_id, r.status, r.reason, r.trigger, r.workflow_run_id, r.epoch, r.attempt_number,
                       r.crash_count, r.scheduled_time, r.due_time, r.queued_time, r.start_time, r.end_time,
                       r.modified_time, r.executor_id, r.exit_code, r.error_message, r.log_url, r.fencing_token,
                       r.queue, r.tier, r.priority, r.created_at
                  FROM waterclock.job_runs r
                 WHERE r.namespace = $1
                   AND {indexed}
                   AND ($3::text[] IS NULL OR r.job_id = ANY ($3))
                   AND ($4::text IS NULL OR r.workflow_run_id = $4)
                   AND ($5::timestamptz IS NULL
                        OR (r.scheduled_time >= $5 AND r.created_at >= $5::timestamptz - interval '2 days'))
                   AND ($6::timestamptz IS NULL OR r.scheduled_time < $6)
                   AND ($7::timestamptz IS NULL
                        OR (r.scheduled_time <= $7 AND (r.scheduled_time, r.run_id) < ($7, $8::text)))
                 ORDER BY r.scheduled_time DESC, r.run_id DESC
                 LIMIT $9) l) s
  LEFT JOIN LATERAL (
       SELECT name, labels
         FROM waterclock.job_definitions
        WHERE job_id = split_part(s.run_id, '@', 1)
        LIMIT 1) d ON true
 WHERE s.place = $9 OR {matches}
 ORDER BY s.scheduled_time DESC, s.run_id DESC
 LIMIT $17;

-- name: matches
-- What no index finds.
(($2::text[] IS NULL OR s.status = ANY ($2))
   AND ($10::jsonb IS NULL OR d.labels @> $10)
   AND ($11::text[] IS NULL OR d.labels ?& $11)
   AND ($12::text IS NULL OR s.queue = $12)
   AND ($13::text IS NULL OR s.executor_id = $13)
   AND ($14::text IS NULL OR s.trigger = $14)
   AND ($15::text IS NULL OR substr(s.run_id, $16::integer) ILIKE $15 OR d.name ILIKE $15
        OR s.error_message ILIKE $15 OR s.reason ILIKE $15))

-- name: labelled
-- What jobs with some labels are listed under, nodes of workflows and members of fan-outs included; of no more than so
-- many jobs.
SELECT d.place, ids.job_id
  FROM (SELECT job_id, row_number() OVER () AS place,
               CASE WHEN is_workflow THEN spec #> '{task,nodes}' ELSE '[]' END AS nodes
          FROM waterclock.job_definitions
         WHERE namespace = $1
           AND ($2::jsonb IS NULL OR labels @> $2)
           AND ($3::text[] IS NULL OR labels ?& $3)
         LIMIT $4) d
 CROSS JOIN LATERAL (
       SELECT whole.job_id || part.of_it AS job_id
         FROM (SELECT d.job_id
                UNION ALL
               SELECT d.job_id || '~' || (node ->> 'id') FROM jsonb_array_elements(d.nodes) AS node) whole
        CROSS JOIN (VALUES (''), ('~member')) AS part (of_it)) ids;
