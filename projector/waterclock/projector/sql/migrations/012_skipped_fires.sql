-- Jobs of which a fire is to be left out are few, and are looked for whenever somebody asks what fires next.

CREATE INDEX job_state_skipped ON job_state (namespace) WHERE skipped <> '{}';
