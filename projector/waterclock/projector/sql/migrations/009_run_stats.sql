-- How runs went over time, counted once and not anew for everybody who asks.
--
-- A run counts in the minute and in the hour that it was scheduled for, once it has ended. `run_stats` is added to in the
-- transaction that writes the runs; `job_stats` is counted from the runs now and then, an hour at a time.

CREATE FUNCTION histogram_index(span interval) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN span < interval '1 millisecond' THEN 0
                ELSE 1 + floor(4 * ln(extract(epoch FROM span)::double precision * 1000) / ln(2::double precision))::integer END
$$;
COMMENT ON FUNCTION histogram_index(interval) IS 'The bucket of a histogram that a span falls into: 0 below a millisecond, then four to a doubling.';

CREATE FUNCTION compact_histogram(histogram integer[]) RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(number ORDER BY bucket, place), '{}')
      FROM (SELECT histogram[n] AS bucket, sum(histogram[n + 1])::integer AS count
              FROM generate_series(1, cardinality(histogram), 2) AS n
             GROUP BY 1) summed
     CROSS JOIN LATERAL (VALUES (1, bucket), (2, count)) AS pair (place, number)
     WHERE count <> 0
$$;
COMMENT ON FUNCTION compact_histogram(integer[]) IS 'The same histogram with every bucket once.';

CREATE AGGREGATE join_histograms(integer[]) (SFUNC = array_cat, STYPE = integer[], INITCOND = '{}');
COMMENT ON AGGREGATE join_histograms(integer[]) IS 'The histogram of all together; a bucket may come more than once.';

CREATE TABLE run_stats (
    namespace   text COLLATE "C" NOT NULL,
    seconds     integer NOT NULL CHECK (seconds IN (60, 3600)),
    bucket      timestamptz NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    executor_id text COLLATE "C" NOT NULL,
    part        integer NOT NULL,
    success     bigint NOT NULL,
    failed      bigint NOT NULL,
    missed      bigint NOT NULL,
    skipped     bigint NOT NULL,
    cancelled   bigint NOT NULL,
    durations   integer[] NOT NULL,
    lags        integer[] NOT NULL,
    PRIMARY KEY (namespace, seconds, bucket, queue, executor_id, part)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON TABLE run_stats IS 'How runs went, by the minute and the hour they were scheduled for, by queue and executor. Only runs that have ended.';
COMMENT ON COLUMN run_stats.namespace IS 'The tenant the runs belong to.';
COMMENT ON COLUMN run_stats.seconds IS '60 or 3600: how long the bucket is. A run is counted in one of each.';
COMMENT ON COLUMN run_stats.bucket IS 'When it begins.';
COMMENT ON COLUMN run_stats.queue IS 'The queue; empty for runs that were never queued.';
COMMENT ON COLUMN run_stats.executor_id IS 'The executor of the last attempt; empty if there was none.';
COMMENT ON COLUMN run_stats.part IS 'Which projector counted; sum over all of them.';
COMMENT ON COLUMN run_stats.success IS 'Runs that succeeded.';
COMMENT ON COLUMN run_stats.failed IS 'Runs that failed or timed out for good.';
COMMENT ON COLUMN run_stats.missed IS 'Scheduled fires that were missed.';
COMMENT ON COLUMN run_stats.skipped IS 'Runs that were skipped.';
COMMENT ON COLUMN run_stats.cancelled IS 'Runs that were cancelled.';
COMMENT ON COLUMN run_stats.durations IS 'Histogram of how long last attempts took: bucket, count, bucket, count, …; a bucket may come more than once. See histogram_index.';
COMMENT ON COLUMN run_stats.lags IS 'Histogram of the time from due to started.';

CREATE TABLE job_stats (
    namespace text COLLATE "C" NOT NULL,
    hour      timestamptz NOT NULL,
    job_id    text COLLATE "C" NOT NULL,
    success   bigint NOT NULL,
    failed    bigint NOT NULL,
    missed    bigint NOT NULL,
    skipped   bigint NOT NULL,
    cancelled bigint NOT NULL,
    durations integer[] NOT NULL,
    lags      integer[] NOT NULL,
    PRIMARY KEY (namespace, hour, job_id)
);

COMMENT ON TABLE job_stats IS 'How the runs of each job that recurs went, by the hour they were scheduled for. A minute or two behind run_stats.';
COMMENT ON COLUMN job_stats.namespace IS 'The tenant the job belongs to.';
COMMENT ON COLUMN job_stats.hour IS 'When the hour begins.';
COMMENT ON COLUMN job_stats.job_id IS 'The job; <workflow>~<node> for a step of a workflow. Not jobs that run once: there are as many as there are runs.';
COMMENT ON COLUMN job_stats.success IS 'Runs that succeeded.';
COMMENT ON COLUMN job_stats.failed IS 'Runs that failed or timed out for good.';
COMMENT ON COLUMN job_stats.missed IS 'Scheduled fires that were missed.';
COMMENT ON COLUMN job_stats.skipped IS 'Runs that were skipped.';
COMMENT ON COLUMN job_stats.cancelled IS 'Runs that were cancelled.';
COMMENT ON COLUMN job_stats.durations IS 'Histogram of how long last attempts took, as in run_stats.';
COMMENT ON COLUMN job_stats.lags IS 'Histogram of the time from due to started.';

CREATE TABLE job_stats_hours (
    hour        timestamptz PRIMARY KEY,
    fingerprint bigint NOT NULL,
    counted_at  timestamptz NOT NULL
);

COMMENT ON TABLE job_stats_hours IS 'Which hours are in job_stats.';
COMMENT ON COLUMN job_stats_hours.hour IS 'When the hour begins.';
COMMENT ON COLUMN job_stats_hours.fingerprint IS 'Of the hour in run_stats when it was counted: another one means that something has changed.';
COMMENT ON COLUMN job_stats_hours.counted_at IS 'When it was counted.';

CREATE FUNCTION count_runs() RETURNS void LANGUAGE sql AS $$
    INSERT INTO run_stats
    SELECT namespace, 60, bucket, queue, executor_id, -1,
           sum(success) FILTER (WHERE kind = 3), sum(failed) FILTER (WHERE kind = 3), coalesce(sum(missed) FILTER (WHERE kind = 3), 0),
           sum(skipped) FILTER (WHERE kind = 3), sum(cancelled) FILTER (WHERE kind = 3),
           coalesce(string_to_array(string_agg(duration || ',' || runs, ',') FILTER (WHERE kind = 1 AND duration IS NOT NULL), ',')::integer[], '{}'),
           coalesce(string_to_array(string_agg(lag || ',' || runs, ',') FILTER (WHERE kind = 2 AND lag IS NOT NULL), ',')::integer[], '{}')
      FROM (SELECT namespace, bucket, queue, executor_id, duration, lag, grouping(duration, lag) AS kind, count(*) AS runs,
                   count(*) FILTER (WHERE status = 'SUCCESS') AS success,
                   count(*) FILTER (WHERE status IN ('FAILED', 'TIMED_OUT')) AS failed,
                   sum(fires) FILTER (WHERE status = 'MISSED') AS missed,
                   count(*) FILTER (WHERE status = 'SKIPPED') AS skipped,
                   count(*) FILTER (WHERE status = 'CANCELLED') AS cancelled
              FROM (SELECT namespace, date_trunc('minute', scheduled_time, 'UTC') AS bucket, coalesce(queue, '') AS queue,
                           coalesce(executor_id, '') AS executor_id, status, fires,
                           histogram_index(end_time - start_time) AS duration, histogram_index(start_time - due_time) AS lag
                      FROM job_runs
                     WHERE status NOT IN ('WAITING', 'QUEUED', 'RUNNING', 'RETRYING')) runs
             GROUP BY GROUPING SETS (
                   (namespace, bucket, queue, executor_id),
                   (namespace, bucket, queue, executor_id, duration),
                   (namespace, bucket, queue, executor_id, lag))) counted
     GROUP BY namespace, bucket, queue, executor_id;

    INSERT INTO run_stats
    SELECT namespace, 3600, date_trunc('hour', bucket, 'UTC'), queue, executor_id, -1,
           sum(success), sum(failed), sum(missed), sum(skipped), sum(cancelled),
           compact_histogram(join_histograms(durations)),
           compact_histogram(join_histograms(lags))
      FROM run_stats
     WHERE seconds = 60
     GROUP BY 1, 3, 4, 5;
$$;
COMMENT ON FUNCTION count_runs() IS 'Fills run_stats, which must be empty, from the runs that are there.';

SELECT count_runs();
