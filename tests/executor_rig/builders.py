"""Things with defaults, for tests that care about one field."""

from typing import Any

from waterclock.executor.attempt_record import Attempt
from waterclock.proto.spec import Argv, JobSpec, Task
from waterclock.proto.work import WorkItem

NOON = 1_800_000_000_000_000


def work_item(task: Task | None = None, *, run: dict[str, Any] | None = None, **spec: Any) -> WorkItem:
    fields: dict[str, Any] = {
        "run_id": "job@20261116T030000Z",
        "job_id": "job",
        "version": 1,
        "spec": JobSpec(name="a job", task=task or Argv(command=("true",)), **spec),
        "scheduled": NOON,
        "due": NOON,
        "queued": NOON,
        **(run or {}),
    }
    return WorkItem(**fields)


def attempt(task: Task | None = None, *, token: int | None = None, **kwargs: Any) -> Attempt:
    return Attempt(
        item=work_item(task, **kwargs), executor_id="executor-1", started=NOON + 5, fencing_token=token
    )
