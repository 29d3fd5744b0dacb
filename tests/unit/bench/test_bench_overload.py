"""What the overload scenario counts is what happened: the arithmetic, the callers, and what the report says of it."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bench.history import History
from bench.overload.callers import Pace, RestCaller, Tally
from bench.overload.flood import goodput, over_time
from bench.overload.offer import Offer, recurring
from bench.overload.outcomes import Outcomes
from bench.overload.speed import Best, at_speed, speedometer
from bench.overload.watch import GIVEN_UP, TAKEOVERS, Watch
from bench.report import render
from bench.report.overload import TARGETS
from bench.report.plots import write_plots
from bench.rest import Answer, Rest
from bench.result import Figure, Result
from bench.results import Results
from bench.system import System

from support.waiting import eventually

_FIRST = 1_000_000_000.0


def herd(**changes: Any) -> Offer:
    fields: dict[str, Any] = {"first_fire": _FIRST, "last_fire": _FIRST + 20, "every": 5, "kind": "herd"}
    return Offer(data="", begin=0.0, seconds=20, **(fields | changes))


def offer(**changes: Any) -> Offer:
    fields: dict[str, Any] = {"data": "", "begin": time.time(), "seconds": 60.0}
    return Offer(**(fields | changes))


def watch() -> Watch:
    return Watch(cast(System, SimpleNamespace(processes={})))


def page(given_up: int, takeovers: int) -> str:
    return (
        f"# HELP {GIVEN_UP} Partitions given up.\n"
        f'{GIVEN_UP}{{reason="lease"}} {given_up - 1}.0\n'
        f'{GIVEN_UP}{{reason="log"}} 1.0\n'
        f"{TAKEOVERS} {takeovers}.0\n"
    )


class Server:
    """Answers requests with what it was told to, one after the other."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.bodies: list[bytes] = []
        self.keys: list[str | None] = []

    async def ask(self, path: str, body: bytes, *, key: str, kind: str, within: float) -> Answer:
        self.bodies.append(body)
        self.keys.append(key)
        return self._answers.pop(0)


def caller(server: Server, *, patience: float = 60.0) -> RestCaller:
    return RestCaller(Tally(), time.time() + patience, cast(Rest, server), single=False)


ACCEPTED = b'{"line":1,"status":"SCHEDULED","job_id":"a"}\n'
REFUSED = b'{"line":2,"status":503,"title":"Unavailable"}\n'


# -- what is offered ----------------------------------------------------------------------------------------


def test_a_herd_fires_in_every_second_and_each_job_every_few() -> None:
    starts = {herd().job(number, 0.0)["start_at"] for number in range(20)}
    assert len(starts) == 5
    assert [herd().fires(number) for number in range(6)] == [4, 4, 4, 4, 4, 4]
    assert [herd(last_fire=_FIRST + 6).fires(number) for number in range(5)] == [2, 1, 1, 1, 1]


def test_a_spread_job_is_due_at_its_place_and_never_in_the_past() -> None:
    spread = offer(kind="spread", rate=100.0, first_fire=_FIRST)
    assert spread.job(500, _FIRST)["schedule_time"].startswith("2001-09-09T01:46:45")
    assert spread.job(0, _FIRST + 60)["schedule_time"].startswith("2001-09-09T01:47:40")


def test_one_of_ten_schedules_is_of_every_hour() -> None:
    hours = [recurring(number)["cron_expression"].split()[1] for number in range(1_000)]
    assert hours.count("*") == 100


async def test_no_more_is_offered_than_was_asked_for() -> None:
    pace = Pace(offer(count=1_200, batch=500))
    assert [len(batch) async for batch in pace.batches()] == [500, 500, 200]


async def test_nothing_is_offered_when_the_time_is_over() -> None:
    pace = Pace(offer(begin=time.time() - 10, seconds=5.0))
    assert [batch async for batch in pace.batches()] == []


# -- what callers do with their answers ---------------------------------------------------------------------


async def test_a_refused_request_is_sent_again_under_its_key() -> None:
    server = Server(
        Answer(status=503, body=b"", retry_after=0.0), Answer(status=200, body=ACCEPTED, retry_after=None)
    )
    asking = caller(server)
    await asking.call_all(Pace(offer(count=1)))
    assert server.keys[0] == server.keys[1] is not None
    found = asking.tally.answers(1.0)
    assert (found.offered, found.accepted, found.answers_503, found.answers_accepted) == (1, 1, 1, 1)


async def test_only_what_was_refused_of_a_batch_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.overload.callers._AGAIN", 0.0)
    server = Server(
        Answer(status=200, body=ACCEPTED + REFUSED, retry_after=None),
        Answer(status=200, body=ACCEPTED, retry_after=None),
    )
    asking = caller(server)
    await asking.call_all(Pace(offer(count=2)))
    assert [body.count(b"noop") // 2 for body in server.bodies] == [2, 1]
    assert asking.tally.accepted == 2


async def test_who_is_never_accepted_gives_up_and_says_so() -> None:
    server = Server(*[Answer(status=503, body=b"", retry_after=0.05)] * 100)
    asking = caller(server, patience=0.1)
    async with asyncio.timeout(5):
        await asking.call_all(Pace(offer(count=7)))
    found = asking.tally.answers(1.0)
    assert (found.accepted, found.turned_away, found.unanswered) == (0, 7, 0)
    assert found.accepted_p99_ms is None


# -- what is watched ----------------------------------------------------------------------------------------


def test_counts_go_on_when_a_process_was_replaced() -> None:
    watching = watch()
    watching._note("http://a", page(3, 16))
    watching.begin()
    watching._note("http://a", page(5, 18))
    watching._note("http://a", page(1, 16))
    assert (watching.given_up, watching.takeovers) == (3, 18)


def test_a_scheduler_without_the_metric_gave_nothing_up() -> None:
    watching = watch()
    watching._note("http://a", "")
    assert (watching.given_up, watching.takeovers) == (0, 0)


# -- what became of the runs --------------------------------------------------------------------------------


class Database:
    """Has these rows at one moment after the other; the last one stays."""

    def __init__(self, *rows: Any) -> None:
        self._rows = list(rows)

    async def fetchrow(self, *_: Any) -> Any:
        return self._rows.pop(0) if len(self._rows) > 1 else self._rows[0]

    async def fetchval(self, *_: Any) -> int:
        return 0


def outcomes(*rows: Any) -> Outcomes:
    return Outcomes(History(cast(Any, Database(*rows))), since=_FIRST)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment without any change is enough, and there is no pause between two looks."""
    monkeypatch.setattr("bench.overload.outcomes._STUCK", 0.0)
    monkeypatch.setattr("bench.overload.outcomes._POLL", 0.0)


@pytest.mark.usefixtures("impatient")
async def test_definitions_that_still_come_in_are_worth_waiting_for_though_no_run_ends() -> None:
    moments = [(definitions, 7, 7) for definitions in range(10, 30)]
    assert (await outcomes(*moments, (30, 30, 30)).until_ended(30, within=60)).why == "all ended"


@pytest.mark.usefixtures("impatient")
async def test_a_system_that_stands_still_is_not_waited_for() -> None:
    assert (await outcomes((30, 7, 7)).until_ended(30, within=60)).why == "nothing moved"


@pytest.mark.usefixtures("impatient")
async def test_one_that_is_only_slow_is_told_from_one_that_stands_still() -> None:
    moments = [(definitions, 7, 7) for definitions in range(100)]
    assert (await outcomes(*moments).until_ended(30, within=0.0)).why == "time over"


@pytest.mark.parametrize(
    ("accepted", "defined", "done", "missing"),
    [(10, 10, 10, 0), (10, 10, 4, 6), (10, 7, 7, 3), (10, 12, 10, 2), (10, 0, 0, 10)],
)
async def test_missing_is_never_more_than_there_was(
    accepted: int, defined: int, done: int, missing: int
) -> None:
    counts = {"defined": defined, "done": done}
    ends = {"twice": 0, "unsuccessful": 0, "last_end": None}
    assert (await outcomes(counts, ends).of_one_shots(accepted)).missing == missing


# -- what is said -------------------------------------------------------------------------------------------


async def test_the_machine_is_looked_at_on_every_core_and_only_the_asked_time_counts() -> None:
    async with speedometer() as speed:
        await eventually(lambda: len(speed.samples) > 1, "it looks again", within=20)
    assert all(turns > 0 for _, turns in speed.samples)
    speed.samples[:] = [(99.0, 1.0), (100.0, 10.0), (104.0, 30.0), (105.0, 1.0)]
    assert speed.between(100.0, 105.0) == 20.0
    assert speed.between(200.0, 205.0) is None


def test_what_is_done_is_measured_against_what_the_machine_gave() -> None:
    best = Best(1000.0, 40.0)
    assert at_speed(500.0, 20.0, best) == 1.0, "half as much by a machine half as fast"
    assert at_speed(500.0, 40.0, best) == 0.5
    assert at_speed(500.0, None, best) is None
    assert at_speed(500.0, 40.0, Best(1000.0)) is None


def test_goodput_is_told_by_its_worst_window() -> None:
    assert goodput("goodput", [1.0, 0.2, 0.8]) == {"goodput_min": 0.2, "goodput_median": 0.8}
    assert goodput("goodput", []) == {"goodput_min": None, "goodput_median": None}
    assert over_time([1.0, 0.2]) == [(2.5, 1.0), (7.5, 0.2)]


def flooded(name: str, **figures: Figure) -> Result:
    usual: dict[str, Figure] = {"goodput_min": 0.95, "goodput_median": 1.0, "given_up": 0, "missing": 0}
    return Result(name=f"overload/{name}", figures=usual | figures, curve=[(2.5, 1.0), (7.5, 0.95)])


def results(*found: Result) -> Results:
    return Results({result.name: result for result in found})


def verdict(beginning: str, *found: Result) -> str:
    (target,) = (target for target in TARGETS if target.what.startswith(beginning))
    return target.verdict(target.read(results(*found)))


def test_one_flood_that_folds_spoils_the_figure() -> None:
    good, folded = flooded("flood_rest"), flooded("herd", goodput_min=0.3, given_up=16, missing=5)
    assert verdict("goodput", good) == "reached"
    assert verdict("goodput", good, folded) == "**missed by 3.0×**"
    assert verdict("partitions given up", good, folded) == "**missed**"
    assert verdict("runs missing", good, folded) == "**missed**"
    assert verdict("runs missing", good) == "reached"


def test_a_flood_in_which_nothing_ended_at_all_is_told() -> None:
    assert verdict("goodput", flooded("herd", goodput_min=0.0)) == "**missed**"


def test_what_was_not_measured_is_no_success() -> None:
    assert {target.verdict(target.read(results())) for target in TARGETS} == {"not measured"}


def test_the_section_shows_what_is_missing() -> None:
    said = render(results(flooded("flood_nats", missing=165_000, waited_until="nothing moved")))
    assert "missing 165,000, nothing moved" in said
    assert "## Three times too much" in said
    assert "## Three times too much" not in render(results())


def test_a_crowded_machine_is_admitted() -> None:
    assert "took 80 % of a core" in render(results(flooded("herd", others_percent=80.0)))
    assert "of a core while" not in render(results(flooded("herd", others_percent=2.0)))


def test_a_peak_that_a_flood_surpasses_is_no_peak() -> None:
    peak = Result(name="overload/peak", figures={"submit_per_second": 3_216, "others_percent": 0.0})
    assert "peak itself was disturbed" in render(results(peak, flooded("herd", goodput_median=2.7)))
    assert "peak itself was disturbed" not in render(results(peak, flooded("herd", goodput_median=1.02)))


def test_a_run_that_was_given_out_as_missed_is_counted_once() -> None:
    (target,) = (target for target in TARGETS if target.what.startswith("runs missing"))
    assert target.read(results(flooded("herd", missing=16_496, missed=16_496))) == 16_496


def test_goodput_is_drawn_with_its_faults(tmp_path: Path) -> None:
    fault = flooded("kill_nats", fault_at_s=4.0)
    write_plots(results(flooded("herd"), fault, Result(name="overload/peak", figures={})), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"overload.svg", "overload.png"}
    assert "of nats-server" in (tmp_path / "overload.svg").read_text()
