-- name: folded
-- How far each partition of a stream is folded in, and when that was stored in the log.
SELECT partition, position, event_time FROM waterclock.projection_state WHERE stream = $1;

-- name: dead_letters
-- How many runs are out of attempts.
SELECT count(*) AS count FROM waterclock.dead_letters WHERE namespace = $1;

-- name: seen
SELECT stream, stream_created AS created, max(stream_last_sequence) AS last_sequence
  FROM waterclock.projection_state
 GROUP BY stream, stream_created;
