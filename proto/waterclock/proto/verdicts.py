"""The words for states and decisions that more than one component uses, each as one literal type."""

from typing import Literal

JobState = Literal["SCHEDULED", "PAUSED", "CANCELLED", "COMPLETED"]

RunStatus = Literal[
    "WAITING",
    "QUEUED",
    "RUNNING",
    "RETRYING",
    "SUCCESS",
    "FAILED",
    "TIMED_OUT",
    "CANCELLED",
    "SKIPPED",
    "MISSED",
]
ACTIVE: frozenset[RunStatus] = frozenset({"WAITING", "QUEUED", "RUNNING", "RETRYING"})
TERMINAL: frozenset[RunStatus] = frozenset(
    {"SUCCESS", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED", "MISSED"}
)

AccessAction = Literal[
    "token.created",
    "token.revoked",
    "secret.set",
    "secret.deleted",
    "secret.key_rotated",
    "quota.set",
    "jobs.bulk",
    "runs.bulk",
    "denied",
]
"""What is recorded of who may do what."""

InstanceState = Literal["running", "leaving", "draining"]
"""A scheduler that leaves takes no more partitions, an executor that drains no more work."""

ClaimVerdict = Literal["run", "drop", "wait"]
"""`drop`: the attempt has ended, or another one is current. `wait`: another executor still has it."""

OverlapVerdict = Literal["queue", "skip", "wait"]
"""What becomes of a fire while earlier runs of its job are active."""
