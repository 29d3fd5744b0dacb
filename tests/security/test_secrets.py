"""Secrets by reference: who may set them, what jobs get of them, and what nobody gets to see (F7)."""

import asyncio
import secrets as random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest

from integration.api.conftest import Served, house
from support.waiting import eventually
from waterclock.api.client.client import Client
from waterclock.api.errors import Forbidden, Invalid, NotFound
from waterclock.core.jetstream.bucket import Bucket
from waterclock.core.runtime.data_directory import resolved
from waterclock.core.runtime.lifecycle import StopSignal
from waterclock.core.store.secrets import SecretStore
from waterclock.executor import Context, Worker
from waterclock.executor.service import Executor
from waterclock.proto import names
from waterclock.proto.answers import Run

__all__ = ["house"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

VALUE = "canary-5ecret-vAlue/with+odd=signs"


def fresh() -> str:
    return f"secret-{random.token_hex(4)}"


async def ended(house: Served, job_id: str) -> Run:
    async def run() -> Run | None:
        found = (await house.client.jobs.status(job_id)).latest_run
        return found if found and found.status in ("SUCCESS", "FAILED") else None

    return await eventually(run, f"{job_id} to end", within=30)


async def text(house: Served, run: Run) -> str:
    return "".join([piece async for piece in house.client.runs.log(run.run_id)])


@asynccontextmanager
async def as_token(house: Served, *scopes: str, namespace: str = "default") -> AsyncIterator[Client]:
    made = await house.client.tokens.create(scopes=scopes, namespace=namespace)  # type: ignore[arg-type]
    async with Client.connect(house.settings.nats_url, token=made.token) as client:
        yield client


async def test_a_secret_is_set_listed_and_deleted_and_never_shown(house: Served) -> None:
    name = fresh()
    put = await house.http.put(f"/v1/secrets/{name}", json={"value": VALUE})
    assert (put.status_code, put.content) == (204, b"")
    assert (await house.client.secrets.set(name, value=VALUE + "2")).version == 2
    listed = await house.http.get("/v1/secrets")
    [found] = [one for one in listed.json()["items"] if one["name"] == name]
    assert sorted(found) == ["actor", "name", "updated_at", "version"]
    assert (found["version"], found["actor"]) == (2, "token:bootstrap")
    assert VALUE not in listed.text
    gone = await house.http.delete(f"/v1/secrets/{name}")
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await house.http.delete(f"/v1/secrets/{name}")).status_code == 404


@pytest.mark.parametrize("name", ["a.b", "*", ">", "a b", "-a", "x" * 65])
async def test_a_name_that_could_be_another_key_is_refused(house: Served, name: str) -> None:
    with pytest.raises(Invalid, match="name"):
        await house.client.secrets.set(name, value=VALUE)


@pytest.mark.parametrize("value", ["", "abc", "x" * 65_537, "a\0bcd", "é" * 40_000])
async def test_a_value_that_could_not_be_masked_or_given_is_refused_without_showing_it(
    house: Served, value: str
) -> None:
    answer = await house.http.put(f"/v1/secrets/{fresh()}", json={"value": value})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "value"
    assert len(value) < 5 or value not in answer.text


async def test_a_process_gets_it_in_its_environment_and_what_it_says_is_masked(house: Served) -> None:
    name = fresh()
    await house.client.secrets.set(name, value=VALUE)
    script = f'test "${{#PW}}" = {len(VALUE)} || exit 9; tr "\\0" " " </proc/$$/cmdline; echo;'
    script += """echo "it is $PW"; echo "to stderr: $PW" >&2; printf '{"pw": "%s"}\\n' "$PW\""""
    job = await house.client.jobs.create(name="p", command=script, env={"PW": {"secret": name}})
    run = await ended(house, job.job_id)
    said = await text(house, run)
    assert run.status == "SUCCESS", run
    assert run.output == {"pw": "***"}
    assert "it is ***" in said
    assert "to stderr: ***" in said
    assert VALUE not in said
    shown = await house.client.jobs.get(job.job_id)
    assert msgspec.to_builtins(shown.task)["env"] == {"PW": {"secret": name}}


async def test_a_failure_is_masked_too(house: Served) -> None:
    name = fresh()
    await house.client.secrets.set(name, value=VALUE)
    job = await house.client.jobs.create(
        name="p", command='echo "bad password $PW" >&2; exit 3', env={"PW": {"secret": name}}
    )
    run = await ended(house, job.job_id)
    assert (run.status, run.error_message) == ("FAILED", "bad password ***")


async def test_a_value_that_is_set_anew_is_what_the_next_attempt_gets(house: Served) -> None:
    name = fresh()
    for value in ("first-value", "second-value"):
        await house.client.secrets.set(name, value=value)
        job = await house.client.jobs.create(
            name="p", command="printf '%s' \"${#PW}\"", env={"PW": {"secret": name}}
        )
        assert (await ended(house, job.job_id)).output == len(value)


async def test_a_secret_that_is_missing_ends_the_run_with_its_name_and_what_to_do(house: Served) -> None:
    job = await house.client.jobs.create(
        name="p", command="true", env={"PW": {"secret": "nowhere"}}, max_retries=5
    )
    run = await ended(house, job.job_id)
    assert (run.status, run.attempt_number) == ("FAILED", 1)
    assert run.reason is not None
    assert "the secret nowhere is not set in the namespace default" in run.reason
    assert "waterclock secret set nowhere" in run.reason


async def test_a_namespace_has_its_own_and_no_other(house: Served) -> None:
    name = fresh()
    async with as_token(house, "admin", namespace="acme") as acme:
        await house.client.secrets.set(name, value="of-default")
        assert name not in [one.name for one in await acme.secrets.list()]
        with pytest.raises(NotFound):
            await acme.secrets.delete(name)
        job = await acme.jobs.create(name="p", command="true", env={"PW": {"secret": name}})
        run = await ended_of(acme, job.job_id)
        assert run.status == "FAILED"
        assert "namespace acme" in (run.reason or "")
        await acme.secrets.set(name, value="of-acme")
        job = await acme.jobs.create(name="p", command='test "$PW" = of-acme', env={"PW": {"secret": name}})
        assert (await ended_of(acme, job.job_id)).status == "SUCCESS"


async def ended_of(client: Client, job_id: str) -> Run:
    async def run() -> Run | None:
        found = (await client.jobs.status(job_id)).latest_run
        return found if found and found.status in ("SUCCESS", "FAILED") else None

    return await eventually(run, f"{job_id} to end", within=30)


async def test_only_the_scope_secrets_sets_them_and_only_an_administrator_changes_the_key(
    house: Served,
) -> None:
    name = fresh()
    async with as_token(house, "read", "submit", "operate") as others:
        with pytest.raises(Forbidden, match="secrets"):
            await others.secrets.set(name, value=VALUE)
        with pytest.raises(Forbidden, match="secrets"):
            await others.secrets.delete(name)
    async with as_token(house, "secrets") as keeper:
        await keeper.secrets.set(name, value=VALUE)
        with pytest.raises(Forbidden, match="admin"):
            await keeper.secrets.rotate_key()
        await keeper.secrets.delete(name)
    async with as_token(house, "admin", namespace="acme") as tenant:
        with pytest.raises(Forbidden, match="everybody"):
            await tenant.secrets.rotate_key()


async def test_what_the_bucket_holds_is_encrypted_and_not_to_be_passed_off_as_another(house: Served) -> None:
    one, other = fresh(), fresh()
    await house.client.secrets.set(one, value=VALUE)
    await house.client.secrets.set(other, value="something else")
    bucket = Bucket(house.app.connection, house.app.publisher, names.SECRETS)
    stored = await bucket.get(names.secret_key("default", one))
    assert stored is not None
    assert VALUE.encode() not in stored.value
    await bucket.put(names.secret_key("default", other), stored.value)
    job = await house.client.jobs.create(name="p", command="echo $PW", env={"PW": {"secret": other}})
    run = await ended(house, job.job_id)
    assert run.status == "FAILED"
    assert f"the secret {other} cannot be read" in (run.reason or "")
    await bucket.put(names.secret_key("default", other), b"\xffnot a record")
    assert other not in [each.name for each in await house.client.secrets.list()]
    await house.client.secrets.set(other, value=VALUE)  # what is broken is replaced


async def test_workflows_hand_on_what_is_masked(house: Served) -> None:
    name = fresh()
    await house.client.secrets.set(name, value=VALUE)
    nodes: list[dict[str, Any]] = [
        {"id": "a", "command": 'echo "{\\"pw\\": \\"$PW\\"}"', "env": {"PW": {"secret": name}}},
        {
            "id": "b",
            "command": ["sh", "-c", 'printf \'"%s"\' "$1"', "sh", "{{ nodes.a.output.pw }}"],
            "depends_on": ["a"],
        },
    ]
    made = await house.client.workflows.create(name="w", nodes=nodes)
    wave = (await house.client.workflows.run_now(made.workflow_id)).workflow_run_id

    async def done() -> Any:
        found = await house.client.workflows.wave(wave)
        return found if found.status in ("SUCCESS", "FAILED") else None

    outputs = {node.id: node.output for node in (await eventually(done, "the wave", within=30)).nodes}
    assert outputs == {"a": {"pw": "***"}, "b": "***"}


async def test_http_headers_carry_it_and_an_echo_is_masked(house: Served) -> None:
    name = fresh()
    await house.client.secrets.set(name, value=f"Bearer {VALUE}")
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heard.append(head)
        body = b'{"you sent": "' + VALUE.encode() + b'"}'
        writer.write(b"HTTP/1.1 500 Not %s\r\nContent-Type: application/json\r\n" % VALUE.encode())
        writer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    settings = msgspec.structs.replace(house.settings, http_private=True, queue="web")
    async with server, an_executor(settings, []):
        http = {"url": url, "headers": {"Authorization": {"secret": name}}}
        job = await house.client.jobs.create(name="call", http=http, queue="web")
        run = await ended(house, job.job_id)
    assert f"Authorization: Bearer {VALUE}".encode() in heard[0]
    assert run.status == "FAILED"
    assert run.output == {"you sent": "***"}
    assert VALUE not in msgspec.json.encode(run).decode()
    assert VALUE not in await text(house, run)


@asynccontextmanager
async def an_executor(settings: Any, workers: list[Worker]) -> AsyncIterator[None]:
    stop = StopSignal()
    executor = Executor(resolved(settings, "executor"), workers, processes=not workers)
    running = asyncio.create_task(executor.run(stop))
    try:
        await eventually(lambda: executor.taking_work.is_set(), "the executor")
        yield
    finally:
        stop.set()
        await running


def in_a_process(context: Context, payload: str) -> dict[str, int]:
    value = context.secret(payload)
    context.log(f"log: {value}")
    context.progress(0.5, f"note: {value}")
    if payload.endswith("fail"):
        raise RuntimeError("x" * 480 + value)
    return {value: len(value)}


async def test_handlers_ask_for_it_by_name_and_what_they_say_is_masked(house: Served) -> None:
    worker = Worker(queue="secret-handlers")

    @worker.handler("aloop")
    async def aloop(context: Context, payload: str) -> dict[str, int]:
        return in_a_process(context, payload)

    @worker.handler("athread")
    def athread(context: Context, payload: str) -> dict[str, int]:
        return in_a_process(context, payload)

    worker.handler("aprocess", run_in="process")(in_a_process)
    good, bad = fresh(), f"{fresh()}-fail"
    async with an_executor(house.settings, [worker]):
        await house.client.secrets.set(good, value=VALUE)
        await house.client.secrets.set(bad, value=VALUE)
        for handler in ("aloop", "athread", "aprocess"):
            jobs = [
                await house.client.jobs.create(
                    name=handler,
                    handler=handler,
                    payload=name,
                    queue="secret-handlers",
                    max_retries=3,
                    retry={"initial_seconds": 3600},
                )
                for name in (good, bad, "nowhere")
            ]
            run = await ended(house, jobs[0].job_id)
            assert (run.status, run.output) == ("SUCCESS", {"***": len(VALUE)}), handler
            assert await text(house, run) == "log: ***\n"
            missing = await ended(house, jobs[2].job_id)
            assert (missing.status, missing.attempt_number) == ("FAILED", 1), handler
            assert "the secret nowhere is not set" in (missing.reason or "")
            failed = partial(retrying, house, jobs[1].job_id)
            retried = await eventually(failed, f"{handler} to fail", within=30)
            assert VALUE[:8] not in retried, handler


async def retrying(house: Served, job_id: str) -> str | None:
    run = (await house.client.jobs.status(job_id)).latest_run
    if run is None or run.status != "RETRYING":
        return None
    events = await house.http.get(f"/v1/runs/{run.run_id}/events")
    return events.text if "failed" in events.text else None


async def test_secrets_stay_readable_while_their_key_is_changed_and_after_it_was_cut_short(
    house: Served,
) -> None:
    named = {fresh(): f"value-{random.token_hex(8)}" for _ in range(5)}
    for name, value in named.items():
        await house.client.secrets.set(name, value=value)
    before = house.app.secret_keys.read().current
    # As a kill -9 leaves it: the new key is in the file, and only some secrets are encrypted with it.
    keyring = house.app.secret_keys.add()
    store, changed = house.app.secrets, 0
    for secret in (await store.list())[:2]:
        await _encrypt_one(store, secret, keyring)
        changed += 1
    for name, value in named.items():
        assert await SecretStore(_bucket(house), house.app.secret_keys).value("default", name) == value
    total = len(await store.list())
    done = await house.client.secrets.rotate_key()
    assert (done.encrypted, done.secrets) == (total - changed, total)  # it went on, and made no third key
    assert done.key_id == keyring.current
    assert done.former_keys == (before,)
    again = await house.client.secrets.rotate_key()
    assert again.key_id != done.key_id
    assert (again.encrypted, again.former_keys) == (total, (done.key_id,))
    name, value = next(iter(named.items()))
    job = await house.client.jobs.create(
        name="p", command=["sh", "-c", f'test "${{#PW}}" = {len(value)}'], env={"PW": {"secret": name}}
    )
    assert (await ended(house, job.job_id)).status == "SUCCESS"


def _bucket(house: Served) -> Bucket:
    return Bucket(house.app.connection, house.app.publisher, names.SECRETS)


async def _encrypt_one(store: SecretStore, secret: Any, keyring: Any) -> None:
    class Only(SecretStore):
        async def list(self, namespace: str = "*") -> list[Any]:
            return [secret]

    await Only(store._bucket, store._keys).encrypt_anew(keyring)


async def test_no_component_but_api_and_executor_can_read_even_what_is_encrypted(house: Served) -> None:
    from waterclock.core.jetstream.access.permissions import ROLES

    stream = names.kv_stream(names.SECRETS)
    may = {
        role.name
        for role in ROLES
        if not role.everything and any(stream in subject for subject in role.may_publish())
    }
    assert may == {"api", "executor"}
    writes = {
        role.name
        for role in ROLES
        if any(subject.startswith(f"$KV.{names.SECRETS}") for subject in role.may_publish())
    }
    assert writes == {"api"}


async def test_a_value_in_clear_is_taken_with_a_warning(house: Served) -> None:
    answer = await house.http.post(
        "/v1/jobs",
        json={"name": "p", "command": "true", "cron": "@yearly", "env": {"DB_PASSWORD": "hunter2"}},
    )
    assert answer.status_code == 201
    [warning] = answer.json()["warnings"]
    assert "waterclock secret set db-password" in warning
    plain = await house.http.post("/v1/jobs", json={"name": "p", "command": "true", "cron": "@yearly"})
    assert "warnings" not in plain.json()
    changed = await house.http.put(
        f"/v1/jobs/{plain.json()['job_id']}", json={"command": "true", "env": {"TOKEN": "abcdef"}}
    )
    assert "secret set token" in changed.json()["warnings"][0]
