"""All runs, their attempts, the ends of their logs, what will fire, how it went, and few messages for many changes."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from support.waiting import eventually
from waterclock.api.errors import Invalid, NotFound
from waterclock.proto.answers import Change

from .conftest import Served
from .test_runs import finished, state_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ATTEMPT_FIELDS = """attempt_number status start_time end_time executor_id exit_code error_message cpu_seconds
    memory_bytes log_url"""


async def ran(house: Served, command: str = "true", **fields: Any) -> str:
    given = {"name": "looked at", "command": command, "max_retries": 0, **fields}
    created = await house.client.jobs.create(**given)
    return (await finished(house, created.job_id)).run_id


async def found(house: Served, **filters: Any) -> list[str]:
    """Over REST, all pages, which must be in order and without doubles."""
    runs: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = await house.http.get("/v1/runs", params={**filters, "cursor": cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        runs += page["items"]
        if not (cursor := page["next_cursor"]):
            break
    assert [run["scheduled_time"] for run in runs] == sorted(
        (run["scheduled_time"] for run in runs), reverse=True
    )
    ids = [run["run_id"] for run in runs]
    assert len(set(ids)) == len(ids)
    return ids


async def test_runs_of_all_jobs_are_found_by_any_filter(house: Served) -> None:
    label = {"looked": "for"}
    fine = [await ran(house, labels=label, name=f"fine {number}") for number in range(3)]
    bad = await ran(house, "echo a very particular trouble >&2; exit 3", labels=label)
    slow = await ran(house, "sleep 30", labels={**label, "slow": "yes"}, timeout_seconds=0.2)
    elsewhere = await ran(house, labels={"looked": "elsewhere"})
    newest_first = [slow, bad, *fine[::-1]]
    assert await found(house, label="looked=for") == newest_first
    assert await found(house, label="looked=for", limit=2) == newest_first
    assert await found(house, label=["looked=for", "slow"]) == [slow]
    assert await found(house, label="looked=nowhere") == []
    assert await found(house, label="looked=for", status="FAILED,TIMED_OUT") == [slow, bad]
    assert await found(house, label="looked=for", status=["FAILED", "TIMED_OUT"], limit=1) == [slow, bad]
    assert await found(house, label="looked=for", status="SUCCESS", limit=1) == fine[::-1]
    assert await found(house, label="looked=for", status="SKIPPED,MISSED") == []
    assert await found(house, status="RUNNING,QUEUED,WAITING,RETRYING") == []
    assert await found(house, q="very particular") == [bad]
    assert await found(house, q="FINE 1") == [fine[1]]
    assert await found(house, q=bad) == [bad]
    assert await found(house, q="100%_") == []
    assert await found(house, job=bad.partition("@")[0]) == [bad]
    assert await found(house, job=bad.partition("@")[0], status="SUCCESS") == []
    assert await found(house, job="nobody") == []
    (executor,) = await house.client.fleet.executors()
    mine = {
        "label": "looked=for",
        "queue": "default",
        "executor": executor.executor_id,
        "trigger": "schedule",
    }
    assert await found(house, **mine) == newest_first
    for other in ({"queue": "x"}, {"executor": "x"}, {"trigger": "backfill"}):
        assert await found(house, **{**mine, **other}) == []
    cut = (await house.client.runs.get(bad)).scheduled_time
    assert cut is not None
    assert await found(house, label="looked=for", **{"from": cut.isoformat()}) == [slow, bad]
    assert await found(house, label="looked=for", to=cut.isoformat()) == fine[::-1]
    everything = await found(house, limit=3)
    assert [id for id in everything if id in {*newest_first, elsewhere}] == [elsewhere, *newest_first]
    by_client = [run.run_id async for run in house.client.runs.search_all(label=["looked=for"], limit=2)]
    assert by_client == newest_first
    (run,) = (await house.client.runs.search(q="very particular")).items
    assert (run.job_name, run.labels, run.exit_code) == ("looked at", label, 3)
    shown = (await house.http.get("/v1/runs", params={"q": "very particular"})).json()["items"][0]
    assert "output" not in shown
    assert "payload" not in shown


async def test_what_is_asked_wrongly_is_refused_by_its_field(house: Served) -> None:
    for path, field in (
        ("/v1/runs?status=BROKEN", "status[0]"),
        ("/v1/runs?trigger=x", "trigger"),
        ("/v1/runs?limit=0", "limit"),
        ("/v1/runs?cursor=x", "cursor"),
        ("/v1/runs?from=yesterday", "from"),
        ("/v1/runs?nonsense=1", "nonsense"),
        ("/v1/upcoming?from=2026-01-01T00:00:00Z&to=2026-02-02T00:00:00Z", "to"),
        ("/v1/upcoming?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to"),
        ("/v1/upcoming?tz=Europe/Atlantis", "tz"),
        ("/v1/upcoming?cursor=x", "cursor"),
        ("/v1/stats?step=x", "step"),
        ("/v1/stats?step=90s", "step"),
        ("/v1/stats?by=colour", "by"),
        ("/v1/stats?from=2026-01-01T00:00:00Z&to=2026-06-01T00:00:00Z&step=1m", "step"),
        ("/v1/events?conflate=often", "conflate"),
    ):
        answer = await house.http.get(path)
        assert answer.status_code == 422, (path, answer.text)
        assert [error["field"] for error in answer.json()["errors"]] == [field], path
    for path in ("/v1/upcoming?job=nobody", "/v1/runs/nobody@x/attempts"):
        assert (await house.http.get(path)).status_code == 404


async def test_every_attempt_is_listed_with_what_it_took(house: Served) -> None:
    command = "echo attempt $WATERCLOCK_ATTEMPT; test $WATERCLOCK_ATTEMPT -ge 2"
    run_id = await ran(house, command, max_retries=3, retry={"initial_seconds": 0.1, "jitter": False})
    attempts = (await house.http.get(f"/v1/runs/{run_id}/attempts")).json()
    assert [(each["attempt_number"], each["status"], each["exit_code"]) for each in attempts] == [
        (1, "FAILED", 1),
        (2, "SUCCESS", 0),
    ]
    for number, each in enumerate(attempts, 1):
        assert set(each) == set(ATTEMPT_FIELDS.split())
        assert each["start_time"] <= each["end_time"]
        assert each["cpu_seconds"] > 0
        assert (await house.http.get(each["log_url"])).text == f"attempt {number}\n"
    assert [each.attempt_number for each in await house.client.runs.attempts(run_id)] == [1, 2]
    with pytest.raises(NotFound):
        await house.client.runs.attempts("nobody@x")


async def test_the_end_of_a_long_log_is_read_alone(house: Served) -> None:
    """Of many chunks in the store, those before the end are not asked for."""
    lines = 60_000
    run_id = await ran(house, f"seq -f 'line %.0f of a long log' {lines}")
    log = (await house.http.get(f"/v1/runs/{run_id}/log")).text
    assert log.count("\n") == lines
    url, size = f"/v1/runs/{run_id}/log", len(log)
    tail = await house.http.get(url, params={"tail": 1000, "attempt": 1})
    assert (tail.status_code, tail.text) == (200, log[-1000:])
    assert tail.headers["waterclock-log-size"] == str(size)
    for asked, first, last in (
        ("bytes=-500", size - 500, size),
        ("bytes=300000-300099", 300_000, 300_100),
        (f"bytes={size - 5}-", size - 5, size),
    ):
        part = await house.http.get(url, headers={"Range": asked})
        assert (part.status_code, part.text) == (206, log[first:last]), asked
        assert part.headers["content-range"] == f"bytes {first}-{last - 1}/{size}"
    beyond = await house.http.get(url, headers={"Range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    assert (await house.http.get(url, params={"tail": 10 * size})).text == log
    assert "".join([text async for text in house.client.runs.log(run_id, tail=100)]) == log[-100:]
    record = await house.app.logs._objects.info(f"{run_id}/1")  # type: ignore[attr-defined]
    assert len(record.sequences) == record.chunks > 8
    asked_for: list[str] = []
    api = house.app.connection.api

    async def counted(subject: str, *rest: Any, **more: Any) -> Any:
        asked_for.append(subject)
        return await api(subject, *rest, **more)

    house.app.connection.api = counted  # type: ignore[method-assign]
    try:
        assert (await house.http.get(url, params={"tail": 1000})).text == log[-1000:]
    finally:
        house.app.connection.api = api  # type: ignore[method-assign]
    assert sum("MSG.GET" in subject and "LOGS" in subject for subject in asked_for) < record.chunks


async def test_the_end_of_what_a_running_attempt_says_is_read(house: Served) -> None:
    """More than fits into one message."""
    command = "seq -f 'so far %.0f lines' 100000; sleep 60"
    created = await house.client.jobs.create(name="talks", command=command, max_retries=0)
    run_id = (await eventually(lambda: _only_run(house, created.job_id), "a run")) or ""
    await state_of(house, run_id, "RUNNING")
    url = f"/v1/runs/{run_id}/log"

    async def end() -> str:
        return (await house.http.get(url, params={"tail": 20})).text

    assert await eventually(end, "all it says", wanted=lambda text: text == "so far 100000 lines\n")
    whole = await house.http.get(url)
    assert whole.headers["waterclock-log-size"] == str(len(whole.content))
    assert whole.text.count("\n") == 100_000
    (attempt,) = await house.client.runs.attempts(run_id)
    assert (attempt.status, attempt.end_time, attempt.log_url) == ("RUNNING", None, f"{url}?attempt=1")
    await house.client.runs.cancel(run_id, now=True)
    await state_of(house, run_id, "CANCELLED")
    (attempt,) = await house.client.runs.attempts(run_id)
    assert attempt.status == "CANCELLED"
    assert (attempt.cpu_seconds or 0) > 0


async def _only_run(house: Served, job_id: str) -> str | None:
    runs = (await house.client.runs.list(job_id)).items
    return runs[0].run_id if runs else None


async def test_what_will_fire_is_listed_in_order(house: Served) -> None:
    labels = {"plan": "autumn"}
    create = house.client.jobs.create
    paris = await create(
        name="paris", command="true", cron="30 2 * * *", timezone="Europe/Paris", labels=labels
    )
    hourly = await create(name="hourly", command="true", every="6h", labels=labels)
    once = await create(name="once", command="true", schedule="2027-10-31T01:00:00Z", labels=labels)
    paused = await create(name="paused", command="true", every="1h", labels=labels)
    await house.client.jobs.pause(paused.job_id)
    limited = await create(name="limited", command="true", cron="0 0 * * *", max_fires=400, labels=labels)
    window = {"label": "plan=autumn", "from": "2027-10-30T23:00:00Z", "to": "2027-10-31T13:00:00Z"}
    expected = [
        ("2027-10-31T00:00:00Z", hourly.job_id, None),
        ("2027-10-31T00:00:00Z", limited.job_id, None),
        ("2027-10-31T00:30:00Z", paris.job_id, "dst_overlap"),
        ("2027-10-31T01:00:00Z", once.job_id, None),
        ("2027-10-31T06:00:00Z", hourly.job_id, None),
        ("2027-10-31T12:00:00Z", hourly.job_id, None),
    ]
    expected.sort()

    async def listed(**more: Any) -> list[dict[str, Any]]:
        fires: list[dict[str, Any]] = []
        cursor = ""
        while True:
            answer = await house.http.get("/v1/upcoming", params={**window, **more, "cursor": cursor})
            assert answer.status_code == 200, answer.text
            fires += answer.json()["items"]
            if not (cursor := answer.json()["next_cursor"]):
                return fires

    async def planned() -> bool:
        return len(await listed()) == len(expected)

    await eventually(planned, "the plan")
    for limit in (1, 2, 50):
        fires = await listed(limit=limit)
        assert [(each["time"], each["job_id"], each["note"]) for each in fires] == expected
    by_job = {fire["job_id"]: fire for fire in fires}
    assert by_job[paris.job_id]["local"] == "2027-10-31T02:30:00+02:00"
    assert by_job[paris.job_id]["job_name"] == "paris"
    tokyo = await listed(tz="Asia/Tokyo", job=paris.job_id)
    assert [fire["local"] for fire in tokyo] == ["2027-10-31T09:30:00+09:00"]
    skipped = await house.http.post(
        f"/v1/jobs/{paris.job_id}/skip", json={"scheduled_time": "2027-10-31T00:30:00Z"}
    )
    assert skipped.status_code == 200, skipped.text

    async def marked() -> list[str | None]:
        return [fire["note"] for fire in await listed(limit=2) if fire["job_id"] == paris.job_id]

    await eventually(marked, "the fire to be marked", wanted=lambda notes: notes == ["skipped"])
    soon = {"from": "2027-10-31T00:30:00Z", "to": "2027-10-31T00:31:00Z"}
    alone = (await house.http.get("/v1/upcoming", params={**soon, "label": "plan=autumn"})).json()["items"]
    assert [(fire["job_name"], fire["note"]) for fire in alone] == [("paris", "skipped")]
    by_client = [
        fire.time
        async for fire in house.client.upcoming.all(
            label=["plan=autumn"], start=window["from"], end=window["to"], limit=2
        )
    ]
    assert by_client == [time for time, _, _ in expected]


async def test_how_runs_went_is_counted_as_they_are_listed(house: Served) -> None:
    labels = {"count": "me"}
    for _ in range(3):
        await ran(house, "sleep 0.1", labels=labels)
    batch = [{"name": "batched", "command": "true", "labels": labels} for _ in range(2)]
    for made in await house.client.jobs.create_many(batch):
        assert isinstance(made.job_id, str)
        await finished(house, made.job_id)
    assert len(await found(house, label="count=me")) == 5
    run_id = await ran(house, "exit 1", labels=labels)
    job_id = run_id.partition("@")[0]
    now = datetime.now(UTC)
    span = {"from": (now - timedelta(hours=1)).isoformat(), "to": (now + timedelta(minutes=1)).isoformat()}

    async def stats(**more: Any) -> list[dict[str, Any]]:
        answer = await house.http.get("/v1/stats", params={**span, **more})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["buckets"])

    ended = {}
    for status in ("SUCCESS", "FAILED,TIMED_OUT", "SKIPPED", "CANCELLED"):
        ended[status] = len(await found(house, status=status, limit=1000, **span))
    for more in (
        {},
        {"step": "1m"},
        {"by": "job"},
        {"by": "queue"},
        {"by": "executor"},
        {"by": "label:count"},
    ):
        buckets = await stats(**more)
        sums = [sum(each[name] for each in buckets) for name in ("success", "failed", "skipped", "cancelled")]
        assert sums == list(ended.values()), more
    mine = [each for each in await stats(by="label:count", step="1h") if each["label"] == "me"]
    assert (sum(each["success"] for each in mine), sum(each["failed"] for each in mine)) == (5, 1)
    assert 0.05 < mine[-1]["p95_seconds"] < 5
    assert mine[-1]["lag_p99_seconds"] is not None
    assert [each["failed"] for each in await stats(by="job", step="1m") if each["job"] == job_id] == [1]
    await house.client.runs.retry(run_id)
    await state_of(house, run_id, "FAILED")
    again = await house.client.stats.read(start=span["from"], end=span["to"], by="label:count")
    assert sum(each.failed for each in again.buckets if each.label == "me") == 1
    with pytest.raises(Invalid):
        await house.client.stats.read(by="colour")


async def test_many_changes_come_as_few_messages(house: Served) -> None:
    created = await house.client.jobs.create(name="often", command="true", cron="@yearly", overlap="allow")
    messages: list[dict[str, Any]] = []
    async with house.http.stream("GET", f"/v1/events?ids={created.job_id}&conflate=300ms") as stream:
        lines = stream.aiter_lines()
        async with asyncio.timeout(20):
            first = await anext(lines)
            assert first.startswith("id: ")
            runs = [(await house.client.jobs.run_now(created.job_id)).run_id for _ in range(10)]
            async for line in lines:
                if line.startswith("data: "):
                    messages.append(json.loads(line.removeprefix("data: ")))
                if sum(message["counts"].get("SUCCESS", 0) for message in messages) == len(runs):
                    break
    assert {message["type"] for message in messages} == {"conflated"}
    newest = {change["run_id"]: change["status"] for message in messages for change in message["changes"]}
    assert newest == dict.fromkeys(runs, "SUCCESS")
    times = [datetime.fromisoformat(message["at"]) for message in messages]
    assert all(after - before > timedelta(seconds=0.29) for before, after in pairwise(times))
    resumed = {"Last-Event-ID": first.removeprefix("id: ")}
    async with house.http.stream(
        "GET", f"/v1/events?ids={created.job_id}&conflate=50ms&stay_seconds=1", headers=resumed
    ) as stream:
        again = (await stream.aread()).decode()
    assert all(run_id in again for run_id in runs)
    heard: list[Change] = []
    async with asyncio.timeout(20):
        async for change in house.client.events.watch(
            ids=runs[:1], after=first.removeprefix("id: "), conflate="50ms"
        ):
            heard.append(change)
            if change.counts and change.counts.get("SUCCESS"):
                break
    assert {each.run_id for change in heard for each in change.changes or ()} == {runs[0]}
