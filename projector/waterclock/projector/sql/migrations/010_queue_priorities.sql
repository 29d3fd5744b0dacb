-- Each priority has a queue of its own, where there was one for each range of them.

ALTER TABLE queues ADD COLUMN priority integer NOT NULL DEFAULT 0;
ALTER TABLE queues DROP CONSTRAINT queues_pkey;
DELETE FROM queues;
ALTER TABLE queues ADD PRIMARY KEY (queue, handler, tier, priority);

COMMENT ON TABLE queues IS 'Depth of every work queue, by tier and priority. Copied from the broker every two seconds.';
COMMENT ON COLUMN queues.priority IS 'The priority; higher is taken first.';
COMMENT ON COLUMN queues.band IS 'The range it is in: 0 is 0, 1 is from 1, 2 from 10, 3 from 50, 4 from 90 on.';
