-- The read models. Names are unqualified: a migration runs with search_path on the schema it builds, so that
-- a rebuild can make the same tables beside the live ones.
--
-- What changes together lies together. A definition changes when a user edits it, what became of it with every fire:
-- they are two tables, the second a narrow one, and `jobs` is the view of both. The attempt a run is in (for nearly all
-- runs the only one) lies in its `job_runs` row; only attempts left behind have rows of their own, and `job_attempts`
-- shows both.

-- --- jobs ---------------------------------------------------------------------------------------------------

CREATE TABLE job_definitions (
    job_id         text COLLATE "C" PRIMARY KEY,
    namespace      text COLLATE "C" NOT NULL,
    name           text NOT NULL,
    standing       text COLLATE "C" NOT NULL CHECK (standing IN ('SCHEDULED', 'PAUSED', 'CANCELLED')),
    version        bigint NOT NULL,
    armed_version  bigint NOT NULL,
    effective_from timestamptz NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    note           text,
    labels         jsonb NOT NULL,
    spec           jsonb NOT NULL,
    payload        jsonb
);

CREATE INDEX job_definitions_created ON job_definitions (namespace, created_at DESC, job_id);
CREATE INDEX job_definitions_name ON job_definitions (lower(left(name, 100)) text_pattern_ops);
CREATE INDEX job_definitions_labels ON job_definitions USING gin (labels jsonb_path_ops);
CREATE INDEX job_definitions_age ON job_definitions USING brin (created_at) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX job_definitions_retention ON job_definitions (job_id) WHERE spec ? 'retention';
CREATE INDEX job_definitions_workflows ON job_definitions (job_id) WHERE spec #>> '{task,kind}' = 'workflow';

COMMENT ON TABLE job_definitions IS 'The newest definition of every job. Query the view jobs instead.';
COMMENT ON COLUMN job_definitions.job_id IS 'The job.';
COMMENT ON COLUMN job_definitions.namespace IS 'The tenant the job belongs to.';
COMMENT ON COLUMN job_definitions.name IS 'The name its owner gave it; not unique.';
COMMENT ON COLUMN job_definitions.standing IS 'SCHEDULED, PAUSED or CANCELLED, as users left it; what became of it is in job_state.status.';
COMMENT ON COLUMN job_definitions.version IS 'Sequence in the stream JOBS of the newest definition; the ETag of the API.';
COMMENT ON COLUMN job_definitions.armed_version IS 'The version that set the schedule going: by creation, edit or resumption.';
COMMENT ON COLUMN job_definitions.effective_from IS 'Fires up to this instant are not this schedule''s to take.';
COMMENT ON COLUMN job_definitions.created_at IS 'When the job was created.';
COMMENT ON COLUMN job_definitions.updated_at IS 'When the definition last changed.';
COMMENT ON COLUMN job_definitions.note IS 'The note left with the last change, for example why it is paused.';
COMMENT ON COLUMN job_definitions.labels IS 'Labels to filter by: labels @> ''{"team": "data"}''.';
COMMENT ON COLUMN job_definitions.spec IS 'The definition as stored in the log, without the payload; fields at their default are absent.';
COMMENT ON COLUMN job_definitions.payload IS 'What the job is given to work on. Apart from spec, because it may be large.';

CREATE TABLE job_state (
    job_id         text COLLATE "C" PRIMARY KEY,
    namespace      text COLLATE "C" NOT NULL,
    status         text COLLATE "C" NOT NULL
                   CHECK (status IN ('SCHEDULED', 'PAUSED', 'CANCELLED', 'COMPLETED')),
    next_run_at    timestamptz,
    last_fire_at   timestamptz,
    fire_sequence  bigint,
    ended_version  bigint,
    ended_time     timestamptz,
    ended_sequence bigint,
    created_at     timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX job_state_status ON job_state (namespace, status, created_at DESC, job_id) WHERE status <> 'COMPLETED';
CREATE INDEX job_state_next ON job_state (next_run_at) WHERE next_run_at IS NOT NULL;

COMMENT ON TABLE job_state IS 'What became of every job so far. Narrow, because it changes with every fire. Query the views jobs and upcoming instead.';
COMMENT ON COLUMN job_state.job_id IS 'The job.';
COMMENT ON COLUMN job_state.namespace IS 'The tenant the job belongs to.';
COMMENT ON COLUMN job_state.status IS 'SCHEDULED, PAUSED, CANCELLED or COMPLETED (it will not fire again).';
COMMENT ON COLUMN job_state.next_run_at IS 'The next scheduled fire; null if there is none.';
COMMENT ON COLUMN job_state.last_fire_at IS 'The newest scheduled time that was decided: queued, skipped or missed.';
COMMENT ON COLUMN job_state.fire_sequence IS 'Sequence in the stream RUNS of the event that decided it.';
COMMENT ON COLUMN job_state.ended_version IS 'The newest version whose schedule was reported to have no further fire.';
COMMENT ON COLUMN job_state.ended_time IS 'The newest scheduled time of a one-shot whose run has ended.';
COMMENT ON COLUMN job_state.ended_sequence IS 'Sequence in the stream RUNS of the event that was the first to tell of an end.';
COMMENT ON COLUMN job_state.created_at IS 'When the job was created.';

-- --- runs ---------------------------------------------------------------------------------------------------

CREATE TABLE job_runs (
    run_id          text COLLATE "C" NOT NULL,
    job_id          text COLLATE "C" NOT NULL,
    namespace       text COLLATE "C" NOT NULL,
    workflow_run_id text COLLATE "C",
    epoch           bigint,
    status          text COLLATE "C" NOT NULL CHECK (status IN ('WAITING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS',
                        'FAILED', 'TIMED_OUT', 'CANCELLED', 'SKIPPED', 'MISSED')),
    reason          text,
    trigger         text COLLATE "C" NOT NULL,
    version         bigint,
    fires           bigint NOT NULL,
    attempt_number  integer NOT NULL,
    crash_count     integer NOT NULL,
    scheduled_time  timestamptz NOT NULL,
    due_time        timestamptz NOT NULL,
    queued_time     timestamptz,
    start_time      timestamptz,
    end_time        timestamptz,
    modified_time   timestamptz NOT NULL,
    executor_id     text COLLATE "C",
    exit_code       bigint,
    error_message   text,
    output          jsonb,
    log_url         text,
    cpu_seconds     double precision,
    memory_bytes    bigint,
    fencing_token   bigint,
    queue           text COLLATE "C",
    tier            text COLLATE "C",
    priority        integer,
    first_sequence  bigint NOT NULL,
    last_sequence   bigint NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (run_id, created_at)
) PARTITION BY RANGE (created_at);

CREATE TABLE job_runs_default PARTITION OF job_runs DEFAULT;

CREATE INDEX job_runs_job ON job_runs (job_id, created_at DESC);
CREATE INDEX job_runs_open ON job_runs (status, due_time) WHERE status IN ('WAITING', 'QUEUED', 'RUNNING', 'RETRYING');
CREATE INDEX job_runs_failed ON job_runs (end_time) WHERE status IN ('FAILED', 'TIMED_OUT');
CREATE INDEX job_runs_workflow ON job_runs (workflow_run_id) WHERE workflow_run_id IS NOT NULL;
CREATE INDEX job_runs_created ON job_runs USING brin (created_at) WITH (pages_per_range = 32, autosummarize = on);

COMMENT ON TABLE job_runs IS 'Every run: one row per firing of a job. Partitioned by week of created_at; a week past retention is dropped whole.';
COMMENT ON COLUMN job_runs.run_id IS 'The run: <job_id>@<scheduled time>, or <job_id>@now-<command> if somebody asked for it.';
COMMENT ON COLUMN job_runs.job_id IS 'The job it is a run of; <workflow>~<node> for a step of a workflow.';
COMMENT ON COLUMN job_runs.namespace IS 'The tenant the job belongs to.';
COMMENT ON COLUMN job_runs.workflow_run_id IS 'The workflow or fan-out run this one is part of.';
COMMENT ON COLUMN job_runs.epoch IS 'Which wave of the workflow it belongs to.';
COMMENT ON COLUMN job_runs.status IS 'WAITING, QUEUED, RUNNING, RETRYING; at the end SUCCESS, FAILED, TIMED_OUT, CANCELLED, SKIPPED or MISSED.';
COMMENT ON COLUMN job_runs.reason IS 'Why it is in this status: what it waits for, why it failed or did not run.';
COMMENT ON COLUMN job_runs.trigger IS 'What caused it: schedule, catch_up, now, backfill, dependency, workflow or fan_out.';
COMMENT ON COLUMN job_runs.version IS 'The version of the definition it ran with.';
COMMENT ON COLUMN job_runs.fires IS 'How many scheduled fires the row stands for: 1, or more for a range that was MISSED.';
COMMENT ON COLUMN job_runs.attempt_number IS 'The current attempt; 0 before the first is queued.';
COMMENT ON COLUMN job_runs.crash_count IS 'How often an executor died while running it; not counted as attempts.';
COMMENT ON COLUMN job_runs.scheduled_time IS 'What the schedule said, or when the run was asked for.';
COMMENT ON COLUMN job_runs.due_time IS 'When the current attempt is due: scheduled_time with jitter, or the time of the retry.';
COMMENT ON COLUMN job_runs.queued_time IS 'When the current attempt was queued.';
COMMENT ON COLUMN job_runs.start_time IS 'When the current attempt started.';
COMMENT ON COLUMN job_runs.end_time IS 'When the current attempt ended, or the run was given up.';
COMMENT ON COLUMN job_runs.modified_time IS 'When the last event of the run happened.';
COMMENT ON COLUMN job_runs.executor_id IS 'The executor of the current attempt.';
COMMENT ON COLUMN job_runs.exit_code IS 'Exit code of the process, or status of the HTTP answer.';
COMMENT ON COLUMN job_runs.error_message IS 'What the attempt said about its failure.';
COMMENT ON COLUMN job_runs.output IS 'What the run gave back.';
COMMENT ON COLUMN job_runs.log_url IS 'Where its stdout and stderr are kept.';
COMMENT ON COLUMN job_runs.cpu_seconds IS 'CPU time the attempt used.';
COMMENT ON COLUMN job_runs.memory_bytes IS 'Most memory the attempt used at once.';
COMMENT ON COLUMN job_runs.fencing_token IS 'The token of the exactly-once lease of the attempt.';
COMMENT ON COLUMN job_runs.queue IS 'The queue it was put into.';
COMMENT ON COLUMN job_runs.tier IS 'light, medium or heavy.';
COMMENT ON COLUMN job_runs.priority IS 'Higher is taken first.';
COMMENT ON COLUMN job_runs.first_sequence IS 'Sequence in the stream RUNS of its first event: where to begin reading its history in the log.';
COMMENT ON COLUMN job_runs.last_sequence IS 'Sequence in the stream RUNS of the last event that changed this row.';
COMMENT ON COLUMN job_runs.created_at IS 'When its first event happened. Never changes: it decides the partition.';

CREATE TABLE earlier_attempts (
    run_id          text COLLATE "C" NOT NULL,
    attempt_number  integer NOT NULL,
    executor_id     text COLLATE "C",
    status          text COLLATE "C" NOT NULL
                    CHECK (status IN ('FAILED', 'TIMED_OUT', 'CANCELLED', 'SNOOZED', 'RETURNED', 'LOST')),
    reason          text,
    queued_time     timestamptz,
    start_time      timestamptz,
    end_time        timestamptz NOT NULL,
    exit_code       bigint,
    error_message   text,
    log_url         text,
    cpu_seconds     double precision,
    memory_bytes    bigint,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (run_id, attempt_number, end_time, created_at)
) PARTITION BY RANGE (created_at);

CREATE TABLE earlier_attempts_default PARTITION OF earlier_attempts DEFAULT;

COMMENT ON TABLE earlier_attempts IS 'Attempts that were not the last of their run. Query the view job_attempts instead. Partitioned like job_runs.';
COMMENT ON COLUMN earlier_attempts.run_id IS 'The run.';
COMMENT ON COLUMN earlier_attempts.attempt_number IS 'Which attempt. One that was snoozed, handed back or lost keeps its number and has a row for each try.';
COMMENT ON COLUMN earlier_attempts.executor_id IS 'Who ran it.';
COMMENT ON COLUMN earlier_attempts.status IS 'FAILED, TIMED_OUT or CANCELLED; SNOOZED, RETURNED (executor drained) or LOST (executor died).';
COMMENT ON COLUMN earlier_attempts.reason IS 'Why it ended like that.';
COMMENT ON COLUMN earlier_attempts.queued_time IS 'When it was queued.';
COMMENT ON COLUMN earlier_attempts.start_time IS 'When it started; null if its executor died before saying so.';
COMMENT ON COLUMN earlier_attempts.end_time IS 'When it ended.';
COMMENT ON COLUMN earlier_attempts.exit_code IS 'Exit code of the process, or status of the HTTP answer.';
COMMENT ON COLUMN earlier_attempts.error_message IS 'What it said about its failure.';
COMMENT ON COLUMN earlier_attempts.log_url IS 'Where its stdout and stderr are kept.';
COMMENT ON COLUMN earlier_attempts.cpu_seconds IS 'CPU time it used.';
COMMENT ON COLUMN earlier_attempts.memory_bytes IS 'Most memory it used at once.';
COMMENT ON COLUMN earlier_attempts.created_at IS 'created_at of the run: it decides the partition.';

CREATE TABLE dead_letters (
    run_id         text COLLATE "C" PRIMARY KEY,
    job_id         text COLLATE "C" NOT NULL,
    namespace      text COLLATE "C" NOT NULL,
    status         text COLLATE "C" NOT NULL CHECK (status IN ('FAILED', 'TIMED_OUT')),
    reason         text,
    error_message  text,
    attempt_number integer NOT NULL,
    crash_count    integer NOT NULL,
    executor_id    text COLLATE "C",
    exit_code      bigint,
    log_url        text,
    scheduled_time timestamptz NOT NULL,
    dead_time      timestamptz NOT NULL,
    queue          text COLLATE "C",
    tier           text COLLATE "C",
    first_sequence bigint NOT NULL
);

CREATE INDEX dead_letters_time ON dead_letters (namespace, dead_time DESC, run_id);
CREATE INDEX dead_letters_job ON dead_letters (job_id, dead_time DESC);

COMMENT ON TABLE dead_letters IS 'Runs out of attempts, until somebody redrives them.';
COMMENT ON COLUMN dead_letters.run_id IS 'The run.';
COMMENT ON COLUMN dead_letters.job_id IS 'The job it is a run of.';
COMMENT ON COLUMN dead_letters.namespace IS 'The tenant the job belongs to.';
COMMENT ON COLUMN dead_letters.status IS 'FAILED or TIMED_OUT.';
COMMENT ON COLUMN dead_letters.reason IS 'Why the last attempt failed.';
COMMENT ON COLUMN dead_letters.error_message IS 'What the last attempt said about its failure.';
COMMENT ON COLUMN dead_letters.attempt_number IS 'How many attempts were made.';
COMMENT ON COLUMN dead_letters.crash_count IS 'How often an executor died while running it.';
COMMENT ON COLUMN dead_letters.executor_id IS 'Who ran the last attempt.';
COMMENT ON COLUMN dead_letters.exit_code IS 'Exit code of the last attempt, or status of the HTTP answer.';
COMMENT ON COLUMN dead_letters.log_url IS 'Where the output of the last attempt is kept.';
COMMENT ON COLUMN dead_letters.scheduled_time IS 'What the schedule said.';
COMMENT ON COLUMN dead_letters.dead_time IS 'When it was given up.';
COMMENT ON COLUMN dead_letters.queue IS 'The queue it was put into.';
COMMENT ON COLUMN dead_letters.tier IS 'light, medium or heavy.';
COMMENT ON COLUMN dead_letters.first_sequence IS 'Sequence in the stream RUNS of the first event of the run.';

-- --- operation ----------------------------------------------------------------------------------------------

CREATE TABLE executors (
    executor_id text COLLATE "C" PRIMARY KEY,
    status      text COLLATE "C" NOT NULL CHECK (status IN ('ACTIVE', 'DRAINING', 'GONE')),
    host        text,
    pid         integer,
    queues      text[] NOT NULL,
    tiers       text[] NOT NULL,
    handlers    text[] NOT NULL,
    slots       integer,
    busy        integer,
    started_at  timestamptz,
    seen_at     timestamptz NOT NULL,
    info        jsonb NOT NULL
);

COMMENT ON TABLE executors IS 'Executors that are there, or were within the last day. Copied from their heartbeats every two seconds.';
COMMENT ON COLUMN executors.executor_id IS 'The executor; each process has an id of its own.';
COMMENT ON COLUMN executors.status IS 'ACTIVE, DRAINING (takes no more work) or GONE.';
COMMENT ON COLUMN executors.host IS 'The machine it runs on.';
COMMENT ON COLUMN executors.pid IS 'Its process id there.';
COMMENT ON COLUMN executors.queues IS 'The queues it takes work from.';
COMMENT ON COLUMN executors.tiers IS 'The tiers it takes work from.';
COMMENT ON COLUMN executors.handlers IS 'The handlers it serves.';
COMMENT ON COLUMN executors.slots IS 'How many attempts it can run at once.';
COMMENT ON COLUMN executors.busy IS 'How many it runs now.';
COMMENT ON COLUMN executors.started_at IS 'When the process started.';
COMMENT ON COLUMN executors.seen_at IS 'When it was last seen.';
COMMENT ON COLUMN executors.info IS 'What else it says about itself.';

CREATE TABLE queues (
    queue       text COLLATE "C" NOT NULL,
    handler     text COLLATE "C" NOT NULL,
    tier        text COLLATE "C" NOT NULL,
    band        integer NOT NULL,
    waiting     bigint NOT NULL,
    running     bigint NOT NULL,
    redelivered bigint NOT NULL,
    pulls       bigint NOT NULL,
    oldest_time timestamptz,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (queue, handler, tier, band)
);

COMMENT ON TABLE queues IS 'Depth of every work queue, by tier and priority band. Copied from the broker every two seconds.';
COMMENT ON COLUMN queues.queue IS 'The queue.';
COMMENT ON COLUMN queues.handler IS 'The handler whose own queue this is; empty for work that any executor can run.';
COMMENT ON COLUMN queues.tier IS 'light, medium or heavy.';
COMMENT ON COLUMN queues.band IS 'Priority band; higher is taken first.';
COMMENT ON COLUMN queues.waiting IS 'Attempts that wait to be taken.';
COMMENT ON COLUMN queues.running IS 'Attempts taken and not finished.';
COMMENT ON COLUMN queues.redelivered IS 'Attempts among these that had to be handed out again.';
COMMENT ON COLUMN queues.pulls IS 'Requests for work that wait for some to come: 0 with waiting above 0 means nobody serves it.';
COMMENT ON COLUMN queues.oldest_time IS 'When the oldest waiting attempt was queued.';
COMMENT ON COLUMN queues.updated_at IS 'When this last changed.';

CREATE TABLE projection_state (
    stream               text COLLATE "C" NOT NULL,
    partition            integer NOT NULL,
    position             bigint NOT NULL,
    stream_created       timestamptz NOT NULL,
    stream_last_sequence bigint NOT NULL,
    event_time           timestamptz,
    projector            text COLLATE "C",
    updated_at           timestamptz NOT NULL,
    PRIMARY KEY (stream, partition)
) WITH (fillfactor = 20);

COMMENT ON TABLE projection_state IS 'How far the log is folded into these tables. Written in the transaction that writes the rows.';
COMMENT ON COLUMN projection_state.stream IS 'The stream: JOBS or RUNS.';
COMMENT ON COLUMN projection_state.partition IS 'The partition of the log.';
COMMENT ON COLUMN projection_state.position IS 'Every event of the partition up to this sequence is in the tables.';
COMMENT ON COLUMN projection_state.stream_created IS 'When the stream was created: a different time means a different log.';
COMMENT ON COLUMN projection_state.stream_last_sequence IS 'The highest sequence ever seen in the stream: a log that ends before it went back.';
COMMENT ON COLUMN projection_state.event_time IS 'When the last message folded in was stored in the log.';
COMMENT ON COLUMN projection_state.projector IS 'The projector that wrote last.';
COMMENT ON COLUMN projection_state.updated_at IS 'When it did.';
