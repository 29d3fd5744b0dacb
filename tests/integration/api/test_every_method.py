"""Every row of the method table works the same over REST, over plain NATS and through the client's wire."""

import asyncio
import base64
import json
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from waterclock.proto.answers import Change
from waterclock.proto.methods import METHODS, Method
from waterclock.proto.verdicts import TERMINAL

from .conftest import TOKEN, Served
from .test_runs import finished, state_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

Fields = dict[str, Any]


class World:
    """Something of everything there is, made when a method needs it."""

    def __init__(self, house: Served) -> None:
        self.house = house

    async def job(self, **fields: Any) -> str:
        given: Fields = {"name": "walked", "command": "true", "cron": "0 * * * *"} | fields
        return (await self.house.client.jobs.create(**given)).job_id

    async def run(self, command: str = "true") -> str:
        created = await self.house.client.jobs.create(name="walked", command=command)
        return (await finished(self.house, created.job_id)).run_id

    async def failed(self) -> str:
        return await self.run("exit 1")

    async def workflow(self) -> str:
        nodes: list[Fields] = [
            {"id": "a", "command": "echo 1"},
            {"id": "b", "command": "true", "depends_on": ["a"]},
        ]
        return (await self.house.client.workflows.create(name="walked", nodes=nodes)).workflow_id

    async def wave(self, *, ended: bool = True) -> str:
        nodes = [{"id": "a", "command": "false" if ended else "sleep 30", "max_retries": 0}]
        made = await self.house.client.workflows.create(name="walked", nodes=nodes)
        wave = (await self.house.client.workflows.run_now(made.workflow_id)).workflow_run_id
        await state_of(self.house, wave, *(TERMINAL if ended else ("RUNNING",)))
        return wave

    async def backfill(self) -> str:
        """One that is still at it when it is paused, however slow the way there."""
        job = await self.job(command="sleep 60")
        made = await self.house.http.post(f"/v1/jobs/{job}/backfill", json=HOUR)
        return str(made.json()["backfill_id"])

    async def token(self) -> str:
        made = await self.house.http.post("/v1/tokens", json={"scopes": ["read"]})
        return str(made.json()["token_id"])

    async def secret(self) -> str:
        return (await self.house.client.secrets.set(f"walked-{secrets.token_hex(4)}", value="walked")).name

    async def unreadable(self) -> str:
        """A record that an api has just tried to read."""
        key = f"backfill.default.{secrets.token_hex(8)}"
        revision = await self.house.app.control.put(key, b"no backfill")
        await self.house.client.backfills.list()
        await self.house.app.control.delete(key)
        return f"{self.house.app.control.stream}.{revision}"

    async def artifact(self) -> str:
        return (await self.house.client.artifacts.push(secrets.token_bytes(8))).artifact

    async def upload(self) -> Fields:
        part = {"upload_id": secrets.token_hex(8), "number": 0, "data": "aGk="}
        await self.house.nats.request("waterclock.v1.artifacts.part", json.dumps(part).encode())
        return {"upload_id": part["upload_id"], "parts": 1}


HOUR = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-01T02:00:00Z"}
DEFINITION = {"name": "walked", "command": "true", "cron": "@yearly"}

Sample = Callable[[World], Awaitable[Fields]]


def fixed(**fields: Any) -> Sample:
    async def sample(world: World) -> Fields:
        return fields

    return sample


def of(field: str, made: Callable[[World], Awaitable[str]], **more: Any) -> Sample:
    async def sample(world: World) -> Fields:
        return {field: await made(world), **more}

    return sample


async def fresh_apply(world: World) -> Fields:
    return {"definition": {**DEFINITION, "job_id": f"walked-{secrets.token_hex(4)}"}}


async def version_of_job(world: World) -> Fields:
    job_id = await world.job()
    return {"job_id": job_id, "version": (await world.house.client.jobs.get(job_id)).version}


async def version_of_workflow(world: World) -> Fields:
    workflow_id = await world.workflow()
    found = await world.house.client.workflows.get(workflow_id)
    return {"workflow_id": workflow_id, "version": found.version}


async def exported(world: World) -> Fields:
    mark = secrets.token_hex(4)
    await world.job(job_id=f"walked-{mark}", labels={"export": mark})
    return {"label": [f"export={mark}"]}


SAMPLES: dict[str, Sample] = {
    "jobs.create": fixed(**DEFINITION),
    "jobs.batch": fixed(jobs=[DEFINITION, {"name": ""}]),
    "jobs.apply": fresh_apply,
    "jobs.list": fixed(limit=2),
    "jobs.get": of("job_id", World.job),
    "jobs.status": of("job_id", World.job),
    "jobs.update": of("job_id", World.job, priority=3),
    "jobs.cancel": of("job_id", World.job),
    "jobs.pause": of("job_id", World.job, note="x"),
    "jobs.resume": of("job_id", World.job),
    "jobs.run_now": of("job_id", World.job),
    "jobs.versions": of("job_id", World.job),
    "jobs.version": version_of_job,
    "jobs.rollback": version_of_job,
    "jobs.what_if": of("job_id", World.job, cron="0 5 * * *"),
    "jobs.bulk": fixed(action="pause", filter={"label": ["team=nobody"]}),
    "jobs.export": exported,
    "jobs.next": of("job_id", World.job, n=2),
    "jobs.why": of("job_id", World.job),
    "jobs.skip": of("job_id", World.job),
    "jobs.backfill": of("job_id", World.job, **HOUR),
    "schedules.preview": fixed(cron="0 3 * * *", n=2),
    "runs.list": of("job_id", World.job),
    "runs.search": fixed(limit=1),
    "runs.attempts": of("run_id", World.run),
    "runs.get": of("run_id", World.run),
    "runs.log": of("run_id", World.run),
    "runs.events": of("run_id", World.run),
    "runs.why": of("run_id", World.run),
    "runs.cancel": of("run_id", World.run),
    "runs.retry": of("run_id", World.failed),
    "runs.bulk": fixed(action="retry", ids=["nobody@x"]),
    "upcoming.list": fixed(limit=1),
    "stats.read": fixed(),
    "sessions.link": fixed(),
    "dead_letters.list": fixed(limit=1),
    "dead_letters.redrive": fixed(run_ids=["nobody@x"]),
    "events.watch": fixed(stay_seconds=0.2),
    "audit.run": fixed(),
    "backfills.list": fixed(),
    "backfills.get": of("backfill_id", World.backfill),
    "backfills.pause": of("backfill_id", World.backfill),
    "backfills.resume": of("backfill_id", World.backfill),
    "backfills.cancel": of("backfill_id", World.backfill),
    "workflows.create": fixed(name="walked", nodes=[{"id": "a", "command": "true"}]),
    "workflows.list": fixed(limit=2),
    "workflows.get": of("workflow_id", World.workflow),
    "workflows.update": of("workflow_id", World.workflow, name="renamed"),
    "workflows.versions": of("workflow_id", World.workflow),
    "workflows.version": version_of_workflow,
    "workflows.rollback": version_of_workflow,
    "workflows.what_if": of("workflow_id", World.workflow, cron="0 5 * * *"),
    "workflows.cancel": of("workflow_id", World.workflow),
    "workflows.run_now": of("workflow_id", World.workflow),
    "workflows.runs": of("workflow_id", World.workflow),
    "workflows.graph": of("workflow_id", World.workflow),
    "workflow_runs.graph": of("workflow_run_id", World.wave),
    "workflow_runs.get": of("workflow_run_id", World.wave),
    "workflow_runs.rerun": of("workflow_run_id", World.wave),
    "workflow_runs.cancel": of("workflow_run_id", World.wave),
    "workflow_runs.mark": of(
        "workflow_run_id", lambda world: world.wave(ended=False), node="a", status="SKIPPED"
    ),
    "artifacts.create": fixed(data="aGVsbG8="),
    "artifacts.part": fixed(upload_id="walked-upload", number=0, data="aGk="),
    "artifacts.commit": World.upload,
    "artifacts.list": fixed(),
    "artifacts.get": of("digest", World.artifact),
    "executors.list": fixed(),
    "queues.list": fixed(),
    "partitions.list": fixed(),
    "system.status": fixed(),
    "system.doctor": fixed(),
    "system.consistency": fixed(),
    "tokens.create": fixed(scopes=["read"]),
    "tokens.list": fixed(),
    "tokens.revoke": of("token_id", World.token),
    "namespaces.list": fixed(),
    "namespaces.limit": fixed(namespace="walked", max_jobs=5),
    "audit.access": fixed(limit=2),
    "secrets.set": fixed(name="walked", value="walked-value"),
    "secrets.list": fixed(),
    "secrets.delete": of("name", World.secret),
    "secrets.rotate_key": fixed(),
    "quarantine.list": fixed(),
    "quarantine.show": of("record_id", World.unreadable),
    "quarantine.drop": of("record_id", World.unreadable),
    "tokens.whoami": fixed(),
    "ids.find": fixed(kind="job", prefix="k"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(house: Served) -> World:
    """As soon as the projector, which starts with the house, has shown itself."""
    await house.client.jobs.create(name="something", command="true", cron="@yearly")
    async with asyncio.timeout(20):
        while not (await house.client.jobs.list()).items:
            await asyncio.sleep(0.05)
    return World(house)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
async def test_a_method_is_the_same_on_every_way_in(world: World, method: Method[Any, Any]) -> None:
    house, sample = world.house, SAMPLES[method.name]
    answered = json.loads(msgspec.json.encode(await _through_the_client(house, method, await sample(world))))
    plain = await _over_nats(house, method, await sample(world))
    assert _shape(plain) == _shape(answered)
    if method.rest is not None:
        said = await _over_rest(house, method, await sample(world))
        assert _shape(said) == (None if method.rest.status == 204 else _shape(answered))


async def _through_the_client(house: Served, method: Method[Any, Any], fields: Fields) -> Any:
    request = msgspec.json.decode(json.dumps(fields), type=method.request)
    if method.streaming:
        return [answer async for answer in house.client.wire.follow(method, lambda: request)]
    return await house.client.wire.call(method, request)


async def _over_nats(house: Served, method: Method[Any, Any], fields: Fields) -> Any:
    nc = house.nats.nc
    token = {"Authorization": f"Bearer {TOKEN}"}
    if not method.streaming:
        reply = await house.nats.request(
            method.subject, json.dumps(fields).encode(), timeout=10, headers=token
        )
        assert "Nats-Service-Error" not in (reply.headers or {}), reply.data
        return json.loads(reply.data)
    inbox = nc.new_inbox()
    subscription = await nc.subscribe(inbox)
    await nc.publish(method.subject, json.dumps(fields).encode(), reply=inbox, headers=token)
    answers = []
    while (message := await subscription.next_msg(timeout=10)).data:
        assert not message.headers, message.data
        answers.append(json.loads(message.data))
    return answers


async def _over_rest(house: Served, method: Method[Any, Any], fields: Fields) -> Any:
    rest = method.rest
    assert rest is not None
    path = rest.path.format_map(fields)
    left = {name: value for name, value in fields.items() if f"{{{name}}}" not in rest.path}
    if rest.body == "lines":
        answer = await house.http.post(path, content="\n".join(map(json.dumps, left["jobs"])))
    elif rest.body == "bytes":
        answer = await house.http.post(path, content=base64.b64decode(left["data"]))
    elif rest.verb in ("POST", "PUT", "PATCH"):
        answer = await house.http.request(rest.verb, path, json=left)
    else:
        answer = await house.http.request(
            rest.verb, path, params=left, headers={"Accept": "application/json"}
        )
    assert answer.status_code in (rest.status, 200), answer.text
    match rest.answer:
        case "array":
            return {"items": answer.json(), "next_cursor": None}
        case "lines":
            return [json.loads(line) for line in answer.text.splitlines()]
        case "events":
            return [_event(frame) for frame in answer.text.split("\n\n") if frame]
        case "declarations":
            return [{"job_id": one["job_id"], "status": "SCHEDULED"} for one in answer.json()]
        case "text":
            size = int(answer.headers["Waterclock-Log-Size"])
            return [
                {"offset": 0, "next": len(answer.content), "text": answer.text, "last": True, "size": size}
            ]
        case _:
            return answer.json() if answer.content else None


def _event(frame: str) -> Any:
    """Where a stream begins is an id alone: no event, to a browser."""
    fields = dict(line.split(": ", 1) for line in frame.splitlines())
    if "data" in fields:
        return json.loads(fields["data"])
    begins = Change(position=fields["id"], type="position", at=datetime.now(UTC))
    return json.loads(msgspec.json.encode(begins))


def _shape(value: Any) -> Any:
    """The fields of an answer, whatever is in them; of a list only what the elements have in common."""
    match value:
        case dict():
            return {name: _shape(part) for name, part in value.items() if name in _COMPARED}
        case list():
            return [_shape(value[0])] if value and isinstance(value[0], dict) else []
        case _:
            return type(value).__name__ if value is not None else None


_COMPARED = {
    "items", "job_id", "version", "status", "next_run_at", "created", "name", "task", "kind", "run_id", "fires", "time",
    "local", "workflow_id", "workflow_run_id", "epoch", "nodes", "edges", "artifact", "size", "token_id", "scopes",
    "namespace", "backfill_id", "total", "subject", "steps", "checks", "ok", "position", "type", "action", "ids",
}  # fmt: skip
