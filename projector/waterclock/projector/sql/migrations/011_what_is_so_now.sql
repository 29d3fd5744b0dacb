-- What is so now, and not only when the last event happened: a run that runs lives as long as its executor is heard of;
-- work that nobody serves is counted, and says what it lacks; a fire that is to be left out is known before its time.

-- --- runs that run ------------------------------------------------------------------------------------------

ALTER TABLE job_runs RENAME TO run_state;

DO $$
DECLARE
    part record;
    said record;
    columns text;
BEGIN
    FOR part IN SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                 WHERE i.inhparent = 'run_state'::regclass
    LOOP
        EXECUTE format('ALTER TABLE %I RENAME TO %I', part.name, replace(part.name, 'job_runs_', 'run_state_'));
        EXECUTE format('COMMENT ON TABLE %I IS %L', replace(part.name, 'job_runs_', 'run_state_'), 'A part of run_state.');
    END LOOP;
    FOR part IN SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                 WHERE c.relname LIKE 'job\_runs\_%' AND c.relnamespace = current_schema()::regnamespace
    LOOP
        EXECUTE format('ALTER INDEX %I RENAME TO %I', part.name, replace(part.name, 'job_runs_', 'run_state_'));
    END LOOP;
    -- The view has the columns of the table, in its order; only one of them says more than the events do.
    SELECT string_agg(
               CASE attname WHEN 'modified_time' THEN
                   'CASE WHEN r.status = ''RUNNING'' THEN greatest(r.modified_time, (SELECT e.seen_at FROM executors e'
                   ' WHERE e.executor_id = r.executor_id)) ELSE r.modified_time END AS modified_time'
               ELSE format('r.%I', attname) END, ', ' ORDER BY attnum)
      INTO columns
      FROM pg_attribute
     WHERE attrelid = 'run_state'::regclass AND attnum > 0 AND NOT attisdropped;
    EXECUTE format('CREATE VIEW job_runs AS SELECT %s FROM run_state r', columns);
    FOR said IN SELECT attname, col_description(attrelid, attnum) AS comment FROM pg_attribute
                 WHERE attrelid = 'run_state'::regclass AND attnum > 0 AND NOT attisdropped
    LOOP
        EXECUTE format('COMMENT ON COLUMN job_runs.%I IS %L', said.attname, said.comment);
    END LOOP;
END
$$;

COMMENT ON TABLE run_state IS 'What the events of every run have left. Partitioned by week of created_at; a week past retention is dropped whole. Query the view job_runs instead.';
COMMENT ON VIEW job_runs IS 'Every run: one row per firing of a job. A condition on created_at, whose weeks are kept apart, makes it look only where it must.';
COMMENT ON COLUMN job_runs.modified_time IS 'When the last event of the run happened; while it is RUNNING, when its executor was last heard of, if that is later. One that stands still has lost its executor.';

-- --- what waits ---------------------------------------------------------------------------------------------

ALTER TABLE queues ADD COLUMN due bigint NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN missing text;

COMMENT ON TABLE queues IS 'Depth of every work queue, by tier and priority, also of those that nobody serves. Copied from broker and schedulers every two seconds.';
COMMENT ON COLUMN queues.pulls IS 'Requests for work that wait for some to come.';
COMMENT ON COLUMN queues.due IS 'Runs that are due and not yet among those that wait: there is no room for them.';
COMMENT ON COLUMN queues.missing IS 'What nobody has that could take its work: no executor serves the queue, the tier or the handler. Null if one does.';
COMMENT ON COLUMN executors.seen_at IS 'When it last said that it is there.';

-- --- when jobs run next -------------------------------------------------------------------------------------

ALTER TABLE job_state ADD COLUMN skipped timestamptz[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN job_state.skipped IS 'Scheduled times that somebody asked to leave out, and that have not come yet.';
COMMENT ON COLUMN job_state.next_run_at IS 'The next scheduled fire that is not to be left out; null if there is none.';

CREATE OR REPLACE VIEW jobs AS
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
       -- A job that was told to run at once has no time of its own: it is due since then, until it has a run. Worked out
       -- here, because to write it down and take it back would cost every such job a second change of its row.
       coalesce(s.next_run_at, CASE
           WHEN s.status = 'SCHEDULED'
            AND (coalesce(d.spec #>> '{schedule,schedule_type}', 'IMMEDIATE') = 'IMMEDIATE'
                 OR (d.spec #>> '{schedule,schedule_time}')::timestamptz <= d.effective_from)
            AND NOT EXISTS (SELECT FROM run_state r WHERE r.job_id = d.job_id AND r.scheduled_time >= d.effective_from)
           THEN d.effective_from END) AS next_run_at,
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
       CASE WHEN d.payload IS NULL THEN d.spec ELSE d.spec || jsonb_build_object('payload', d.payload) END AS spec,
       s.skipped
  FROM job_definitions d
  JOIN job_state s USING (job_id);

COMMENT ON COLUMN jobs.next_run_at IS 'When it runs next: the next scheduled fire that is not to be left out, or since when a job waits that was to run at once. Null if it does not.';
COMMENT ON COLUMN jobs.skipped IS 'Scheduled times that somebody asked to leave out (skip-next), and that have not come yet.';
