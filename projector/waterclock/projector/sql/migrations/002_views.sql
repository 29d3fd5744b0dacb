-- What people query. Views name every column of the contract and give an absent field its default.

CREATE VIEW jobs AS
SELECT d.job_id,
       d.namespace,
       d.name,
       coalesce(d.spec #>> '{schedule,schedule_type}', 'IMMEDIATE') AS schedule_type,
       s.status,
       (d.spec #>> '{schedule,schedule_time}')::timestamptz AS schedule_time,
       CASE jsonb_array_length(d.spec #> '{schedule,cron_expression}')
           WHEN 0 THEN NULL
           WHEN 1 THEN d.spec #> '{schedule,cron_expression,0}'
           ELSE d.spec #> '{schedule,cron_expression}'
       END AS cron_expression,
       (d.spec #>> '{schedule,interval_seconds}')::double precision AS interval_seconds,
       coalesce(d.spec #>> '{schedule,timezone}', 'UTC') AS timezone,
       (d.spec #>> '{schedule,start_at}')::timestamptz AS start_at,
       (d.spec #>> '{schedule,end_at}')::timestamptz AS end_at,
       coalesce((d.spec #>> '{schedule,jitter_seconds}')::double precision, 0) AS jitter_seconds,
       (d.spec #>> '{schedule,max_fires}')::bigint AS max_fires,
       coalesce(d.spec #>> '{schedule,dst_gap}', 'next_valid') AS dst_gap,
       coalesce(d.spec #>> '{schedule,dst_overlap}', 'first') AS dst_overlap,
       coalesce(d.spec ->> 'overlap', 'skip') AS overlap,
       '{"policy": "latest", "window_seconds": 3600}'::jsonb || coalesce(d.spec -> 'catch_up', '{}') AS catch_up,
       d.spec -> 'task' AS task,
       d.payload,
       d.labels,
       coalesce(d.spec -> 'metadata', '{}') AS metadata,
       ARRAY(SELECT jsonb_array_elements_text(d.spec -> 'dependencies')) AS dependencies,
       coalesce((d.spec ->> 'priority')::integer, 0) AS priority,
       coalesce(d.spec ->> 'tier', 'light') AS tier,
       coalesce(d.spec ->> 'queue', 'default') AS queue,
       coalesce((d.spec ->> 'max_retries')::integer, 0) AS max_retries,
       '{"initial_seconds": 1, "factor": 2, "max_seconds": 3600, "jitter": true}'::jsonb
           || coalesce(d.spec -> 'retry', '{}') AS retry,
       (d.spec ->> 'timeout_seconds')::double precision AS timeout_seconds,
       coalesce(d.spec ->> 'delivery', 'at_least_once') AS delivery,
       coalesce((d.spec ->> 'critical')::boolean, false) AS critical,
       d.spec -> 'retention' AS retention,
       d.spec ->> 'idempotency_key' AS idempotency_key,
       d.version,
       s.next_run_at,
       (SELECT to_jsonb(latest)
          FROM (SELECT r.run_id, r.status, r.reason, r.attempt_number, r.executor_id, r.scheduled_time, r.start_time,
                       r.end_time, r.modified_time, r.exit_code, r.error_message
                  FROM job_runs r
                 WHERE r.job_id = d.job_id
                 ORDER BY r.created_at DESC
                 LIMIT 1) latest) AS last_run,
       d.created_at,
       d.updated_at,
       d.note,
       CASE WHEN d.payload IS NULL THEN d.spec ELSE d.spec || jsonb_build_object('payload', d.payload) END AS spec
  FROM job_definitions d
  JOIN job_state s USING (job_id);

COMMENT ON VIEW jobs IS 'Every job with its newest definition, when it fires next and its latest run.';
COMMENT ON COLUMN jobs.job_id IS 'The job.';
COMMENT ON COLUMN jobs.namespace IS 'The tenant the job belongs to.';
COMMENT ON COLUMN jobs.name IS 'The name its owner gave it; not unique.';
COMMENT ON COLUMN jobs.schedule_type IS 'IMMEDIATE, FUTURE, CRON, INTERVAL or DEPENDENT.';
COMMENT ON COLUMN jobs.status IS 'SCHEDULED, PAUSED, CANCELLED or COMPLETED (it will not fire again).';
COMMENT ON COLUMN jobs.schedule_time IS 'When a FUTURE job fires.';
COMMENT ON COLUMN jobs.cron_expression IS 'The cron expression of a CRON job; an array if there are several.';
COMMENT ON COLUMN jobs.interval_seconds IS 'The interval of an INTERVAL job.';
COMMENT ON COLUMN jobs.timezone IS 'IANA name of the zone the cron expression is read in.';
COMMENT ON COLUMN jobs.start_at IS 'It does not fire before; also the anchor of an interval.';
COMMENT ON COLUMN jobs.end_at IS 'It does not fire from then on.';
COMMENT ON COLUMN jobs.jitter_seconds IS 'Each fire is delayed by up to this, the same for the same run.';
COMMENT ON COLUMN jobs.max_fires IS 'It fires at most so often.';
COMMENT ON COLUMN jobs.dst_gap IS 'What becomes of a local time that a clock change leaves out: next_valid or skip.';
COMMENT ON COLUMN jobs.dst_overlap IS 'What becomes of a local time that comes twice: first or both.';
COMMENT ON COLUMN jobs.overlap IS 'What a fire does while the run before it is not finished.';
COMMENT ON COLUMN jobs.catch_up IS 'What becomes of fires missed in a downtime: policy and window_seconds.';
COMMENT ON COLUMN jobs.task IS 'What runs: kind and its fields.';
COMMENT ON COLUMN jobs.payload IS 'What the job is given to work on.';
COMMENT ON COLUMN jobs.labels IS 'Labels to filter by: labels @> ''{"team": "data"}''.';
COMMENT ON COLUMN jobs.metadata IS 'Whatever its owner keeps with it.';
COMMENT ON COLUMN jobs.dependencies IS 'Jobs whose success a DEPENDENT job waits for.';
COMMENT ON COLUMN jobs.priority IS 'Higher is taken first.';
COMMENT ON COLUMN jobs.tier IS 'light, medium or heavy.';
COMMENT ON COLUMN jobs.queue IS 'The queue its runs are put into.';
COMMENT ON COLUMN jobs.max_retries IS 'How many attempts may follow the first.';
COMMENT ON COLUMN jobs.retry IS 'The waits between attempts.';
COMMENT ON COLUMN jobs.timeout_seconds IS 'How long one attempt may take.';
COMMENT ON COLUMN jobs.delivery IS 'at_least_once or exactly_once.';
COMMENT ON COLUMN jobs.critical IS 'Whether its failure raises an alert.';
COMMENT ON COLUMN jobs.retention IS 'How long and how many finished runs are kept; null for the system''s default.';
COMMENT ON COLUMN jobs.idempotency_key IS 'The key it was created with: the same key gives the same job.';
COMMENT ON COLUMN jobs.version IS 'Sequence in the stream JOBS of the newest definition; the ETag of the API.';
COMMENT ON COLUMN jobs.next_run_at IS 'The next scheduled fire; null if there is none.';
COMMENT ON COLUMN jobs.last_run IS 'The run created last, as far as retention left one.';
COMMENT ON COLUMN jobs.created_at IS 'When the job was created.';
COMMENT ON COLUMN jobs.updated_at IS 'When the definition last changed.';
COMMENT ON COLUMN jobs.note IS 'The note left with the last change, for example why it is paused.';
COMMENT ON COLUMN jobs.spec IS 'The whole definition as stored in the log; fields at their default are absent.';

CREATE VIEW job_attempts AS
SELECT run_id, attempt_number, executor_id, status, reason, queued_time, start_time, end_time, exit_code,
       error_message, log_url, cpu_seconds, memory_bytes
  FROM earlier_attempts
 UNION ALL
SELECT run_id, attempt_number, executor_id, status, reason, queued_time, start_time, end_time, exit_code,
       error_message, log_url, cpu_seconds, memory_bytes
  FROM job_runs
 WHERE attempt_number > 0
   AND (status IN ('FAILED', 'TIMED_OUT') OR (status IN ('RUNNING', 'SUCCESS', 'CANCELLED') AND start_time IS NOT NULL));

COMMENT ON VIEW job_attempts IS 'Every attempt that started, of every run.';
COMMENT ON COLUMN job_attempts.run_id IS 'The run.';
COMMENT ON COLUMN job_attempts.attempt_number IS 'Which attempt. One that was snoozed, handed back or lost keeps its number and has a row for each try.';
COMMENT ON COLUMN job_attempts.executor_id IS 'Who ran it.';
COMMENT ON COLUMN job_attempts.status IS 'RUNNING, SUCCESS, FAILED, TIMED_OUT or CANCELLED; SNOOZED, RETURNED (executor drained) or LOST (executor died).';
COMMENT ON COLUMN job_attempts.reason IS 'Why it ended like that.';
COMMENT ON COLUMN job_attempts.queued_time IS 'When it was queued.';
COMMENT ON COLUMN job_attempts.start_time IS 'When it started; null if its executor died before saying so.';
COMMENT ON COLUMN job_attempts.end_time IS 'When it ended.';
COMMENT ON COLUMN job_attempts.exit_code IS 'Exit code of the process, or status of the HTTP answer.';
COMMENT ON COLUMN job_attempts.error_message IS 'What it said about its failure.';
COMMENT ON COLUMN job_attempts.log_url IS 'Where its stdout and stderr are kept.';
COMMENT ON COLUMN job_attempts.cpu_seconds IS 'CPU time it used.';
COMMENT ON COLUMN job_attempts.memory_bytes IS 'Most memory it used at once.';

-- --- workflows ----------------------------------------------------------------------------------------------

CREATE VIEW workflows AS
SELECT job_id AS workflow_id, namespace, name, schedule_type, status, cron_expression, interval_seconds, timezone, overlap,
       task -> 'nodes' AS nodes, labels, version, next_run_at, last_run, created_at, updated_at, note, spec
  FROM jobs
 WHERE spec #>> '{task,kind}' = 'workflow';

COMMENT ON VIEW workflows IS 'Every workflow: a job whose task is a graph of nodes.';
COMMENT ON COLUMN workflows.workflow_id IS 'The workflow; its job_id.';
COMMENT ON COLUMN workflows.namespace IS 'The tenant the workflow belongs to.';
COMMENT ON COLUMN workflows.name IS 'The name its owner gave it; not unique.';
COMMENT ON COLUMN workflows.schedule_type IS 'IMMEDIATE, FUTURE, CRON, INTERVAL or DEPENDENT.';
COMMENT ON COLUMN workflows.status IS 'SCHEDULED, PAUSED, CANCELLED or COMPLETED (it will not fire again).';
COMMENT ON COLUMN workflows.cron_expression IS 'The cron expression of a CRON workflow; an array if there are several.';
COMMENT ON COLUMN workflows.interval_seconds IS 'The interval of an INTERVAL workflow.';
COMMENT ON COLUMN workflows.timezone IS 'IANA name of the zone the cron expression is read in.';
COMMENT ON COLUMN workflows.overlap IS 'What a wave does while the wave before it is not finished.';
COMMENT ON COLUMN workflows.nodes IS 'The nodes, with depends_on and trigger_rule.';
COMMENT ON COLUMN workflows.labels IS 'Labels to filter by.';
COMMENT ON COLUMN workflows.version IS 'Sequence in the stream JOBS of the newest definition; the ETag of the API.';
COMMENT ON COLUMN workflows.next_run_at IS 'When the next wave begins; null if none is planned.';
COMMENT ON COLUMN workflows.last_run IS 'The wave created last.';
COMMENT ON COLUMN workflows.created_at IS 'When the workflow was created.';
COMMENT ON COLUMN workflows.updated_at IS 'When the definition last changed.';
COMMENT ON COLUMN workflows.note IS 'The note left with the last change.';
COMMENT ON COLUMN workflows.spec IS 'The whole definition as stored in the log; fields at their default are absent.';

CREATE VIEW workflow_runs AS
SELECT r.run_id AS workflow_run_id, r.job_id AS workflow_id, r.namespace, r.epoch, r.status, r.reason, r.trigger, r.version,
       r.scheduled_time, r.due_time, r.queued_time, r.start_time, r.end_time, r.modified_time, r.created_at
  FROM job_runs r
  JOIN job_definitions d USING (job_id)
 WHERE d.spec #>> '{task,kind}' = 'workflow';

COMMENT ON VIEW workflow_runs IS 'Every wave of every workflow.';
COMMENT ON COLUMN workflow_runs.workflow_run_id IS 'The wave; its run_id.';
COMMENT ON COLUMN workflow_runs.workflow_id IS 'The workflow.';
COMMENT ON COLUMN workflow_runs.namespace IS 'The tenant the workflow belongs to.';
COMMENT ON COLUMN workflow_runs.epoch IS 'The number of the wave.';
COMMENT ON COLUMN workflow_runs.status IS 'As the status of a run.';
COMMENT ON COLUMN workflow_runs.reason IS 'Why it is in this status.';
COMMENT ON COLUMN workflow_runs.trigger IS 'What caused it.';
COMMENT ON COLUMN workflow_runs.version IS 'The version of the definition it ran with.';
COMMENT ON COLUMN workflow_runs.scheduled_time IS 'What the schedule said, or when the wave was asked for.';
COMMENT ON COLUMN workflow_runs.due_time IS 'When it was due.';
COMMENT ON COLUMN workflow_runs.queued_time IS 'When its first nodes were queued.';
COMMENT ON COLUMN workflow_runs.start_time IS 'When it started.';
COMMENT ON COLUMN workflow_runs.end_time IS 'When it ended.';
COMMENT ON COLUMN workflow_runs.modified_time IS 'When the last event of the wave happened.';
COMMENT ON COLUMN workflow_runs.created_at IS 'When its first event happened.';

CREATE VIEW workflow_nodes AS
SELECT w.run_id AS workflow_run_id,
       w.job_id AS workflow_id,
       w.epoch,
       n.node ->> 'id' AS id,
       coalesce(r.status, CASE WHEN w.end_time IS NULL THEN 'WAITING' ELSE 'SKIPPED' END) AS status,
       r.run_id,
       coalesce(r.attempt_number, 0) AS attempt_number,
       r.output,
       r.reason,
       r.start_time,
       r.end_time,
       coalesce(n.node -> 'depends_on', '[]') AS depends_on,
       coalesce(n.node ->> 'trigger_rule', 'all_success') AS trigger_rule
  FROM job_runs w
  JOIN job_definitions d USING (job_id)
 CROSS JOIN LATERAL jsonb_array_elements(d.spec #> '{task,nodes}') AS n (node)
  LEFT JOIN LATERAL (
       SELECT run_id, status, attempt_number, output, reason, start_time, end_time
         FROM job_runs
        WHERE workflow_run_id = w.run_id AND job_id = w.job_id || '~' || (n.node ->> 'id')
        ORDER BY created_at DESC
        LIMIT 1) r ON true
 WHERE d.spec #>> '{task,kind}' = 'workflow';

COMMENT ON VIEW workflow_nodes IS 'Every node of every wave, with the run it had there.';
COMMENT ON COLUMN workflow_nodes.workflow_run_id IS 'The wave.';
COMMENT ON COLUMN workflow_nodes.workflow_id IS 'The workflow.';
COMMENT ON COLUMN workflow_nodes.epoch IS 'The number of the wave.';
COMMENT ON COLUMN workflow_nodes.id IS 'The node.';
COMMENT ON COLUMN workflow_nodes.status IS 'As the status of a run; WAITING before it has one.';
COMMENT ON COLUMN workflow_nodes.run_id IS 'Its run in this wave.';
COMMENT ON COLUMN workflow_nodes.attempt_number IS 'The current attempt; 0 before the first is queued.';
COMMENT ON COLUMN workflow_nodes.output IS 'What the node gave back.';
COMMENT ON COLUMN workflow_nodes.reason IS 'Why it is in this status.';
COMMENT ON COLUMN workflow_nodes.start_time IS 'When it started.';
COMMENT ON COLUMN workflow_nodes.end_time IS 'When it ended.';
COMMENT ON COLUMN workflow_nodes.depends_on IS 'The nodes it waits for, by the newest definition.';
COMMENT ON COLUMN workflow_nodes.trigger_rule IS 'When it runs, given how those ended.';

-- --- for people ---------------------------------------------------------------------------------------------

CREATE VIEW upcoming AS
SELECT s.next_run_at, d.job_id, d.namespace, d.name,
       coalesce(d.spec #>> '{schedule,schedule_type}', 'IMMEDIATE') AS schedule_type,
       s.next_run_at - now() AS due_in, s.last_fire_at
  FROM job_state s
  JOIN job_definitions d USING (job_id)
 WHERE s.next_run_at IS NOT NULL;

COMMENT ON VIEW upcoming IS 'What fires next. Order by next_run_at.';
COMMENT ON COLUMN upcoming.next_run_at IS 'The next scheduled fire.';
COMMENT ON COLUMN upcoming.job_id IS 'The job.';
COMMENT ON COLUMN upcoming.namespace IS 'The tenant the job belongs to.';
COMMENT ON COLUMN upcoming.name IS 'The name its owner gave it.';
COMMENT ON COLUMN upcoming.schedule_type IS 'FUTURE, CRON or INTERVAL.';
COMMENT ON COLUMN upcoming.due_in IS 'How long from now.';
COMMENT ON COLUMN upcoming.last_fire_at IS 'The scheduled time before it.';

CREATE VIEW job_health AS
SELECT d.job_id, d.namespace, d.name, s.status, s.next_run_at,
       coalesce(h.runs, 0) AS runs,
       coalesce(h.successes, 0) AS successes,
       coalesce(h.failures, 0) AS failures,
       coalesce(h.missed, 0) AS missed,
       round(h.successes::numeric / nullif(h.successes + h.failures, 0), 4) AS success_rate,
       h.last_success_at, h.last_failure_at, h.duration_p50, h.duration_p95, h.lag_p95
  FROM job_definitions d
  JOIN job_state s USING (job_id)
  LEFT JOIN (
       SELECT job_id,
              count(*) AS runs,
              count(*) FILTER (WHERE status = 'SUCCESS') AS successes,
              count(*) FILTER (WHERE status IN ('FAILED', 'TIMED_OUT')) AS failures,
              coalesce(sum(fires) FILTER (WHERE status = 'MISSED'), 0) AS missed,
              max(end_time) FILTER (WHERE status = 'SUCCESS') AS last_success_at,
              max(end_time) FILTER (WHERE status IN ('FAILED', 'TIMED_OUT')) AS last_failure_at,
              percentile_cont(0.50) WITHIN GROUP (ORDER BY extract(epoch FROM end_time - start_time)) AS duration_p50,
              percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM end_time - start_time)) AS duration_p95,
              percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM start_time - due_time)) AS lag_p95
         FROM job_runs
        WHERE created_at > now() - interval '1 day'
        GROUP BY job_id) h USING (job_id);

COMMENT ON VIEW job_health IS 'How each job did in the last 24 hours.';
COMMENT ON COLUMN job_health.job_id IS 'The job.';
COMMENT ON COLUMN job_health.namespace IS 'The tenant the job belongs to.';
COMMENT ON COLUMN job_health.name IS 'The name its owner gave it.';
COMMENT ON COLUMN job_health.status IS 'SCHEDULED, PAUSED, CANCELLED or COMPLETED.';
COMMENT ON COLUMN job_health.next_run_at IS 'The next scheduled fire; null if there is none.';
COMMENT ON COLUMN job_health.runs IS 'Runs created in the last 24 hours.';
COMMENT ON COLUMN job_health.successes IS 'Those that succeeded.';
COMMENT ON COLUMN job_health.failures IS 'Those that failed or timed out for good.';
COMMENT ON COLUMN job_health.missed IS 'Scheduled fires that were missed.';
COMMENT ON COLUMN job_health.success_rate IS 'Successes among successes and failures, 0 to 1.';
COMMENT ON COLUMN job_health.last_success_at IS 'When a run last succeeded.';
COMMENT ON COLUMN job_health.last_failure_at IS 'When a run last failed.';
COMMENT ON COLUMN job_health.duration_p50 IS 'Median seconds from start to end.';
COMMENT ON COLUMN job_health.duration_p95 IS '95th percentile of seconds from start to end.';
COMMENT ON COLUMN job_health.lag_p95 IS '95th percentile of seconds from due to start.';

CREATE VIEW lag_by_minute AS
SELECT date_trunc('minute', due_time) AS minute,
       count(*) AS runs,
       percentile_cont(0.50) WITHIN GROUP (ORDER BY extract(epoch FROM start_time - due_time)) AS lag_p50,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM start_time - due_time)) AS lag_p95,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM start_time - due_time)) AS lag_p99,
       max(extract(epoch FROM start_time - due_time)) AS lag_max
  FROM job_runs
 WHERE created_at > now() - interval '1 day' AND start_time IS NOT NULL
 GROUP BY 1;

COMMENT ON VIEW lag_by_minute IS 'How late attempts started in the last 24 hours, by the minute they were due in.';
COMMENT ON COLUMN lag_by_minute.minute IS 'The minute the attempts were due in.';
COMMENT ON COLUMN lag_by_minute.runs IS 'How many started.';
COMMENT ON COLUMN lag_by_minute.lag_p50 IS 'Median seconds from due to start.';
COMMENT ON COLUMN lag_by_minute.lag_p95 IS '95th percentile of seconds from due to start.';
COMMENT ON COLUMN lag_by_minute.lag_p99 IS '99th percentile of seconds from due to start.';
COMMENT ON COLUMN lag_by_minute.lag_max IS 'Most seconds from due to start.';

CREATE VIEW failures_by_job AS
SELECT f.job_id, f.namespace, d.name, f.failures, f.timeouts, f.first_failure_at, f.last_failure_at, f.last_run_id, f.last_reason,
       f.last_error
  FROM (SELECT job_id, namespace,
               count(*) AS failures,
               count(*) FILTER (WHERE status = 'TIMED_OUT') AS timeouts,
               min(end_time) AS first_failure_at,
               max(end_time) AS last_failure_at,
               (array_agg(run_id ORDER BY end_time DESC))[1] AS last_run_id,
               (array_agg(reason ORDER BY end_time DESC))[1] AS last_reason,
               (array_agg(error_message ORDER BY end_time DESC))[1] AS last_error
          FROM job_runs
         WHERE status IN ('FAILED', 'TIMED_OUT') AND end_time > now() - interval '7 days'
         GROUP BY job_id, namespace) f
  LEFT JOIN job_definitions d USING (job_id);

COMMENT ON VIEW failures_by_job IS 'Jobs with runs that failed for good in the last 7 days. Order by failures desc.';
COMMENT ON COLUMN failures_by_job.job_id IS 'The job.';
COMMENT ON COLUMN failures_by_job.namespace IS 'The tenant the job belongs to.';
COMMENT ON COLUMN failures_by_job.name IS 'The name its owner gave it.';
COMMENT ON COLUMN failures_by_job.failures IS 'Runs that failed or timed out for good.';
COMMENT ON COLUMN failures_by_job.timeouts IS 'Those among them that timed out.';
COMMENT ON COLUMN failures_by_job.first_failure_at IS 'The first of them.';
COMMENT ON COLUMN failures_by_job.last_failure_at IS 'The last of them.';
COMMENT ON COLUMN failures_by_job.last_run_id IS 'The run that failed last.';
COMMENT ON COLUMN failures_by_job.last_reason IS 'Why it failed.';
COMMENT ON COLUMN failures_by_job.last_error IS 'What it said about its failure.';
