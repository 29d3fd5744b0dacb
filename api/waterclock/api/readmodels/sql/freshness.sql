-- name: position
-- How far a partition of a stream is folded in.
SELECT position FROM waterclock.projection_state WHERE stream = $1 AND partition = $2;

-- name: positions
-- How far each partition of a stream is folded in, and when that was stored in the log.
SELECT partition, position, event_time FROM waterclock.projection_state WHERE stream = $1;

-- name: known_streams
-- When each stream that was folded was created, and the highest sequence ever seen of it.
SELECT stream, stream_created AS created, max(stream_last_sequence) AS last_sequence
  FROM waterclock.projection_state
 GROUP BY stream, stream_created;
