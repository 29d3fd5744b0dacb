"""What croniter, cronsim, robfig, Temporal and Airflow fire is what we fire, or a choice of docs/schedules.md."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from waterclock.core.domain.instants import instant_of, rfc3339
from waterclock.core.domain.job.parse import define_schedule, read_preview
from waterclock.core.domain.job.validate import InvalidDefinition
from waterclock.core.domain.schedule.fires import compile

HERE = Path(__file__).parent / "cron_vectors"
PAGE = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text()
SOURCES = sorted(file.stem for file in HERE.glob("*.jsonl"))
Vector = dict[str, Any]


def vectors(source: str) -> list[Vector]:
    return [json.loads(line) for line in (HERE / f"{source}.jsonl").read_text().splitlines()]


def fires(fields: Vector, after: str, n: int) -> list[str]:
    schedule = define_schedule(read_preview(fields), 0)
    compiled, at, found = compile(schedule, "job"), instant_of(datetime.fromisoformat(after)), list[str]()
    while len(found) < n and (fire := compiled.after(at)) is not None:
        found.append(rfc3339(fire.scheduled))
        at = fire.scheduled
    return found


def fields_of(vector: Vector) -> Vector:
    return {"cron": vector["expression"], **({"timezone": vector["zone"]} if vector["zone"] else {})}


def as_theirs(vector: Vector) -> Vector | None:
    """The fields that give their answer, where we do otherwise on purpose; None where none do."""
    fields = fields_of(vector)
    match vector["choice"]:
        case "repeated":
            return {**fields, "dst_overlap": "both"}
        case "left_out":
            return {**fields, "dst_gap": "skip"}
        case "starred_day":
            *others, weekday = vector["expression"].split()
            return {**fields, "cron": " ".join([*others, f"+{weekday}"])}
        case "anchor":
            return {**fields, "start_at": vector["after"]}
        case "second_pass":
            return None
        case unknown:
            raise AssertionError(unknown)


@pytest.mark.parametrize("source", SOURCES)
def test_we_fire_when_they_do(source: str) -> None:
    checked = 0
    for vector in vectors(source):
        if "choice" in vector or "fires" not in vector:
            continue
        assert fires(fields_of(vector), vector["after"], len(vector["fires"])) == vector["fires"], vector
        checked += 1
    assert checked > 10


@pytest.mark.parametrize("source", SOURCES)
def test_we_do_not_fire_when_they_do_not(source: str) -> None:
    for vector in vectors(source):
        if "not_at" in vector:
            assert fires(fields_of(vector), vector["after"], 1) != [vector["not_at"]], vector
        if "refused" in vector:
            with pytest.raises(InvalidDefinition):
                define_schedule(read_preview(fields_of(vector)), 0)


@pytest.mark.parametrize("source", SOURCES)
def test_a_difference_is_a_choice_that_a_setting_takes_back(source: str) -> None:
    for vector in vectors(source):
        if "choice" not in vector:
            continue
        n = len(vector["fires"])
        ours = fires(fields_of(vector), vector["after"], n)
        assert ours != vector["fires"], vector
        theirs = as_theirs(vector)
        if theirs is None:
            assert ours == vector["ours"], vector
        else:
            assert fires(theirs, vector["after"], n) == vector["fires"], vector


def test_every_choice_is_told() -> None:
    told = PAGE.partition("## Beside other crons")[2]
    choices = {vector["choice"] for source in SOURCES for vector in vectors(source) if "choice" in vector}
    assert choices
    for choice in choices:
        assert f"| {choice.replace('_', ' ')} |" in told, choice
