"""The documentation names what is there: no broken link, no page that nobody finds, no file that has moved."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("docs", "proto", "core", "scheduler", "executor", "projector", "api", "bench", "deploy", "tests")
PAGES = sorted(
    str(page.relative_to(ROOT))
    for pages in (ROOT.glob("*.md"), *((ROOT / folder).rglob("*.md") for folder in FOLDERS))
    for page in pages
)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_MAPPED = re.compile(r"`(proto|core|scheduler|executor|projector|api): ([\w./]+)`")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _links(page: str) -> list[str]:
    return _LINK.findall(_FENCED.sub("", (ROOT / page).read_text()))


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    relative = [link.partition("#")[0] for link in _links(page) if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in relative if not ((ROOT / page).parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    linked = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in _links("docs/README.md")}
    pages = [page for page in PAGES if page not in ("docs/README.md", "README.md")]
    assert [page for page in pages if (ROOT / page).resolve() not in linked] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_files_of_the_map_are_there(page: str) -> None:
    named = _MAPPED.findall((ROOT / page).read_text())
    assert len(named) > 10
    paths = [f"{component}/waterclock/{component}/{path}" for component, path in named]
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_tests_and_modules_that_a_page_names_are_there(page: str) -> None:
    """Written out from the root, as in `tests/unit/domain/test_audit.py`."""
    tops = "tests|bench|deploy|docs|proto|core|scheduler|executor|projector|api"
    named = re.findall(rf"`((?:{tops})/[\w./-]+\.(?:py|sql|md|json|conf))`", (ROOT / page).read_text())
    lacking = [path for path in named if not _exists(path) and not ((ROOT / page).parent / path).exists()]
    assert lacking == []


def _exists(path: str) -> bool:
    """`core/domain/run/retry.py` is short for the same under `core/waterclock/core`."""
    component, _, rest = path.partition("/")
    return (ROOT / path).exists() or (ROOT / component / "waterclock" / component / rest).exists()


def test_the_glossary_is_short_enough_to_be_read() -> None:
    terms = re.findall(r"^\| \*\*", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert 20 <= len(terms) <= 30
