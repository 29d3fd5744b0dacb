-- How far a map is, by its own name; and a comment on every table there is, those that are parts of others included.

CREATE OR REPLACE VIEW workflow_nodes AS
SELECT w.run_id AS workflow_run_id,
       w.job_id AS workflow_id,
       w.epoch,
       n.node ->> 'id' AS id,
       coalesce(r.status, CASE WHEN w.end_time IS NULL THEN 'WAITING' WHEN w.status = 'CANCELLED' THEN 'CANCELLED' ELSE 'SKIPPED' END) AS status,
       r.run_id,
       coalesce(r.attempt_number, 0) AS attempt_number,
       r.output,
       r.reason,
       r.start_time,
       r.end_time,
       coalesce(n.node -> 'depends_on', '[]') AS depends_on,
       coalesce(n.node ->> 'trigger_rule', 'all_success') AS trigger_rule,
       CASE WHEN n.node ? 'map' AND r.run_id IS NOT NULL THEN
           jsonb_build_object('total', r.output -> 'total', 'done', coalesce(r.output -> 'done', '0'), 'failed', coalesce(r.output -> 'failed', '0'))
       END AS map
  FROM job_runs w
  JOIN job_definitions d USING (job_id)
 CROSS JOIN LATERAL jsonb_array_elements(d.spec #> '{task,nodes}') AS n (node)
  LEFT JOIN LATERAL (
       SELECT run_id, status, attempt_number, output, reason, start_time, end_time
         FROM job_runs
        WHERE run_id = w.run_id || '~' || (n.node ->> 'id')
        LIMIT 1) r ON true
 WHERE d.spec #>> '{task,kind}' = 'workflow';

COMMENT ON COLUMN workflow_nodes.map IS 'How far a map is: total, done and failed; null for a node that is none.';

DO $$
DECLARE
    part record;
    said record;
BEGIN
    FOR part IN
        SELECT i.inhrelid AS id, i.inhrelid::regclass AS name, i.inhparent AS whole
          FROM pg_inherits i
          JOIN pg_class c ON c.oid = i.inhparent
         WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'p'
           AND i.inhrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r')
    LOOP
        EXECUTE format('COMMENT ON TABLE %s IS %L', part.name, 'A part of ' || part.whole::regclass || '.');
        FOR said IN
            SELECT attname, col_description(attrelid, attnum) AS comment
              FROM pg_attribute
             WHERE attrelid = part.whole AND attnum > 0 AND NOT attisdropped
        LOOP
            EXECUTE format('COMMENT ON COLUMN %s.%I IS %L', part.name, said.attname, said.comment);
        END LOOP;
    END LOOP;
END
$$;
