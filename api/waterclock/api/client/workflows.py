"""`clock.workflows`: graphs of jobs and their waves."""

import secrets
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from waterclock.api import decoding
from waterclock.api.client.wire import Wire
from waterclock.proto import answers, methods, queries
from waterclock.proto.commands import JobRequest


class Workflows:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def create(self, **fields: Any) -> answers.WorkflowAccepted:
        """Define a workflow by the fields of the contract: `nodes`, and a schedule as a job has."""
        request = decoding.convert(fields, JobRequest, text=False)
        if request.idempotency_key in (UNSET, None):
            request.idempotency_key = f"auto-{secrets.token_hex(10)}"
        return await self._wire.call(methods.WORKFLOWS_CREATE, request)

    async def get(self, workflow_id: str) -> answers.Workflow:
        return await self._wire.call(methods.WORKFLOWS_GET, queries.WorkflowRef(workflow_id=workflow_id))

    async def update(
        self, workflow_id: str, *, if_match: int | None = None, **fields: Any
    ) -> answers.Workflow:
        patch = {**fields, "workflow_id": workflow_id, "if_match": if_match}
        return await self._wire.call(
            methods.WORKFLOWS_UPDATE, decoding.convert(patch, queries.WorkflowPatch, text=False)
        )

    async def cancel(self, workflow_id: str, *, note: str = "") -> answers.Workflow:
        request = queries.CancelWorkflow(workflow_id=workflow_id, note=note)
        return await self._wire.call(methods.WORKFLOWS_CANCEL, request)

    async def run_now(
        self,
        workflow_id: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> answers.WorkflowRunAccepted:
        request = queries.RunWorkflow(
            workflow_id=workflow_id,
            parameters=dict(parameters or {}),
            idempotency_key=idempotency_key or secrets.token_hex(10),
        )
        return await self._wire.call(methods.WORKFLOWS_RUN_NOW, request)

    async def wave(self, workflow_run_id: str) -> answers.WorkflowRun:
        """One wave, with its nodes."""
        request = queries.WorkflowRunRef(workflow_run_id=workflow_run_id)
        return await self._wire.call(methods.WORKFLOW_RUNS_GET, request)

    async def rerun(self, workflow_run_id: str, *nodes: str, note: str = "") -> answers.WorkflowRun:
        """Again from what failed, or from these nodes on."""
        request = queries.Rerun(workflow_run_id=workflow_run_id, nodes=nodes, note=note)
        return await self._wire.call(methods.WORKFLOW_RUNS_RERUN, request)

    async def runs(self, workflow_id: str, **filters: Any) -> answers.Page[answers.WorkflowRun]:
        """A page of waves, newest first."""
        query = decoding.convert(
            {"workflow_id": workflow_id, **filters}, queries.WorkflowRunsQuery, text=False
        )
        return await self._wire.call(methods.WORKFLOWS_RUNS, query)

    async def list(self, **filters: Any) -> answers.Page[answers.Workflow]:
        return await self._wire.call(
            methods.WORKFLOWS_LIST, decoding.convert(filters, queries.JobsQuery, text=False)
        )
