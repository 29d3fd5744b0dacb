"""A workflow in Python, for those who would rather not write the graph as data.

nightly = Workflow("nightly", cron="0 3 * * *")
fetch = nightly.task("fetch", command="./fetch.sh {{ parameters.day }}")
load = nightly.task("load", command="./load.sh {{ nodes.fetch.output.rows }}", max_retries=2)
check = nightly.task("check", command="./check.sh")
fetch >> [load, check]
await clock.workflows.create(**nightly.definition)
"""

from collections.abc import Iterable
from typing import Any


class Task:
    """A node of a workflow. `a >> b` says that b comes after a, and gives b back, so that chains read as they run."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name = name
        self._fields = fields
        self._after: dict[str, None] = dict.fromkeys(fields.pop("depends_on", ()))

    def __rshift__(self, after: "Task | Iterable[Task]") -> "Task | Iterable[Task]":
        for task in (after,) if isinstance(after, Task) else after:
            task._after[self.name] = None
        return after

    def __rrshift__(self, before: "Iterable[Task]") -> "Task":
        for task in before:
            self._after[task.name] = None
        return self

    @property
    def definition(self) -> dict[str, Any]:
        return {"id": self.name, **self._fields, **({"depends_on": list(self._after)} if self._after else {})}


class Workflow:
    """Gathers tasks; `definition` is what the api takes."""

    def __init__(self, name: str, **fields: Any) -> None:
        self._fields = {"name": name, **fields}
        self._tasks: list[Task] = []

    def task(self, name: str, **fields: Any) -> Task:
        """A node by the fields of the contract: what runs, `trigger_rule`, `condition`, `map`, retries, …"""
        self._tasks.append(Task(name, fields))
        return self._tasks[-1]

    @property
    def definition(self) -> dict[str, Any]:
        return {**self._fields, "nodes": [task.definition for task in self._tasks]}
