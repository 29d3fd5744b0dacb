"""What looks like a secret and stands in clear is told, with the better way; nothing else is."""

from typing import Any

import pytest

from waterclock.core.domain.job.clear_secrets import clear_secrets, is_telling
from waterclock.core.domain.job.parse import InvalidDefinition, define_body
from waterclock.core.domain.workflow.template import render_task
from waterclock.proto.policies import SecretRef
from waterclock.proto.spec import Http, JobSpec, Shell

NOW = 1_800_000_000_000_000


def spec(**fields: Any) -> JobSpec:
    return define_body({"name": "a", **fields}, NOW)


@pytest.mark.parametrize(
    "name",
    [
        "PASSWORD",
        "DB_PASSWORD",
        "api_token",
        "AWS_SECRET_ACCESS_KEY",
        "apiKey",
        "X-Auth-Token",
        "Authorization",
    ],
)
def test_these_look_like_secrets(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize(
    "name", ["PATH", "KEYBOARD", "TOKENIZER", "SSH_KEY_FILE", "AWS_ACCESS_KEY_ID", "MONKEY", ""]
)
def test_these_do_not(name: str) -> None:
    assert not is_telling(name)


def test_a_password_in_clear_gets_a_warning_that_names_the_better_way() -> None:
    [warning] = clear_secrets(spec(command="x", env={"DB_PASSWORD": "hunter2", "MODE": "fast"}))
    assert "env.DB_PASSWORD" in warning
    assert "waterclock secret set db-password" in warning
    assert '{"DB_PASSWORD": {"secret": "db-password"}}' in warning
    assert "hunter2" not in warning


def test_headers_and_nodes_count_too() -> None:
    http = {"url": "https://a.example", "headers": {"Authorization": "Bearer x"}}
    assert clear_secrets(spec(http=http))[0].startswith("http.headers.Authorization")
    nodes = [{"id": "a", "command": "true"}, {"id": "b", "command": "true", "env": {"TOKEN": "abc"}}]
    assert clear_secrets(spec(nodes=nodes))[0].startswith("nodes[1].env.TOKEN")


def test_secrets_by_name_empty_values_and_templates_do_not() -> None:
    env = {"TOKEN": {"secret": "t"}, "PASSWORD": "", "KEY": "{{ parameters.key }}"}
    assert clear_secrets(spec(command="x", env=env)) == ()


def test_a_secret_is_named_in_env_and_headers() -> None:
    task = spec(command="x", env={"PW": {"secret": "db-password"}}).task
    assert isinstance(task, Shell)
    assert task.env == {"PW": SecretRef(secret="db-password")}
    call = spec(http={"url": "https://a.example", "headers": {"Authorization": {"secret": "t"}}}).task
    assert isinstance(call, Http)
    assert call.headers == {"Authorization": SecretRef(secret="t")}


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", "{{ parameters.x }}", "x" * 65])
def test_its_name_is_checked(name: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        spec(command="x", env={"PW": {"secret": name}})
    assert "env" in refused.value.errors[0].field


def test_more_than_a_name_is_refused() -> None:
    with pytest.raises(InvalidDefinition):
        spec(command="x", env={"PW": {"secret": "a", "value": "b"}})


def test_templates_leave_it_alone() -> None:
    task = spec(
        command="echo {{ parameters.x }}", env={"PW": {"secret": "parameters"}, "A": "{{ parameters.x }}"}
    ).task
    assert isinstance(task, Shell)
    filled = render_task(task, {"parameters": {"x": "1"}})
    assert isinstance(filled, Shell)
    assert filled.env["PW"] == SecretRef(secret="parameters")
    assert filled.env["A"] == "1"
