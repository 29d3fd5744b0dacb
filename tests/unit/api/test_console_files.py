"""The console's files: what is vendored is what it says, and what is loaded first is what the shell names."""

import hashlib
import json
import re
from pathlib import Path

from waterclock.api.console import files

BROWSER = Path(files.__file__).parent / "browser"
OWN = [path for path in BROWSER.rglob("*.js") if path.parent.name != "vendor"]


def test_what_is_vendored_is_what_it_says() -> None:
    listed = json.loads((BROWSER / "vendor" / "vendor.json").read_text())["files"]
    there = {path.name for path in (BROWSER / "vendor").iterdir() if path.suffix in (".js", ".css")}
    assert {entry["file"] for entry in listed} == there
    for entry in listed:
        found = hashlib.sha256((BROWSER / "vendor" / entry["file"]).read_bytes()).hexdigest()
        assert found == entry["sha256"], entry["file"]


def test_what_the_shell_fetches_first_is_what_the_first_page_imports() -> None:
    needed, unread = set(), ["app.js"]
    while unread:
        name = unread.pop()
        if name not in needed:
            needed.add(name)
            unread += _imported_by(name)
    assert needed == set(files.FIRST_LOAD)
    assert len(needed) <= 12


def _imported_by(name: str) -> list[str]:
    if name.startswith("vendor/"):
        return []
    module = BROWSER / name
    found = re.findall(r'^import [^;]*?from "(\..*?)";', module.read_text(), re.M)
    return [module.parent.joinpath(one).resolve().relative_to(BROWSER).as_posix() for one in found]


def test_all_of_it_is_small() -> None:
    assert sum(len(file.packed) for file in files.files().values()) <= 150_000


def test_no_module_makes_markup_of_text() -> None:
    for path in OWN:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|https?://",
            path.read_text(),
        ), path


def test_the_digest_is_in_every_address_of_the_shell() -> None:
    addresses = re.findall(r'(?:href|src)="(.*?)"', files.shell())
    assert addresses
    for address in addresses:
        assert address.startswith(f"/assets/{files.digest()}/")
        assert address.removeprefix(f"/assets/{files.digest()}/") in files.files()
