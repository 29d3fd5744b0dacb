-- What is cheap to write and finds what is asked for.
--
-- Rows come in the order of their times, so an index on a time grows at one end: ascending that is the end Postgres is
-- fast at, descending the other one, where it splits pages in half. It is read backwards as well as forwards. What only
-- breaks ties is sorted when it is read.

DROP INDEX job_definitions_created;
CREATE INDEX job_definitions_created ON job_definitions (namespace, created_at);

DROP INDEX job_state_status;
CREATE INDEX job_state_status ON job_state (namespace, status, created_at) WHERE status <> 'COMPLETED';

-- Predicates on plain columns: to look into `spec` cost every new job more than its place in the index.

ALTER TABLE job_definitions ADD COLUMN is_workflow boolean NOT NULL DEFAULT false;
ALTER TABLE job_definitions ADD COLUMN has_retention boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN job_definitions.is_workflow IS 'Whether it is a workflow.';
COMMENT ON COLUMN job_definitions.has_retention IS 'Whether the job says for how long its runs are kept.';
UPDATE job_definitions
   SET is_workflow = coalesce(spec #>> '{task,kind}' = 'workflow', false), has_retention = spec ? 'retention'
 WHERE spec #>> '{task,kind}' = 'workflow' OR spec ? 'retention';

DROP INDEX job_definitions_retention;
DROP INDEX job_definitions_workflows;
CREATE INDEX job_definitions_retention ON job_definitions (job_id) WHERE has_retention;
CREATE INDEX job_definitions_workflows ON job_definitions (job_id) WHERE is_workflow;

CREATE OR REPLACE VIEW workflows AS
SELECT j.job_id AS workflow_id, j.namespace, j.name, j.schedule_type, j.status, j.cron_expression, j.interval_seconds, j.timezone,
       j.overlap, j.task -> 'nodes' AS nodes, j.labels, j.version, j.next_run_at, j.last_run, j.created_at, j.updated_at, j.note,
       j.spec
  FROM jobs j
  JOIN job_definitions d USING (job_id)
 WHERE d.is_workflow;

CREATE OR REPLACE VIEW workflow_runs AS
SELECT r.run_id AS workflow_run_id, r.job_id AS workflow_id, r.namespace, r.epoch, r.status, r.reason, r.trigger, r.version,
       r.parameters, r.scheduled_time, r.due_time, r.start_time, r.end_time, r.modified_time, r.created_at
  FROM job_runs r
  JOIN job_definitions d USING (job_id)
 WHERE d.is_workflow;

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
 WHERE d.is_workflow;

-- Runs of all jobs of a namespace, newest first; and those that ended badly among very many that did not. Successes have
-- no place in the second index, so it costs them nothing.

CREATE INDEX job_runs_time ON job_runs (namespace, scheduled_time);
CREATE INDEX job_runs_bad_time ON job_runs (namespace, scheduled_time)
 WHERE status IN ('FAILED', 'TIMED_OUT', 'CANCELLED', 'SKIPPED', 'MISSED');
