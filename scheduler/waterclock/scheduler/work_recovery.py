"""Work that the queue may have lost: published again, a chunk after each pass. What it still holds it refuses."""

from waterclock.core.domain.partition.owner import Owner
from waterclock.core.domain.partition.state import Run
from waterclock.core.domain.workflow.expression import Unusable
from waterclock.proto.spec import JobSpec
from waterclock.scheduler.ports import Ports
from waterclock.scheduler.work_messages import recovered_message

_CHUNK = 500


class Recovery:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._left: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._left)

    def begin(self, owner: Owner) -> None:
        """The server was away: compare the queue with all that should be in it."""
        self._left = [run.run_id for run in owner.state.runs.values() if run.has_work]

    async def go_on(self, owner: Owner) -> None:
        chunk, self._left = self._left[:_CHUNK], self._left[_CHUNK:]
        runs = owner.state.runs
        await self.publish_again(owner, [runs[run_id] for run_id in chunk if run_id in runs])

    async def publish_again(self, owner: Owner, runs: list[Run]) -> None:
        messages = []
        for run in runs:
            spec = await self._spec_of(owner, run)
            if spec is not None and run.has_work:
                messages.append(recovered_message(run, spec))
        if messages:
            await self._ports.publisher.publish_work(messages)

    async def _spec_of(self, owner: Owner, run: Run) -> JobSpec | None:
        try:
            if (spec := owner.spec_of(run)) is not None:
                return spec
            spec = await self._ports.spec_at(run.job_id, run.version)
            if spec is None:
                return None
            owner.remember_definition(run.job_id, run.version, spec)
            return owner.spec_of(run)
        except Unusable:
            return None
