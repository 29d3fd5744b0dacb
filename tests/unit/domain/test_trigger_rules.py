"""Every trigger rule with every combination of two upstream outcomes, spelled out."""

from itertools import product

import pytest

from waterclock.core.domain.workflow.trigger_rules import RULES, Outcome, Upstream, Verdict, decide_node
from waterclock.proto.policies import TriggerRule

OUTCOMES: dict[str, Outcome] = {"S": "success", "F": "failed", "K": "skipped", "B": "blocked"}
VERDICTS: dict[str, Verdict | None] = {"r": "run", "s": "skip", "b": "block", ".": None}

PAIRS = ["SS", "SF", "SK", "SB", "FF", "FK", "FB", "KK", "KB", "BB"]
TABLE: dict[TriggerRule, str] = {
    #                               SS SF SK SB FF FK FB KK KB BB
    "all_success": "                r  b  s  b  b  b  b  s  b  b",
    "all_failed": "                 s  s  s  s  r  s  r  s  s  r",
    "all_done": "                   r  r  r  r  r  r  r  r  r  r",
    "one_success": "                r  r  r  r  b  b  b  s  b  b",
    "one_failed": "                 s  r  s  r  r  r  r  s  r  r",
    "one_done": "                   r  r  r  r  r  r  r  s  s  s",
    "none_failed": "                r  b  r  b  b  b  b  r  b  b",
    "none_failed_min_one_success": "r  b  r  b  b  b  b  s  b  b",
    "none_skipped": "               r  r  s  r  r  s  r  s  s  r",
    "all_skipped": "                s  s  s  s  s  s  s  r  s  s",
    "all_done_min_one_success": "   r  r  r  r  b  b  b  s  b  b",
    "always": "                     r  r  r  r  r  r  r  r  r  r",
}
EARLY: dict[TriggerRule, str] = {
    # with one of two ended:        S  F  K  B
    "all_success": "                .  b  s  b",
    "all_failed": "                 s  .  s  .",
    "all_done": "                   .  .  .  .",
    "one_success": "                r  .  .  .",
    "one_failed": "                 .  r  .  r",
    "one_done": "                   r  r  .  .",
    "none_failed": "                .  b  .  b",
    "none_failed_min_one_success": ".  b  .  b",
    "none_skipped": "               .  .  s  .",
    "all_skipped": "                s  s  .  s",
    "all_done_min_one_success": "   .  .  .  .",
    "always": "                     r  r  r  r",
}


def counted(ends: str, total: int) -> Upstream:
    upstream = Upstream(total=total)
    for end in ends:
        upstream.count(OUTCOMES[end])
    return upstream


@pytest.mark.parametrize(
    ("rule", "pair", "expected"),
    [
        (rule, pair, answer)
        for rule, row in TABLE.items()
        for pair, answer in zip(PAIRS, row.split(), strict=True)
    ],
)
def test_when_both_have_ended(rule: TriggerRule, pair: str, expected: str) -> None:
    assert decide_node(rule, counted(pair, 2)) == VERDICTS[expected]


@pytest.mark.parametrize(
    ("rule", "end", "expected"),
    [
        (rule, end, answer)
        for rule, row in EARLY.items()
        for end, answer in zip("SFKB", row.split(), strict=True)
    ],
)
def test_when_one_of_two_has_ended(rule: TriggerRule, end: str, expected: str) -> None:
    assert decide_node(rule, counted(end, 2)) == VERDICTS[expected]


def test_every_rule_is_in_the_tables() -> None:
    assert set(RULES) == set(TABLE) == set(EARLY)


@pytest.mark.parametrize("rule", RULES)
def test_a_node_without_dependencies_runs(rule: TriggerRule) -> None:
    assert decide_node(rule, Upstream(total=0)) == "run"


@pytest.mark.parametrize("rule", RULES)
def test_what_was_decided_early_to_run_stays_so(rule: TriggerRule) -> None:
    for first, second in product(OUTCOMES, repeat=2):
        early = decide_node(rule, counted(first, 2))
        whole = decide_node(rule, counted(first + second, 2))
        assert whole is not None
        assert (early == "run") <= (whole == "run")
        assert early is None or (early == "run") == (whole == "run"), "a skip or a block is never taken back"
