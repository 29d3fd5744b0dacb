-- name: page
-- Dead letters that match, newest first, from a place on.
SELECT to_jsonb(letters) AS letter, dead_time, run_id
FROM waterclock.dead_letters letters
WHERE namespace = $1
  AND ($2::text IS NULL OR job_id = $2)
  AND ($3::text IS NULL OR status = $3)
  AND ($4::text IS NULL OR reason ILIKE $4 OR error_message ILIKE $4)
  AND ($5::timestamptz IS NULL OR dead_time >= $5)
  AND ($6::timestamptz IS NULL OR dead_time < $6)
  AND ($7::timestamptz IS NULL OR (dead_time, run_id) < ($7, $8::text))
ORDER BY dead_time DESC, run_id DESC
LIMIT $9;
