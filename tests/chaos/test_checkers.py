"""Each checker finds the bug it is for, planted in a history that is otherwise good, and nothing in the good one."""

from collections.abc import Callable

import pytest

from chaos import checkers
from chaos.history import Effect, Held, History, Leftovers, Memory, Outcome, Submitted


def good() -> History:
    """An exactly-once run that crashed once, a handler's, and a schedule with two fires."""
    jobs = [
        Submitted(job_id="once", kind="exactly_once", asked=1.0, accepted=1.1),
        Submitted(job_id="plain", kind="handler", asked=1.0, accepted=1.1),
        Submitted(job_id="every", kind="interval", asked=1.0, accepted=1.1),
        Submitted(job_id="unanswered", kind="handler", asked=1.0),
    ]
    return History(
        submitted=jobs,
        held=[
            Held(run_id="once@1", attempt=1, token=5, began=2.0, ended=2.3),
            Held(run_id="once@1", attempt=1, token=9, began=9.0, ended=9.4),
        ],
        effects=[
            Effect(key="once@1", kind="exactly_once", token=9, taken=True, at=9.4),
            Effect(key="plain@1", kind="handler", token=None, taken=True, at=2.0),
            Effect(key="plain@1", kind="handler", token=None, taken=True, at=3.0),
            Effect(key="every@1", kind="interval", token=None, taken=True, at=2.0),
            Effect(key="every@2", kind="interval", token=None, taken=True, at=3.0),
        ],
        outcomes=[
            Outcome(run_id="once@1", job_id="once", status="SUCCESS"),
            Outcome(run_id="plain@1", job_id="plain", status="SUCCESS"),
            Outcome(run_id="every@1", job_id="every", status="SUCCESS"),
            Outcome(run_id="every@2", job_id="every", status="SUCCESS"),
        ],
        memory=[Memory(process="api", before_mb=60, after_mb=70)],
    )


def lost_job(history: History) -> None:
    history.outcomes = [outcome for outcome in history.outcomes if outcome.job_id != "plain"]
    history.effects = [effect for effect in history.effects if effect.key != "plain@1"]


def run_twice(history: History) -> None:
    """A second run of a job that should have one."""
    history.outcomes.append(Outcome(run_id="plain@2", job_id="plain", status="SUCCESS"))
    history.effects.append(Effect(key="plain@2", kind="handler", token=None, taken=True, at=4.0))


def missed_fire(history: History) -> None:
    history.outcomes[2] = Outcome(run_id="every@1", job_id="every", status="MISSED")
    history.effects = [effect for effect in history.effects if effect.key != "every@1"]


def run_of_nobody(history: History) -> None:
    history.outcomes.append(Outcome(run_id="ghost@1", job_id="ghost", status="CANCELLED"))


def stuck_run(history: History) -> None:
    history.outcomes[3] = Outcome(run_id="every@2", job_id="every", status="RUNNING")


def skipped_fence(history: History) -> None:
    """The second attempt did not wait for the first one's lease."""
    history.held[0].ended = 9.1


def never_ended(history: History) -> None:
    history.held[0].ended = None


def token_reissued(history: History) -> None:
    history.held[1].token = 5


def effect_twice(history: History) -> None:
    history.effects.append(Effect(key="once@1", kind="exactly_once", token=9, taken=True, at=10.0))


def success_without_effect(history: History) -> None:
    history.effects = [effect for effect in history.effects if effect.key != "once@1"]


def effect_of_nobody(history: History) -> None:
    history.effects.append(Effect(key="ghost@1", kind="handler", token=None, taken=True, at=2.0))


def audit_fault(history: History) -> None:
    history.audit = ['{"fault": "decided_twice"}']


def disagreement(history: History) -> None:
    history.disagreements = ['{"about": "once@1", "field": "status"}']


def queue_not_empty(history: History) -> None:
    history.leftovers = Leftovers(queued=1)


def lease_left(history: History) -> None:
    history.leftovers = Leftovers(leases=1)


def slot_left(history: History) -> None:
    history.leftovers = Leftovers(slots=1)


def unacked_delivery(history: History) -> None:
    history.leftovers = Leftovers(unacked=1)


def process_left(history: History) -> None:
    history.leftovers = Leftovers(processes=("executor-1: sleep 60",))


def leak(history: History) -> None:
    history.memory = [Memory(process="api", before_mb=60, after_mb=400)]


PLANTED: list[tuple[Callable[[History], None], str]] = [
    (lost_job, "lost"),
    (run_twice, "lost"),
    (missed_fire, "lost"),
    (run_of_nobody, "invented"),
    (stuck_run, "unended"),
    (skipped_fence, "at_the_same_time"),
    (never_ended, "at_the_same_time"),
    (token_reissued, "tokens_that_fell"),
    (effect_twice, "doubled"),
    (success_without_effect, "effects_unlike_outcomes"),
    (effect_of_nobody, "effects_unlike_outcomes"),
    (audit_fault, "audit_complaints"),
    (disagreement, "doors_disagree"),
    (queue_not_empty, "left_behind"),
    (lease_left, "left_behind"),
    (slot_left, "left_behind"),
    (unacked_delivery, "left_behind"),
    (process_left, "left_behind"),
    (leak, "grown"),
]


def test_a_good_history_is_not_complained_of() -> None:
    assert checkers.judge(good()) == {}


@pytest.mark.parametrize(("plant", "finder"), PLANTED, ids=lambda each: getattr(each, "__name__", each))
def test_a_planted_bug_is_found(plant: Callable[[History], None], finder: str) -> None:
    history = good()
    plant(history)
    assert finder in checkers.judge(history)


def test_every_checker_has_found_something() -> None:
    assert {finder for _, finder in PLANTED} == {check.__name__ for check in checkers.CHECKERS}


def test_repeated_effects_of_at_least_once_jobs_are_counted() -> None:
    assert checkers.run_again(good()) == 1
