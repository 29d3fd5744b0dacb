"""One flood: a crowd offers, the system is watched, and every run is accounted for, in bounded time."""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct

from bench.overload.offer import Answers, Offer
from bench.overload.outcomes import WINDOW, Account, Outcomes, Wait
from bench.overload.speed import Best, Speedometer, at_speed, speedometer
from bench.overload.watch import Watch, watched
from bench.result import Figure, Result
from bench.system import ROOT, System

TIMES = 3
"""How many times its own rate the system is offered."""
_LEAD = 2.0
"""Seconds until the first call: the process of the callers has to start."""
_SLACK = 60.0

Meanwhile = Callable[[float], Awaitable[None]]
"""What is done to the system during a flood that begins at a moment."""


class Flood(Struct, frozen=True, kw_only=True):
    """What a flood left behind."""

    begin: float
    seconds: float
    peak: Best
    answers: Answers
    account: Account
    wait: Wait
    windows: list[float]
    watch: Watch
    speed: Speedometer
    others_percent: float

    @property
    def ratios(self) -> list[float]:
        return [round(rate / self.peak.per_second, 3) for rate in self.windows]

    @property
    def ratios_at_speed(self) -> list[float]:
        """Had the machine been as fast in each window as when the peak was measured."""
        starts = [self.begin + number * WINDOW for number in range(len(self.windows))]
        speeds = [self.speed.between(start, start + WINDOW) for start in starts]
        found = (at_speed(rate, speed, self.peak) for rate, speed in zip(self.windows, speeds, strict=True))
        return [ratio for ratio in found if ratio is not None]

    def _postgres_behind(self) -> float | None:
        """Seconds from the last end until Postgres had all; nothing if it never had."""
        if self.wait.why != "all ended":
            return None
        return round(max(0.0, self.wait.at - self.account.last_end), 1)

    def figures(self) -> dict[str, Figure]:
        answers, account = self.answers, self.account
        return {
            "seconds": round(self.seconds),
            "peak_per_second": round(self.peak.per_second),
            "offered_to_peak": round(answers.offered / self.seconds / self.peak.per_second, 2),
            **goodput("goodput", self.ratios),
            **goodput("at_speed", self.ratios_at_speed),
            "given_up": self.watch.given_up,
            "takeovers": self.watch.takeovers,
            "scheduler_mb": self.watch.peak_mb("scheduler"),
            "nats_mb": self.watch.peak_mb("nats"),
            "accepted": answers.accepted,
            **answer_figures(answers),
            "drain_s": round(max(0.0, account.last_end - self.begin - self.seconds), 1),
            "postgres_behind_s": self._postgres_behind(),
            "waited_until": self.wait.why,
            "missing": account.missing,
            "twice": account.twice,
            "missed": account.missed,
            "unsuccessful": account.unsuccessful,
            "others_percent": self.others_percent,
        }

    def result(self, name: str, **more: Figure) -> Result:
        return Result(name=f"overload/{name}", figures=self.figures() | more, curve=over_time(self.ratios))


async def flood(
    system: System,
    offer: Offer,
    peak: Best,
    *,
    meanwhile: Meanwhile | None = None,
    namespace: str = "default",
) -> Flood:
    """Offer jobs; then wait until all that is due of them has run, or until it is clear that some will not."""
    outcomes = Outcomes(system.history, since=offer.begin - 0.5, namespace=namespace)
    async with watched(system) as watch, speedometer() as speed:
        task = asyncio.create_task(_meanwhile(meanwhile, offer.begin))
        try:
            answers = await offered(offer)
            await asyncio.sleep(max(0.0, offer.last_fire - time.time()))
            others = watch.others_percent()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        expected = offer.runs(answers.accepted)
        wait = await outcomes.until_ended(expected, within=_drain_limit(offer.due_seconds))
        if offer.kind == "herd":
            account = await outcomes.of_fires(expected)
        else:
            account = await outcomes.of_one_shots(expected)
    since_due = Outcomes(system.history, since=offer.first_due, namespace=namespace)
    return Flood(
        begin=offer.first_due,
        seconds=offer.due_seconds,
        peak=peak,
        answers=answers,
        account=account,
        wait=wait,
        windows=await since_due.windows(offer.due_seconds),
        watch=watch,
        speed=speed,
        others_percent=others,
    )


def soon(lead: float = _LEAD) -> float:
    return time.time() + lead


def _drain_limit(seconds: float) -> float:
    """Twice what the backlog of three times the peak takes at the peak, and some."""
    return 2 * (TIMES - 1) * seconds + _SLACK


async def offered(offer: Offer) -> Answers:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.overload.callers",
        msgspec.json.encode(offer).decode(),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    within = max(0.0, offer.begin - time.time()) + offer.seconds + offer.patience + _SLACK
    try:
        said, _ = await asyncio.wait_for(process.communicate(), within)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"the callers ended with {process.returncode}")
    return msgspec.json.decode(said, type=Answers)


def goodput(name: str, ratios: list[float]) -> dict[str, Figure]:
    """What was done in each window, against the peak."""
    return {
        f"{name}_min": min(ratios, default=None),
        f"{name}_median": round(statistics.median(ratios), 3) if ratios else None,
    }


def answer_figures(answers: Answers) -> dict[str, Figure]:
    return {
        "answers_accepted": answers.answers_accepted,
        "answers_503": answers.answers_503,
        "answers_other": answers.answers_other,
        "others": ", ".join(f"{said}: {count}" for said, count in answers.others.items()) or None,
        "turned_away": answers.turned_away,
        "unanswered": answers.unanswered,
        "accepted_p50_ms": answers.accepted_p50_ms,
        "accepted_p99_ms": answers.accepted_p99_ms,
    }


def over_time(ratios: list[float]) -> list[tuple[float, float]]:
    """(seconds, share of the peak): each window at its middle."""
    return [(number * WINDOW + WINDOW / 2, ratio) for number, ratio in enumerate(ratios)]


async def _meanwhile(what: Meanwhile | None, begin: float) -> None:
    if what is not None:
        await what(begin)
