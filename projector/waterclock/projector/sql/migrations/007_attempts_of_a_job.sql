-- An attempt says whose it is, as a run does.

CREATE OR REPLACE VIEW job_attempts AS
SELECT a.run_id, a.attempt_number, a.executor_id, a.status, a.reason, a.queued_time, a.start_time, a.end_time, a.exit_code,
       a.error_message, a.log_url, a.cpu_seconds, a.memory_bytes, r.job_id, r.namespace
  FROM earlier_attempts a
  JOIN job_runs r USING (run_id, created_at)
 UNION ALL
SELECT run_id, attempt_number, executor_id, status, reason, queued_time, start_time, end_time, exit_code,
       error_message, log_url, cpu_seconds, memory_bytes, job_id, namespace
  FROM job_runs
 WHERE attempt_number > 0
   AND (status IN ('FAILED', 'TIMED_OUT') OR (status IN ('RUNNING', 'SUCCESS', 'CANCELLED') AND start_time IS NOT NULL));

COMMENT ON COLUMN job_attempts.job_id IS 'The job.';
COMMENT ON COLUMN job_attempts.namespace IS 'The tenant the job belongs to.';
