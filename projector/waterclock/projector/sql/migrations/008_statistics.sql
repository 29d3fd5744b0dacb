-- ANALYZE reads and sorts values that no query compares: definitions, payloads and outputs are its largest part, and it
-- comes by itself with every tenth of rows added. Weeks that are made later get the same (write/week_partitions.py).

ALTER TABLE job_definitions ALTER COLUMN spec SET STATISTICS 0;
ALTER TABLE job_definitions ALTER COLUMN payload SET STATISTICS 0;
ALTER TABLE job_runs ALTER COLUMN output SET STATISTICS 0;
ALTER TABLE job_runs ALTER COLUMN parameters SET STATISTICS 0;
ALTER TABLE job_runs ALTER COLUMN error_message SET STATISTICS 0;
ALTER TABLE job_runs ALTER COLUMN log_url SET STATISTICS 0;
