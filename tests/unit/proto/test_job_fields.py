"""The table of a job's fields: what derives from it, and what has to repeat a part of it, agree."""

from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec import Struct

from waterclock.proto import answers, field_reference
from waterclock.proto.fields import rows
from waterclock.proto.policies import (
    CatchUp,
    CatchUpRequest,
    Limits,
    LimitsRequest,
    Retention,
    RetentionRequest,
    Retry,
    RetryRequest,
)
from waterclock.proto.spec import (
    JobFields,
    JobRequest,
    JobSpec,
    Node,
    NodeRequest,
    PreviewRequest,
    Schedule,
    Shell,
)

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "job-fields.md"


def types(kind: type[Struct]) -> dict[str, Any]:
    """Bounds included, descriptions not."""
    return {
        name: get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
        for name, hint in get_type_hints(kind, include_extras=True).items()
    }


def test_the_reference_is_not_stale() -> None:
    assert PAGE.read_text() == field_reference.page(), (
        "run `python -m waterclock.proto.field_reference > docs/reference/job-fields.md`"
    )


def test_every_field_of_a_request_says_what_it_is() -> None:
    assert [row.name for row in rows(JobRequest) if not row.help] == []


def test_flags_are_unique() -> None:
    flags = [row.flag.name for row in rows(JobRequest) if row.flag is not None]
    assert len(flags) == len(set(flags)) > 20


@pytest.mark.parametrize(("stored", "request_kind"), [(JobFields, JobRequest), (Node, NodeRequest)])
def test_what_is_stored_can_be_said(stored: type[Struct], request_kind: type[Struct]) -> None:
    assert set(stored.__struct_fields__) - {"task"} <= set(request_kind.__struct_fields__)


def test_a_job_shows_all_that_its_definition_holds() -> None:
    held = {*JobSpec.__struct_fields__, *Schedule.__struct_fields__} - {"schedule"}
    assert held <= set(answers.Job.__struct_fields__)
    shown, schedule = types(answers.Job), types(Schedule)
    assert {name: shown[name] for name in schedule if name != "cron_expression"} == {
        name: kind for name, kind in schedule.items() if name != "cron_expression"
    }


def test_a_preview_takes_the_schedule_of_a_job() -> None:
    job, preview = types(JobRequest), types(PreviewRequest)
    shared = [name for name in preview if name not in ("start", "n")]
    assert {name: preview[name] for name in shared} == {name: job[name] for name in shared}
    assert set(Schedule.__struct_fields__) <= set(preview)


def test_only_defaults_are_left_out_of_the_log_and_none_out_of_an_answer() -> None:
    spec = JobSpec(name="a", task=Shell(command="true"))
    assert msgspec.json.decode(msgspec.json.encode(spec)) == {
        "name": "a",
        "task": {"kind": "shell", "command": "true"},
    }
    assert list(msgspec.json.decode(msgspec.json.encode(answers.RetryPolicy()))) == list(
        Retry.__struct_fields__
    )


@pytest.mark.parametrize(
    ("stored", "request_kind"),
    [
        (CatchUp, CatchUpRequest),
        (Retry, RetryRequest),
        (Retention, RetentionRequest),
        (Limits, LimitsRequest),
    ],
)
def test_a_nested_request_has_the_fields_of_what_is_stored(
    stored: type[Struct], request_kind: type[Struct]
) -> None:
    assert request_kind.__struct_fields__ == stored.__struct_fields__
