"""The service's methods, one row each. The NATS service, the REST routes, the client and the command line are
built from this table, so that a new method is added in one place and they cannot drift apart.

Over NATS a method is `waterclock.v1.<name>`: the request struct as JSON in, the answer as JSON out. Over REST the
fields of the request come from the path, then the query (or the JSON body where there is one), then two headers:
`Idempotency-Key` fills `idempotency_key` and `If-Match` fills `if_match` when the request has such a field.
"""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from waterclock.proto import answers, commands, queries
from waterclock.proto.answers import Page
from waterclock.proto.names import SERVICE_PREFIX
from waterclock.proto.spec import JobRequest, PreviewRequest

Q = TypeVar("Q", bound=Struct)
A = TypeVar("A")

Scope = Literal["open", "read", "submit", "operate", "execute", "secrets", "admin"]
"""What a caller must be allowed to do; `open` needs no token, and `admin` includes all others. `execute` is for no
method: its holder takes work."""

Verb = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Rest:
    verb: Verb
    path: str
    status: int = 200
    body: Literal["json", "lines", "bytes"] = "json"
    """`lines`: NDJSON or an array, one request each. `bytes`: the body is content, not a request."""
    answer: Literal["json", "array", "lines", "text", "events", "bytes", "declarations"] = "json"
    """`array`: a page as a bare array, its cursor in a `Link` header. `lines`: one JSON document a line. `text`:
    the text of each chunk. `events`: server-sent events. `declarations`: one document of all, in YAML or JSON."""
    also: tuple[Verb, ...] = ()
    location: str = ""
    """Where a created thing is found, as a path over the answer's fields."""


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    name: str
    summary: str
    request: type[Q]
    answer: type[A]
    scope: Scope
    rest: Rest | None = None
    streaming: bool = False
    """Answers come one after another until an empty one."""
    command: str = ""
    """The words on the command line that do this. Where no such command is written by hand, it is made from the row."""

    @property
    def subject(self) -> str:
        return f"{SERVICE_PREFIX}.{self.name}"


JOBS_CREATE = Method(
    "jobs.create",
    "Define a job",
    JobRequest,
    answers.JobAccepted,
    "submit",
    Rest("POST", "/v1/jobs", 201, location="/v1/jobs/{job_id}"),
    command="submit",
)
JOBS_BATCH = Method(
    "jobs.batch",
    "Define up to 10,000 jobs; a bad one fails alone",
    commands.JobBatch,
    list[answers.BatchResult],
    "submit",
    Rest("POST", "/v1/jobs:batch", body="lines", answer="lines"),
    command="batch",
)
JOBS_APPLY = Method(
    "jobs.apply",
    "Make a job or workflow be as declared",
    commands.Apply,
    answers.Applied,
    "submit",
    Rest("POST", "/v1/jobs:apply"),
    command="apply",
)
JOBS_LIST = Method(
    "jobs.list",
    "List jobs",
    queries.JobsQuery,
    Page[answers.Job],
    "read",
    Rest("GET", "/v1/jobs"),
    command="jobs",
)
JOBS_GET = Method(
    "jobs.get",
    "One job",
    queries.JobRef,
    answers.Job,
    "read",
    Rest("GET", "/v1/jobs/{job_id}"),
    command="job",
)
JOBS_STATUS = Method(
    "jobs.status",
    "A job's state and its latest run",
    queries.JobRef,
    answers.JobStatus,
    "read",
    Rest("GET", "/v1/jobs/{job_id}/status"),
    command="job-status",
)
JOBS_UPDATE = Method(
    "jobs.update",
    "Change a job; what is not said stays",
    commands.JobPatch,
    answers.Job,
    "submit",
    Rest("PATCH", "/v1/jobs/{job_id}", also=("PUT",)),
    command="update",
)
JOBS_CANCEL = Method(
    "jobs.cancel",
    "Cancel a job's schedule and stop what runs",
    commands.CancelJob,
    answers.Job,
    "operate",
    Rest("DELETE", "/v1/jobs/{job_id}"),
    command="cancel",
)
JOBS_PAUSE = Method(
    "jobs.pause",
    "Pause",
    commands.PauseJob,
    answers.Job,
    "operate",
    Rest("POST", "/v1/jobs/{job_id}/pause"),
    command="pause",
)
JOBS_RESUME = Method(
    "jobs.resume",
    "Resume",
    commands.ResumeJob,
    answers.Job,
    "operate",
    Rest("POST", "/v1/jobs/{job_id}/resume"),
    command="resume",
)
JOBS_RUN_NOW = Method(
    "jobs.run_now",
    "Run a job now, beside its schedule",
    commands.RunNow,
    answers.RunAccepted,
    "operate",
    Rest("POST", "/v1/jobs/{job_id}/runNow", 202, location="/v1/runs/{run_id}"),
    command="run-now",
)
JOBS_VERSIONS = Method(
    "jobs.versions",
    "Who changed a job, when and what, newest first",
    queries.VersionsQuery,
    Page[answers.DefinitionVersion],
    "read",
    Rest("GET", "/v1/jobs/{job_id}/versions", answer="array"),
    command="versions",
)
JOBS_VERSION = Method(
    "jobs.version",
    "A job as it was defined at a version",
    queries.VersionRef,
    answers.Job,
    "read",
    Rest("GET", "/v1/jobs/{job_id}/versions/{version}"),
    command="diff",
)
JOBS_ROLLBACK = Method(
    "jobs.rollback",
    "Give a job the definition again that it had at a version",
    commands.Rollback,
    answers.Job,
    "submit",
    Rest("POST", "/v1/jobs/{job_id}/rollback"),
    command="rollback",
)
JOBS_WHAT_IF = Method(
    "jobs.what_if",
    "What an edit would change about when a job fires; nothing is changed",
    commands.JobWhatIf,
    answers.WhatIf,
    "read",
    Rest("POST", "/v1/jobs/{job_id}/what-if"),
    command="update",
)
JOBS_BULK = Method(
    "jobs.bulk",
    "Pause, resume, cancel or run many jobs at once",
    commands.BulkJobs,
    answers.BulkResult,
    "operate",
    Rest("POST", "/v1/jobs:bulk"),
    command="pause",
)
JOBS_EXPORT = Method(
    "jobs.export",
    "Jobs and workflows as declarations, which `apply` changes nothing with",
    queries.ExportQuery,
    answers.Declaration,
    "read",
    Rest("GET", "/v1/export", answer="declarations"),
    streaming=True,
    command="export",
)
JOBS_NEXT = Method(
    "jobs.next",
    "When a job fires next",
    queries.NextQuery,
    answers.Fires,
    "read",
    Rest("GET", "/v1/jobs/{job_id}/next"),
    command="next",
)
SCHEDULES_PREVIEW = Method(
    "schedules.preview",
    "When a schedule would fire",
    PreviewRequest,
    answers.Fires,
    "read",
    Rest("POST", "/v1/schedules/preview"),
    command="next",
)
RUNS_LIST = Method(
    "runs.list",
    "A job's runs, newest first",
    queries.RunsQuery,
    Page[answers.Run],
    "read",
    Rest("GET", "/v1/jobs/{job_id}/runs", answer="array"),
    command="runs",
)
RUNS_SEARCH = Method(
    "runs.search",
    "Runs of all jobs, newest first",
    queries.RunSearch,
    Page[answers.FoundRun],
    "read",
    Rest("GET", "/v1/runs"),
    command="runs",
)
RUNS_GET = Method(
    "runs.get",
    "One run",
    queries.RunRef,
    answers.Run,
    "read",
    Rest("GET", "/v1/runs/{run_id}"),
    command="run",
)
RUNS_ATTEMPTS = Method(
    "runs.attempts",
    "The attempts of a run, oldest first",
    queries.RunRef,
    Page[answers.Attempt],
    "read",
    Rest("GET", "/v1/runs/{run_id}/attempts", answer="array"),
    command="attempts",
)
RUNS_LOG = Method(
    "runs.log",
    "A run's output, followed to its end if asked",
    queries.LogQuery,
    answers.LogChunk,
    "read",
    Rest("GET", "/v1/runs/{run_id}/log", answer="text"),
    streaming=True,
    command="logs",
)
RUNS_CANCEL = Method(
    "runs.cancel",
    "Stop a run",
    commands.CancelRun,
    answers.Run,
    "operate",
    Rest("POST", "/v1/runs/{run_id}/cancel"),
    command="cancel-run",
)
RUNS_RETRY = Method(
    "runs.retry",
    "Try a run that ended badly again",
    commands.RetryRun,
    answers.Run,
    "operate",
    Rest("POST", "/v1/runs/{run_id}/retry"),
    command="retry",
)
RUNS_BULK = Method(
    "runs.bulk",
    "Cancel many runs at once, or try many again",
    commands.BulkRuns,
    answers.BulkResult,
    "operate",
    Rest("POST", "/v1/runs:bulk"),
    command="cancel-run",
)
UPCOMING_LIST = Method(
    "upcoming.list",
    "When schedules fire: all of them, in order",
    queries.UpcomingQuery,
    Page[answers.UpcomingFire],
    "read",
    Rest("GET", "/v1/upcoming"),
    command="upcoming",
)
STATS_READ = Method(
    "stats.read",
    "How runs went over time",
    queries.StatsQuery,
    answers.Stats,
    "read",
    Rest("GET", "/v1/stats"),
    command="stats",
)
DEAD_LETTERS_LIST = Method(
    "dead_letters.list",
    "Runs out of attempts",
    queries.DeadLettersQuery,
    Page[answers.DeadLetter],
    "read",
    Rest("GET", "/v1/dead-letters"),
    command="dead",
)
DEAD_LETTERS_REDRIVE = Method(
    "dead_letters.redrive",
    "Try dead letters again",
    commands.Redrive,
    answers.Redriven,
    "operate",
    Rest("POST", "/v1/dead-letters/redrive"),
    command="redrive",
)
EVENTS_WATCH = Method(
    "events.watch",
    "What happens to jobs and runs, as it happens",
    queries.WatchQuery,
    answers.Change,
    "read",
    Rest("GET", "/v1/events", answer="events"),
    streaming=True,
    command="watch",
)
RUNS_EVENTS = Method(
    "runs.events",
    "What happened to a run",
    queries.RunRef,
    Page[answers.Change],
    "read",
    Rest("GET", "/v1/runs/{run_id}/events"),
    command="events",
)
RUNS_WHY = Method(
    "runs.why",
    "Why a run is as it is",
    queries.WhyQuery,
    answers.Why,
    "read",
    Rest("GET", "/v1/runs/{run_id}/why"),
    command="why",
)
JOBS_WHY = Method(
    "jobs.why",
    "Why a job ran, or did not run, at a moment",
    queries.WhyQuery,
    answers.Why,
    "read",
    Rest("GET", "/v1/jobs/{job_id}/why"),
    command="why",
)
AUDIT_RUN = Method(
    "audit.run",
    "Whether every due time is accounted for exactly once",
    queries.AuditQuery,
    answers.Audit,
    "read",
    Rest("GET", "/v1/audit", answer="lines"),
    streaming=True,
    command="audit",
)
AUDIT_ACCESS = Method(
    "audit.access",
    "Who changed tokens, secrets and quotas, and who was not let in, newest first",
    queries.AccessQuery,
    Page[answers.AccessRecord],
    "admin",
    Rest("GET", "/v1/audit/access"),
    command="audit",
)
JOBS_BACKFILL = Method(
    "jobs.backfill",
    "Run a job for past times",
    commands.BackfillRequest,
    answers.Backfill,
    "operate",
    Rest("POST", "/v1/jobs/{job_id}/backfill", 202, location="/v1/backfills/{backfill_id}"),
    command="backfill",
)
JOBS_SKIP = Method(
    "jobs.skip",
    "Leave out one occurrence of a schedule",
    commands.SkipNext,
    answers.Fire,
    "operate",
    Rest("POST", "/v1/jobs/{job_id}/skip"),
    command="skip-next",
)
BACKFILLS_LIST = Method(
    "backfills.list",
    "Backfills, newest first",
    queries.BackfillsQuery,
    Page[answers.Backfill],
    "read",
    Rest("GET", "/v1/backfills"),
    command="backfill",
)
BACKFILLS_GET = Method(
    "backfills.get",
    "One backfill and how far it is",
    queries.BackfillRef,
    answers.Backfill,
    "read",
    Rest("GET", "/v1/backfills/{backfill_id}"),
    command="backfill",
)
BACKFILLS_PAUSE = Method(
    "backfills.pause",
    "Pause a backfill",
    queries.BackfillRef,
    answers.Backfill,
    "operate",
    Rest("POST", "/v1/backfills/{backfill_id}/pause"),
    command="backfill",
)
BACKFILLS_RESUME = Method(
    "backfills.resume",
    "Resume a backfill",
    queries.BackfillRef,
    answers.Backfill,
    "operate",
    Rest("POST", "/v1/backfills/{backfill_id}/resume"),
    command="backfill",
)
BACKFILLS_CANCEL = Method(
    "backfills.cancel",
    "Cancel a backfill and stop what it runs",
    queries.BackfillRef,
    answers.Backfill,
    "operate",
    Rest("POST", "/v1/backfills/{backfill_id}/cancel"),
    command="backfill",
)
WORKFLOWS_CREATE = Method(
    "workflows.create",
    "Define a workflow",
    JobRequest,
    answers.WorkflowAccepted,
    "submit",
    Rest("POST", "/v1/workflows", 201, location="/v1/workflows/{workflow_id}"),
    command="workflow create",
)
WORKFLOWS_LIST = Method(
    "workflows.list",
    "List workflows",
    queries.JobsQuery,
    Page[answers.Workflow],
    "read",
    Rest("GET", "/v1/workflows"),
    command="workflow list",
)
WORKFLOWS_GET = Method(
    "workflows.get",
    "One workflow",
    queries.WorkflowRef,
    answers.Workflow,
    "read",
    Rest("GET", "/v1/workflows/{workflow_id}"),
    command="workflow show",
)
WORKFLOWS_UPDATE = Method(
    "workflows.update",
    "Change a workflow",
    commands.WorkflowPatch,
    answers.Workflow,
    "submit",
    Rest("PUT", "/v1/workflows/{workflow_id}", also=("PATCH",)),
    command="workflow update",
)
WORKFLOWS_VERSIONS = Method(
    "workflows.versions",
    "Who changed a workflow, when and what, newest first",
    queries.WorkflowVersionsQuery,
    Page[answers.DefinitionVersion],
    "read",
    Rest("GET", "/v1/workflows/{workflow_id}/versions", answer="array"),
    command="workflow versions",
)
WORKFLOWS_VERSION = Method(
    "workflows.version",
    "A workflow as it was defined at a version",
    queries.WorkflowVersionRef,
    answers.Workflow,
    "read",
    Rest("GET", "/v1/workflows/{workflow_id}/versions/{version}"),
    command="workflow version",
)
WORKFLOWS_ROLLBACK = Method(
    "workflows.rollback",
    "Give a workflow the definition again that it had at a version",
    commands.WorkflowRollback,
    answers.Workflow,
    "submit",
    Rest("POST", "/v1/workflows/{workflow_id}/rollback"),
    command="workflow rollback",
)
WORKFLOWS_WHAT_IF = Method(
    "workflows.what_if",
    "What an edit would change about when a workflow runs; nothing is changed",
    commands.WorkflowWhatIf,
    answers.WhatIf,
    "read",
    Rest("POST", "/v1/workflows/{workflow_id}/what-if"),
    command="workflow update",
)
WORKFLOWS_CANCEL = Method(
    "workflows.cancel",
    "Cancel a workflow and stop what runs",
    commands.CancelWorkflow,
    answers.Workflow,
    "operate",
    Rest("DELETE", "/v1/workflows/{workflow_id}"),
    command="workflow cancel",
)
WORKFLOWS_RUN_NOW = Method(
    "workflows.run_now",
    "Run a wave now",
    commands.RunWorkflow,
    answers.WorkflowRunAccepted,
    "operate",
    Rest(
        "POST",
        "/v1/workflows/{workflow_id}/runNow",
        202,
        location="/v1/workflow-runs/{workflow_run_id}",
    ),
    command="workflow run",
)
WORKFLOWS_RUNS = Method(
    "workflows.runs",
    "A workflow's waves, newest first",
    queries.WorkflowRunsQuery,
    Page[answers.WorkflowRun],
    "read",
    Rest("GET", "/v1/workflows/{workflow_id}/runs", answer="array"),
    command="workflow runs",
)
WORKFLOW_RUNS_GET = Method(
    "workflow_runs.get",
    "One wave, with its nodes",
    queries.WorkflowRunRef,
    answers.WorkflowRun,
    "read",
    Rest("GET", "/v1/workflow-runs/{workflow_run_id}"),
    command="workflow show",
)
WORKFLOWS_GRAPH = Method(
    "workflows.graph",
    "Where the nodes of a workflow stand when it is drawn",
    queries.WorkflowRef,
    answers.Graph,
    "read",
    Rest("GET", "/v1/workflows/{workflow_id}/graph"),
    command="workflow graph",
)
WORKFLOW_RUNS_GRAPH = Method(
    "workflow_runs.graph",
    "The same of the version that a wave runs",
    queries.WorkflowRunRef,
    answers.Graph,
    "read",
    Rest("GET", "/v1/workflow-runs/{workflow_run_id}/graph"),
    command="workflow run-graph",
)
WORKFLOW_RUNS_RERUN = Method(
    "workflow_runs.rerun",
    "Run a wave again from what failed, or from chosen nodes",
    commands.Rerun,
    answers.WorkflowRun,
    "operate",
    Rest("POST", "/v1/workflow-runs/{workflow_run_id}/rerun"),
    command="workflow rerun",
)
WORKFLOW_RUNS_CANCEL = Method(
    "workflow_runs.cancel",
    "Stop a wave",
    queries.WorkflowRunRef,
    answers.WorkflowRun,
    "operate",
    Rest("POST", "/v1/workflow-runs/{workflow_run_id}/cancel"),
    command="workflow cancel-run",
)
WORKFLOW_RUNS_MARK = Method(
    "workflow_runs.mark",
    "Say by hand how a node ended",
    commands.MarkNode,
    answers.WorkflowRun,
    "operate",
    Rest("POST", "/v1/workflow-runs/{workflow_run_id}/nodes/{node}/mark"),
    command="workflow mark",
)
ARTIFACTS_CREATE = Method(
    "artifacts.create",
    "Upload an artifact",
    commands.Upload,
    answers.Artifact,
    "submit",
    Rest("POST", "/v1/artifacts", 201, body="bytes", location="/v1/artifacts/{artifact}"),
    command="artifact push",
)
ARTIFACTS_PART = Method(
    "artifacts.part", "Upload a part", commands.UploadPart, answers.Part, "submit", command="artifact push"
)
ARTIFACTS_COMMIT = Method(
    "artifacts.commit",
    "Make an artifact of its parts",
    commands.UploadEnd,
    answers.Artifact,
    "submit",
    command="artifact push",
)
ARTIFACTS_LIST = Method(
    "artifacts.list",
    "Artifacts",
    queries.Nothing,
    Page[answers.Artifact],
    "read",
    Rest("GET", "/v1/artifacts"),
    command="artifact list",
)
ARTIFACTS_GET = Method(
    "artifacts.get",
    "An artifact: its bytes, or what is known of it if JSON is asked for",
    queries.ArtifactRef,
    answers.Artifact,
    "read",
    Rest("GET", "/v1/artifacts/{digest}", answer="bytes", also=("HEAD",)),
    command="artifact show",
)
EXECUTORS_LIST = Method(
    "executors.list",
    "Who runs things, and what",
    queries.Nothing,
    Page[answers.Executor],
    "read",
    Rest("GET", "/v1/executors"),
    command="executors",
)
QUEUES_LIST = Method(
    "queues.list",
    "What waits and runs, by queue, tier and priority",
    queries.Nothing,
    Page[answers.Queue],
    "read",
    Rest("GET", "/v1/queues"),
    command="queues",
)
PARTITIONS_LIST = Method(
    "partitions.list",
    "Which scheduler owns which partition, and how far it is",
    queries.Nothing,
    Page[answers.Partition],
    "read",
    Rest("GET", "/v1/partitions"),
    command="partitions",
)
SYSTEM_STATUS = Method(
    "system.status",
    "Whether all is well",
    queries.Nothing,
    answers.SystemStatus,
    "read",
    Rest("GET", "/v1/status"),
    command="status",
)
SYSTEM_DOCTOR = Method(
    "system.doctor",
    "What protects this installation, what is missing, and what to do about it",
    queries.Nothing,
    answers.Diagnosis,
    "read",
    Rest("GET", "/v1/doctor"),
    command="doctor",
)
SYSTEM_CONSISTENCY = Method(
    "system.consistency",
    "Whether REST, SQL, `why` and the queues say what the log says",
    queries.ConsistencyQuery,
    answers.Consistency,
    "read",
    Rest("GET", "/v1/consistency", answer="lines"),
    streaming=True,
    command="doctor",
)
TOKENS_CREATE = Method(
    "tokens.create",
    "Make a token",
    commands.TokenRequest,
    answers.Token,
    "admin",
    Rest("POST", "/v1/tokens", 201),
    command="token create",
)
TOKENS_LIST = Method(
    "tokens.list",
    "Tokens",
    queries.Nothing,
    Page[answers.Token],
    "admin",
    Rest("GET", "/v1/tokens"),
    command="token list",
)
TOKENS_REVOKE = Method(
    "tokens.revoke",
    "Revoke a token at once",
    commands.TokenRef,
    answers.Token,
    "admin",
    Rest("DELETE", "/v1/tokens/{token_id}"),
    command="token revoke",
)
NAMESPACES_LIST = Method(
    "namespaces.list",
    "Namespaces and their quotas",
    queries.Nothing,
    Page[answers.Namespace],
    "admin",
    Rest("GET", "/v1/namespaces"),
    command="namespace list",
)
NAMESPACES_LIMIT = Method(
    "namespaces.limit",
    "Set a namespace's quota",
    commands.QuotaRequest,
    answers.Namespace,
    "admin",
    Rest("PUT", "/v1/namespaces/{namespace}"),
    command="namespace limit",
)
SECRETS_SET = Method(
    "secrets.set",
    "Set a secret, for jobs to name",
    commands.SetSecret,
    answers.Secret,
    "secrets",
    Rest("PUT", "/v1/secrets/{name}", 204),
    command="secret set",
)
SECRETS_LIST = Method(
    "secrets.list",
    "Secrets, without their values",
    queries.Nothing,
    Page[answers.Secret],
    "read",
    Rest("GET", "/v1/secrets"),
    command="secret list",
)
SECRETS_DELETE = Method(
    "secrets.delete",
    "Delete a secret",
    commands.DeleteSecret,
    answers.Secret,
    "secrets",
    Rest("DELETE", "/v1/secrets/{name}", 204),
    command="secret delete",
)
SECRETS_ROTATE_KEY = Method(
    "secrets.rotate_key",
    "Encrypt every secret with a new key",
    queries.Nothing,
    answers.KeyRotation,
    "admin",
    Rest("POST", "/v1/secrets:rotateKey"),
    command="secret rotate-key",
)
QUARANTINE_LIST = Method(
    "quarantine.list",
    "Records that could not be read and were left out",
    queries.Nothing,
    Page[answers.Quarantined],
    "admin",
    Rest("GET", "/v1/quarantine"),
    command="quarantine list",
)
QUARANTINE_SHOW = Method(
    "quarantine.show",
    "One of them, with its content",
    queries.QuarantineRef,
    answers.Quarantined,
    "admin",
    Rest("GET", "/v1/quarantine/{record_id}"),
    command="quarantine show",
)
QUARANTINE_DROP = Method(
    "quarantine.drop",
    "Have seen one: it is not shown again",
    queries.QuarantineRef,
    answers.Quarantined,
    "admin",
    Rest("DELETE", "/v1/quarantine/{record_id}"),
    command="quarantine drop",
)
WHOAMI = Method(
    "tokens.whoami",
    "Whose token this is, and what it may do",
    queries.Nothing,
    answers.Identity,
    "read",
    Rest("GET", "/v1/whoami"),
    command="whoami",
)
SESSIONS_LINK = Method(
    "sessions.link",
    "A link that signs a browser in to the console, once",
    queries.Nothing,
    answers.SignInLink,
    "read",
    Rest("POST", "/v1/session/links", 201),
    command="console",
)
IDS_FIND = Method(
    "ids.find", "What a shortened id stands for", queries.IdQuery, answers.Ids, "read", command="job"
)

METHODS: tuple[Method[Any, Any], ...] = tuple(
    row for row in list(globals().values()) if isinstance(row, Method)
)
