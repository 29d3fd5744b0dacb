-- Ranges of the BRIN indexes are summarized by autovacuum when it comes by, as it does for every fifth of new rows. To ask
-- for each range as it fills up, as these did, asks for more than autovacuum takes in a flood of runs, and Postgres writes
-- several lines to its log for every request that it drops: thousands a minute. (An index of partitions cannot be altered.)

ALTER INDEX job_definitions_age SET (autosummarize = off);

DROP INDEX run_state_created;
CREATE INDEX run_state_created ON run_state USING brin (created_at) WITH (pages_per_range = 32);
