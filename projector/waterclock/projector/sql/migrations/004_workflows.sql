-- Waves, their nodes and fan-outs.

ALTER TABLE job_runs ADD COLUMN parameters jsonb;

COMMENT ON COLUMN job_runs.job_id IS 'The job it is a run of; <workflow>~<node> for a step of a workflow, …~member for a member of a fan-out.';
COMMENT ON COLUMN job_runs.parameters IS 'What the wave of a workflow was given.';

DROP VIEW workflow_nodes;
DROP VIEW workflow_runs;

CREATE VIEW workflow_runs AS
SELECT r.run_id AS workflow_run_id, r.job_id AS workflow_id, r.namespace, r.epoch, r.status, r.reason, r.trigger, r.version,
       r.parameters, r.scheduled_time, r.due_time, r.start_time, r.end_time, r.modified_time, r.created_at
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
COMMENT ON COLUMN workflow_runs.version IS 'The version of the definition it runs with.';
COMMENT ON COLUMN workflow_runs.parameters IS 'What it was given.';
COMMENT ON COLUMN workflow_runs.scheduled_time IS 'What the schedule said, or when the wave was asked for.';
COMMENT ON COLUMN workflow_runs.due_time IS 'When it was due.';
COMMENT ON COLUMN workflow_runs.start_time IS 'When it started.';
COMMENT ON COLUMN workflow_runs.end_time IS 'When its last node had ended.';
COMMENT ON COLUMN workflow_runs.modified_time IS 'When the last event of the wave happened.';
COMMENT ON COLUMN workflow_runs.created_at IS 'When its first event happened.';

CREATE VIEW workflow_nodes AS
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
       coalesce(n.node ->> 'trigger_rule', 'all_success') AS trigger_rule
  FROM job_runs w
  JOIN job_definitions d USING (job_id)
 CROSS JOIN LATERAL jsonb_array_elements(d.spec #> '{task,nodes}') AS n (node)
  LEFT JOIN LATERAL (
       SELECT run_id, status, attempt_number, output, reason, start_time, end_time
         FROM job_runs
        WHERE run_id = w.run_id || '~' || (n.node ->> 'id')
        LIMIT 1) r ON true
 WHERE d.spec #>> '{task,kind}' = 'workflow';

COMMENT ON VIEW workflow_nodes IS 'Every node of every wave, with the run it had there.';
COMMENT ON COLUMN workflow_nodes.workflow_run_id IS 'The wave.';
COMMENT ON COLUMN workflow_nodes.workflow_id IS 'The workflow.';
COMMENT ON COLUMN workflow_nodes.epoch IS 'The number of the wave.';
COMMENT ON COLUMN workflow_nodes.id IS 'The node, by the newest definition.';
COMMENT ON COLUMN workflow_nodes.status IS 'As the status of a run; WAITING before it has one.';
COMMENT ON COLUMN workflow_nodes.run_id IS 'Its run in this wave.';
COMMENT ON COLUMN workflow_nodes.attempt_number IS 'The current attempt; 0 before the first is queued.';
COMMENT ON COLUMN workflow_nodes.output IS 'What the node gave back; how far a map is.';
COMMENT ON COLUMN workflow_nodes.reason IS 'Why it is in this status.';
COMMENT ON COLUMN workflow_nodes.start_time IS 'When it started.';
COMMENT ON COLUMN workflow_nodes.end_time IS 'When it ended.';
COMMENT ON COLUMN workflow_nodes.depends_on IS 'The nodes it waits for, by the newest definition.';
COMMENT ON COLUMN workflow_nodes.trigger_rule IS 'When it runs, given how those ended.';
