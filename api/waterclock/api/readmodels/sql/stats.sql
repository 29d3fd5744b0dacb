-- name: counted
-- How runs went, in steps of time, from the counts by queue and executor.
SELECT date_bin(make_interval(secs => $5::integer), bucket, 'epoch') AS step, nullif({key}, '') AS key,
       sum(success)::bigint AS success, sum(failed)::bigint AS failed, sum(missed)::bigint AS missed,
       sum(skipped)::bigint AS skipped, sum(cancelled)::bigint AS cancelled,
       waterclock.join_histograms(durations) AS durations, waterclock.join_histograms(lags) AS lags
  FROM waterclock.run_stats
 WHERE namespace = $1 AND seconds = $2 AND bucket >= $3 AND bucket < $4
 GROUP BY 1, 2;

-- name: busiest
-- The jobs with most runs in a range.
SELECT job_id
  FROM waterclock.job_stats
 WHERE namespace = $1 AND hour >= $2 AND hour < $3
 GROUP BY job_id
 ORDER BY sum(success + failed + missed + skipped + cancelled) DESC, job_id
 LIMIT $4;

-- name: counted_by_job
-- How the runs of some jobs went.
SELECT date_bin(make_interval(secs => $5::integer), hour, 'epoch') AS step, job_id AS key,
       sum(success)::bigint AS success, sum(failed)::bigint AS failed, sum(missed)::bigint AS missed,
       sum(skipped)::bigint AS skipped, sum(cancelled)::bigint AS cancelled,
       waterclock.join_histograms(durations) AS durations, waterclock.join_histograms(lags) AS lags
  FROM waterclock.job_stats
 WHERE namespace = $1 AND hour >= $2 AND hour < $3 AND job_id = ANY ($4::text[])
 GROUP BY 1, 2;

-- name: counted_by_label
-- How the runs of jobs went, by the value of a label that they have now; of a node or a member, that of the whole.
SELECT date_bin(make_interval(secs => $5::integer), s.hour, 'epoch') AS step,
       coalesce(own.labels, whole.labels) ->> $4 AS key,
       sum(s.success)::bigint AS success, sum(s.failed)::bigint AS failed, sum(s.missed)::bigint AS missed,
       sum(s.skipped)::bigint AS skipped, sum(s.cancelled)::bigint AS cancelled,
       waterclock.join_histograms(s.durations) AS durations, waterclock.join_histograms(s.lags) AS lags
  FROM waterclock.job_stats s
  LEFT JOIN waterclock.job_definitions own ON own.job_id = s.job_id
  LEFT JOIN LATERAL (
       SELECT labels
         FROM waterclock.job_definitions
        WHERE own.job_id IS NULL
          AND job_id IN (regexp_replace(s.job_id, '~[^~]*$', ''), regexp_replace(s.job_id, '(~[^~]*){2}$', ''))
        ORDER BY length(job_id) DESC
        LIMIT 1) whole ON true
 WHERE s.namespace = $1 AND s.hour >= $2 AND s.hour < $3 AND coalesce(own.labels, whole.labels) ? $4
 GROUP BY 1, 2;

-- name: from_runs
-- The same from the runs themselves, where there are not too many: counts first, then how many are in which bucket of
-- each histogram.
SELECT date_bin(make_interval(secs => $5::integer), scheduled_time, 'epoch') AS step, key, duration, lag,
       grouping(duration, lag) AS kind, count(*) AS runs,
       count(*) FILTER (WHERE status = 'SUCCESS') AS success,
       count(*) FILTER (WHERE status IN ('FAILED', 'TIMED_OUT')) AS failed,
       coalesce(sum(fires) FILTER (WHERE status = 'MISSED'), 0)::bigint AS missed,
       count(*) FILTER (WHERE status = 'SKIPPED') AS skipped,
       count(*) FILTER (WHERE status = 'CANCELLED') AS cancelled
  FROM (SELECT r.scheduled_time, r.status, r.fires, {key} AS key,
               waterclock.histogram_index(r.end_time - r.start_time) AS duration,
               waterclock.histogram_index(r.start_time - r.due_time) AS lag
          FROM waterclock.job_runs r
          LEFT JOIN waterclock.job_definitions d ON d.job_id = split_part(r.run_id, '@', 1)
         WHERE r.namespace = $1 AND r.scheduled_time >= $2 AND r.scheduled_time < $3
           AND r.created_at >= $2::timestamptz - interval '2 days'
           AND $4::text IS NOT NULL
           AND r.status NOT IN ('WAITING', 'QUEUED', 'RUNNING', 'RETRYING')) runs
 GROUP BY GROUPING SETS ((1, key), (1, key, duration), (1, key, lag));
