"""The documents in `docs/` are those the code describes."""

from pathlib import Path

import msgspec
import pytest
from jsonschema_rs import ValidationError, validator_for

from waterclock.api.http.openapi import EXAMPLES
from waterclock.api.nats import asyncapi
from waterclock.proto import names
from waterclock.proto.methods import METHODS

DOCS = Path(__file__).parents[3] / "docs"
BUILT = asyncapi.build()


@pytest.mark.parametrize("path", sorted(BUILT))
def test_a_document_is_not_stale(path: str) -> None:
    assert (DOCS / path).read_text() == BUILT[path], "run `python -m waterclock.api.nats.asyncapi`"


@pytest.mark.parametrize("example", EXAMPLES["jobs.create"])
def test_the_schema_for_editors_takes_what_the_service_takes(example: str) -> None:
    validator = validator_for(msgspec.json.decode(BUILT["schemas/job.schema.json"]))
    validator.validate(EXAMPLES["jobs.create"][example])
    with pytest.raises(ValidationError):
        validator.validate({**EXAMPLES["jobs.create"][example], "surprise": 1})


def test_every_method_is_in_the_asyncapi_document() -> None:
    document = asyncapi.asyncapi()
    assert document["channels"]["jobs_create"]["address"] == "waterclock.v1.jobs.create"
    assert len(document["operations"]) == len(METHODS)


def test_the_subjects_of_the_streams_are_those_in_use() -> None:
    addresses = {name: address for name, (address, _) in asyncapi.STREAMS.items()}
    assert addresses["jobs"].format(partition=3, job_id="x") == names.job_subject(3, "x")
    assert addresses["runs"].format(partition=3) == names.runs_subject(3)
    fields = {"route": "default", "tier": "light", "line": "p30", "run_id": "x@now", "queued": 7}
    assert addresses["work"].format_map(fields) == names.work_subject("default", "light", "p30", "x@now", 7)


def test_refusals_and_servers_are_described() -> None:
    document = asyncapi.asyncapi()
    assert document["servers"]["nats"]["protocol"] == "nats"
    assert document["components"]["messages"]["problem"]["contentType"] == "application/problem+json"
    for operation in document["operations"].values():
        replies = [message["$ref"].rpartition("/")[2] for message in operation["reply"]["messages"]]
        assert replies == ["answer", "problem"]
    assert b"schema.json" not in asyncapi.document(), "it is served, without files beside it"


def test_a_discriminator_is_a_name() -> None:
    def discriminators(value: object) -> list[object]:
        if isinstance(value, dict):
            own = [value["discriminator"]] if "discriminator" in value else []
            return own + [found for part in value.values() for found in discriminators(part)]
        return [found for part in value for found in discriminators(part)] if isinstance(value, list) else []

    found = discriminators(asyncapi.asyncapi())
    assert found
    assert all(isinstance(one, str) for one in found)
