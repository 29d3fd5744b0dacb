"""docs/reference/settings.md is made from the struct: it names every setting, and is current."""

import pytest

from waterclock.api.cli.settings_reference import PAGE, Setting, page, settings
from waterclock.core.runtime.settings import Settings


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run `python -m waterclock.api.cli.settings_reference`"


def test_no_setting_is_missing() -> None:
    assert [setting.name for setting in settings()] == list(Settings.__struct_fields__)


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.name)
def test_every_setting_has_a_section_and_says_what_it_does(setting: Setting) -> None:
    assert setting.section
    assert setting.help.endswith(".")
    assert f"`{setting.name}`" in page()


def test_defaults_and_flags_are_shown() -> None:
    text = page()
    assert "| `port` | `WATERCLOCK_PORT` | `8080` |" in text
    assert "`--port` of `up`, `api`." in text
