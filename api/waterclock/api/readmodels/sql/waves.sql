-- name: parts
-- The runs of a wave's nodes.
SELECT to_jsonb(runs) AS run FROM waterclock.job_runs runs WHERE workflow_run_id = $1 ORDER BY created_at;

-- name: members
-- How many members of each fan-out are in which status.
SELECT workflow_run_id AS parent, status, count(*) AS count
FROM waterclock.job_runs
WHERE workflow_run_id = ANY ($1::text[])
GROUP BY workflow_run_id, status;
