-- Every statement of the projector that is not a migration. Names are unqualified: the connection says which schema.

-- name: columns
-- The columns of a table, in the order that rows are built in.
SELECT attname AS name FROM pg_attribute
 WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
 ORDER BY attnum;

-- name: load_runs
-- The rows of some runs, wherever in time they are.
SELECT * FROM run_state WHERE run_id = ANY($1::text[]);

-- name: load_recent_runs
-- The rows of some runs that began within a few days: only the partitions of these are looked into.
SELECT * FROM run_state WHERE run_id = ANY($1::text[]) AND created_at >= $2 AND created_at < $3;

-- name: load_jobs
-- What the fold must know of some jobs. LIMIT 1: each by its key; else, for thousands of jobs among very many, the
-- planner reads all there are.
SELECT d.job_id, d.namespace, d.name, d.standing, d.version, d.armed_version, d.effective_from, d.created_at,
       d.spec -> 'schedule' AS schedule, s.status, s.next_run_at, s.last_fire_at, s.fire_sequence, s.ended_version,
       s.ended_time, s.ended_sequence, s.skipped
  FROM unnest($1::text[]) AS wanted (job_id)
 CROSS JOIN LATERAL (SELECT * FROM job_definitions WHERE job_id = wanted.job_id LIMIT 1) d
 CROSS JOIN LATERAL (SELECT * FROM job_state WHERE job_id = wanted.job_id LIMIT 1) s;

-- name: load_due_one_shots
-- Of one-shots, by the version and the time of a run: those that were to run then and have not. One that was to run at
-- once has no next time, and its run is named after its creation. LIMIT 1 as for load_jobs.
SELECT s.job_id, s.namespace, s.created_at, s.next_run_at IS NOT NULL AS timed
  FROM unnest($1::text[], $2::bigint[], $3::timestamptz[]) AS r (job_id, version, scheduled)
 CROSS JOIN LATERAL (SELECT * FROM job_state WHERE job_id = r.job_id LIMIT 1) s
 CROSS JOIN LATERAL (SELECT version FROM job_definitions WHERE job_id = r.job_id LIMIT 1) d
 WHERE s.status = 'SCHEDULED' AND coalesce(s.next_run_at, s.created_at) = r.scheduled AND s.last_fire_at IS NULL
   AND s.ended_version IS NULL AND s.ended_time IS NULL AND s.skipped = '{}' AND d.version = r.version;

-- name: delete_dead_letters
-- Runs that go on after all.
DELETE FROM dead_letters WHERE run_id = ANY($1::text[]);

-- name: begin_positions
-- A partition that was never folded begins before its first event.
INSERT INTO projection_state (stream, partition, position, stream_created, stream_last_sequence, updated_at)
SELECT $1, partition, 0, $3, 0, now() FROM unnest($2::integer[]) AS partition
    ON CONFLICT DO NOTHING;

-- name: positions
-- How far each partition is folded, and what the log was like.
SELECT stream, partition, position, stream_created, stream_last_sequence FROM projection_state
 WHERE partition = ANY($1::integer[]);

-- name: move_positions
-- Move on, if nobody else has. The number of rows tells.
UPDATE projection_state s
   SET position = n.position, stream_last_sequence = greatest(s.stream_last_sequence, n.position),
       event_time = coalesce(n.event_time, s.event_time), projector = $6, updated_at = now()
  FROM unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[], $5::timestamptz[])
       AS n (stream, partition, expected, position, event_time)
 WHERE s.stream = n.stream AND s.partition = n.partition AND s.position = n.expected;

-- name: week_partitions
-- The weeks a partitioned table has, oldest first.
SELECT c.relname AS name
  FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = $1::text::regclass
 ORDER BY c.relname;

-- name: known_streams
-- What is remembered of each stream.
SELECT stream, stream_created AS created, max(stream_last_sequence) AS last_sequence
  FROM projection_state
 GROUP BY stream, stream_created;

-- name: upsert_executors
-- Executors that are there.
INSERT INTO executors (executor_id, status, host, pid, queues, tiers, handlers, slots, busy, started_at, seen_at, info)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT (executor_id) DO UPDATE SET
       status = excluded.status, host = excluded.host, pid = excluded.pid, queues = excluded.queues,
       tiers = excluded.tiers, handlers = excluded.handlers, slots = excluded.slots, busy = excluded.busy,
       started_at = excluded.started_at, seen_at = excluded.seen_at, info = excluded.info;

-- name: mark_gone_executors
-- Executors that are no longer there.
UPDATE executors SET status = 'GONE', busy = 0 WHERE status <> 'GONE' AND executor_id <> ALL($1::text[]);

-- name: delete_executors
-- Executors that have been gone for a day.
DELETE FROM executors WHERE status = 'GONE' AND seen_at < now() - interval '1 day';

-- name: upsert_queues
-- Depths that have changed.
INSERT INTO queues (
       queue, handler, tier, priority, band, waiting, running, redelivered, pulls, oldest_time, due, missing, updated_at)
SELECT *, now() FROM unnest(
       $1::text[], $2::text[], $3::text[], $4::integer[], $5::integer[], $6::bigint[], $7::bigint[], $8::bigint[],
       $9::bigint[], $10::timestamptz[], $11::bigint[], $12::text[])
    ON CONFLICT (queue, handler, tier, priority) DO UPDATE SET
       waiting = excluded.waiting, running = excluded.running, redelivered = excluded.redelivered,
       pulls = excluded.pulls, oldest_time = excluded.oldest_time, due = excluded.due, missing = excluded.missing,
       updated_at = excluded.updated_at
 WHERE (queues.waiting, queues.running, queues.redelivered, queues.pulls, queues.oldest_time, queues.due, queues.missing)
       IS DISTINCT FROM
       (excluded.waiting, excluded.running, excluded.redelivered, excluded.pulls, excluded.oldest_time, excluded.due,
        excluded.missing);

-- name: delete_queues
-- Queues that are no more.
DELETE FROM queues q
 WHERE NOT EXISTS (
       SELECT FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[]) AS n (queue, handler, tier, priority)
        WHERE (n.queue, n.handler, n.tier, n.priority) = (q.queue, q.handler, q.tier, q.priority));

-- name: delete_stray_runs
-- Ended runs past retention in the default partition, which is never dropped.
DELETE FROM run_state_default WHERE created_at < $1 AND status IN ('SUCCESS', 'FAILED', 'TIMED_OUT', 'CANCELLED', 'SKIPPED', 'MISSED');

-- name: delete_stray_attempts
-- Their attempts.
DELETE FROM earlier_attempts_default WHERE created_at < $1;

-- name: delete_expired_dead_letters
-- Dead letters past retention.
DELETE FROM dead_letters WHERE dead_time < $1;

-- name: delete_expired_stats
-- Counts past retention.
WITH hours AS (DELETE FROM job_stats WHERE hour < $1), counted AS (DELETE FROM job_stats_hours WHERE hour < $1)
DELETE FROM run_stats WHERE bucket < $1;

-- name: stale_job_hour
-- The hour that was counted for jobs longest ago, or never, among those in which something has changed since; not again
-- within ten seconds. The other numbers are primes: a run that failed and succeeds after all changes the sum.
SELECT s.bucket AS hour, s.fingerprint
  FROM (SELECT bucket, sum(success + 1000003 * failed + 7919 * missed + 104729 * skipped + 15485863 * cancelled)::bigint AS fingerprint
          FROM run_stats
         WHERE seconds = 3600
         GROUP BY bucket) s
  LEFT JOIN job_stats_hours h ON h.hour = s.bucket
 WHERE s.fingerprint IS DISTINCT FROM h.fingerprint
   AND (h.counted_at IS NULL OR h.counted_at < now() - interval '10 seconds')
 ORDER BY h.counted_at NULLS FIRST, s.bucket DESC
 LIMIT 1;

-- name: delete_job_hour
-- What was counted of an hour before.
DELETE FROM job_stats WHERE hour = $1;

-- name: count_job_hour
-- How the runs of each job went that were scheduled in an hour, without jobs that run once: these are left out before
-- anything is counted, for they may be nearly all. In hours, because days are added by the calendar, for every row.
INSERT INTO job_stats
SELECT c.namespace, $1::timestamptz, c.job_id,
       sum(success) FILTER (WHERE kind = 3), sum(failed) FILTER (WHERE kind = 3), coalesce(sum(missed) FILTER (WHERE kind = 3), 0),
       sum(skipped) FILTER (WHERE kind = 3), sum(cancelled) FILTER (WHERE kind = 3),
       coalesce(string_to_array(string_agg(duration || ',' || runs, ',') FILTER (WHERE kind = 1 AND duration IS NOT NULL), ',')::integer[], '{}'),
       coalesce(string_to_array(string_agg(lag || ',' || runs, ',') FILTER (WHERE kind = 2 AND lag IS NOT NULL), ',')::integer[], '{}')
  FROM (SELECT r.namespace, r.job_id, duration, lag, grouping(duration, lag) AS kind, count(*) AS runs,
               count(*) FILTER (WHERE status = 'SUCCESS') AS success,
               count(*) FILTER (WHERE status IN ('FAILED', 'TIMED_OUT')) AS failed,
               sum(fires) FILTER (WHERE status = 'MISSED') AS missed,
               count(*) FILTER (WHERE status = 'SKIPPED') AS skipped,
               count(*) FILTER (WHERE status = 'CANCELLED') AS cancelled
          FROM (SELECT DISTINCT namespace FROM run_stats WHERE seconds = 3600 AND bucket = $1) n
         CROSS JOIN LATERAL (
               SELECT s.namespace, s.job_id, status, fires, histogram_index(end_time - start_time) AS duration,
                      histogram_index(start_time - due_time) AS lag
                 FROM run_state s
                 LEFT JOIN job_definitions d ON d.job_id = s.job_id
                WHERE s.namespace = n.namespace
                  AND scheduled_time >= $1 AND scheduled_time < $1 + interval '1 hour'
                  AND s.created_at >= $1 - interval '48 hours'
                  AND s.status NOT IN ('WAITING', 'QUEUED', 'RUNNING', 'RETRYING')
                  AND (s.job_id <> split_part(run_id, '@', 1)
                       OR coalesce(d.spec #>> '{schedule,schedule_type}', 'IMMEDIATE') NOT IN ('IMMEDIATE', 'FUTURE'))) r
         GROUP BY r.namespace, r.job_id, GROUPING SETS ((), (duration), (lag))) c
 GROUP BY c.namespace, c.job_id;

-- name: job_hour_counted
-- Until something changes in it again.
INSERT INTO job_stats_hours VALUES ($1, $2, now())
    ON CONFLICT (hour) DO UPDATE SET fingerprint = excluded.fingerprint, counted_at = excluded.counted_at;

-- name: delete_runs_by_age
-- Ended runs of jobs that keep them for fewer days than the system. Job by job, so that nothing is read where there are
-- none; a planner without statistics would rather join all runs.
WITH beyond AS (
     SELECT r.run_id, r.created_at
       FROM job_definitions d
      CROSS JOIN LATERAL (
            SELECT run_id, created_at FROM run_state
             WHERE job_id = d.job_id
               AND end_time < $1::timestamptz - make_interval(secs => (d.spec #>> '{retention,days}')::double precision * 86400)
               AND status IN ('SUCCESS', 'FAILED', 'TIMED_OUT', 'CANCELLED', 'SKIPPED', 'MISSED')
             LIMIT 10000) r
      WHERE d.has_retention AND d.spec #>> '{retention,days}' IS NOT NULL),
     gone AS (
     DELETE FROM run_state r USING beyond b WHERE r.run_id = b.run_id AND r.created_at = b.created_at
  RETURNING r.run_id, r.created_at),
     attempts AS (
     DELETE FROM earlier_attempts a USING gone WHERE a.run_id = gone.run_id AND a.created_at = gone.created_at),
     letters AS (
     DELETE FROM dead_letters l USING gone WHERE l.run_id = gone.run_id)
SELECT count(*) FROM gone;

-- name: delete_runs_by_count
-- Ended runs of jobs that keep only so many successes or failures, beyond the newest ones.
WITH beyond AS (
     SELECT r.run_id, r.created_at
       FROM job_definitions d
      CROSS JOIN LATERAL (
            SELECT run_id, created_at FROM run_state
             WHERE job_id = d.job_id AND status = 'SUCCESS'
             ORDER BY created_at DESC
            OFFSET (d.spec #>> '{retention,successes}')::bigint LIMIT 10000) r
      WHERE d.has_retention AND d.spec #>> '{retention,successes}' IS NOT NULL
      UNION ALL
     SELECT r.run_id, r.created_at
       FROM job_definitions d
      CROSS JOIN LATERAL (
            SELECT run_id, created_at FROM run_state
             WHERE job_id = d.job_id AND status IN ('FAILED', 'TIMED_OUT')
             ORDER BY created_at DESC
            OFFSET (d.spec #>> '{retention,failures}')::bigint LIMIT 10000) r
      WHERE d.has_retention AND d.spec #>> '{retention,failures}' IS NOT NULL),
     gone AS (
     DELETE FROM run_state r USING beyond b WHERE r.run_id = b.run_id AND r.created_at = b.created_at
  RETURNING r.run_id, r.created_at),
     attempts AS (
     DELETE FROM earlier_attempts a USING gone WHERE a.run_id = gone.run_id AND a.created_at = gone.created_at),
     letters AS (
     DELETE FROM dead_letters l USING gone WHERE l.run_id = gone.run_id)
SELECT count(*) FROM gone;

-- name: delete_jobs
-- Jobs that will not fire again, changed last before a time, and without a run left. Namespace by namespace, by the index
-- of when they were created: young jobs are not read.
WITH RECURSIVE namespaces AS (
     (SELECT namespace FROM job_definitions ORDER BY namespace LIMIT 1)
      UNION ALL
     SELECT next.namespace
       FROM namespaces n
      CROSS JOIN LATERAL (SELECT namespace FROM job_definitions WHERE namespace > n.namespace ORDER BY namespace LIMIT 1) next),
     over AS (
     SELECT old.job_id
       FROM namespaces n
      CROSS JOIN LATERAL (
            SELECT d.job_id
              FROM job_definitions d
              JOIN job_state s USING (job_id)
             WHERE d.namespace = n.namespace AND d.created_at < $1 AND d.updated_at < $1
               AND s.status IN ('CANCELLED', 'COMPLETED')
               AND NOT EXISTS (SELECT FROM run_state r WHERE r.job_id = d.job_id)
             ORDER BY d.created_at
             LIMIT $2) old),
     states AS (
     DELETE FROM job_state s USING over WHERE s.job_id = over.job_id)
DELETE FROM job_definitions d USING over WHERE d.job_id = over.job_id;

-- name: views_outside
-- Views of users that read the live tables: a switch would leave them behind.
SELECT DISTINCT format('%I.%I', n.nspname, v.relname) AS name
  FROM pg_depend d
  JOIN pg_rewrite w ON w.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
  JOIN pg_class v ON v.oid = w.ev_class
  JOIN pg_namespace n ON n.oid = v.relnamespace
  JOIN pg_class t ON t.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass
  JOIN pg_namespace m ON m.oid = t.relnamespace
 WHERE m.nspname = 'waterclock' AND n.nspname <> 'waterclock'
 ORDER BY 1;

-- name: leftovers
-- Schemas that rebuilds have made and not dropped.
SELECT nspname AS name FROM pg_namespace WHERE nspname = $1::text OR starts_with(nspname, $2::text);

-- name: secondary_indexes
-- Indexes of a schema that are only there to find things faster.
SELECT c.relname AS name, pg_get_indexdef(c.oid) AS definition
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND NOT i.indisprimary AND NOT c.relispartition
 ORDER BY c.relname;

-- name: is_anything_to_carry
-- Whether the live tables have something that came from a part of RUNS which has left the log, or may have.
SELECT EXISTS (SELECT FROM waterclock.run_state WHERE first_sequence < $1)
    OR EXISTS (SELECT FROM waterclock.job_state WHERE fire_sequence < $1 OR ended_sequence < $1 OR skipped <> '{}');

-- name: carry_definitions
-- Definitions that the log no longer has.
INSERT INTO waterclock_next.job_definitions
SELECT l.* FROM waterclock.job_definitions l
 WHERE NOT EXISTS (SELECT FROM waterclock_next.job_definitions n WHERE n.job_id = l.job_id);

-- name: carry_states
-- What became of those jobs.
INSERT INTO waterclock_next.job_state
SELECT l.* FROM waterclock.job_state l
 WHERE NOT EXISTS (SELECT FROM waterclock_next.job_state n WHERE n.job_id = l.job_id);

-- name: carry_facts
-- What came from the part of RUNS that has left the log, of jobs that are still in JOBS.
UPDATE waterclock_next.job_state n
   SET last_fire_at = l.last_fire_at, fire_sequence = l.fire_sequence, ended_version = l.ended_version,
       ended_time = l.ended_time, ended_sequence = l.ended_sequence
  FROM waterclock.job_state l
 WHERE l.job_id = n.job_id
   AND (l.fire_sequence < $1 OR l.ended_sequence < $1
        OR EXISTS (SELECT FROM waterclock.run_state r
                    WHERE r.job_id = l.job_id AND r.first_sequence < $1 AND r.last_sequence >= $1))
RETURNING n.job_id;

-- name: carry_skips
-- What is to be left out may have been asked for long before its time.
UPDATE waterclock_next.job_state n
   SET skipped = l.skipped
  FROM waterclock.job_state l
 WHERE l.job_id = n.job_id AND l.skipped <> '{}'
RETURNING n.job_id;

-- name: carry_runs
-- Runs whose first event has left the log at its beginning, or was lost with its end.
INSERT INTO waterclock_next.run_state
SELECT * FROM waterclock.run_state WHERE first_sequence < $1 OR first_sequence > $2;

-- name: carry_attempts
-- The earlier attempts of those runs.
INSERT INTO waterclock_next.earlier_attempts
SELECT a.*
  FROM waterclock.earlier_attempts a
  JOIN waterclock.run_state r USING (run_id, created_at)
 WHERE r.first_sequence < $1 OR r.first_sequence > $2;

-- name: carry_dead_letters
-- Those of them that are dead letters.
INSERT INTO waterclock_next.dead_letters
SELECT * FROM waterclock.dead_letters WHERE first_sequence < $1 OR first_sequence > $2;

-- name: count_carried_runs
-- How they went. Those that are in the log are counted as they are folded.
SELECT count_runs();

-- name: unlink_runs
-- Sequences of a log that is no more mean nothing in the one there is.
UPDATE waterclock_next.run_state SET first_sequence = 0, last_sequence = 0 WHERE first_sequence > $1;

-- name: unlink_dead_letters
-- The same for dead letters.
UPDATE waterclock_next.dead_letters SET first_sequence = 0 WHERE first_sequence > $1;

-- name: live_known_streams
-- What the live tables remember of each stream.
SELECT stream, stream_created AS created, max(stream_last_sequence) AS last_sequence
  FROM waterclock.projection_state
 GROUP BY stream, stream_created;

-- name: freeze_live
-- Stop the live projector where it is: its next transaction finds another position than it expects.
UPDATE waterclock.projection_state SET position = -1 - position RETURNING stream, partition, -1 - position AS position;

-- name: carry_executors
-- Who is there is not in the log.
INSERT INTO waterclock_next.executors SELECT * FROM waterclock.executors ON CONFLICT DO NOTHING;

-- name: carry_queues
-- Nor is how much waits.
INSERT INTO waterclock_next.queues SELECT * FROM waterclock.queues ON CONFLICT DO NOTHING;
