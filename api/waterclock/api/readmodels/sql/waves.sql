-- name: parts
-- The runs of a wave's nodes.
SELECT to_jsonb(runs) AS run FROM waterclock.job_runs runs WHERE workflow_run_id = $1 ORDER BY created_at;

-- name: parameters
-- What a wave was started with.
SELECT parameters FROM waterclock.job_runs WHERE run_id = $1;
