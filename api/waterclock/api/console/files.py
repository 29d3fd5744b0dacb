"""What the browser loads: modules and styles of this package under a path that names their content, packed once.

A browser keeps them for ever, since other content has another path. The shell, which names that path, is asked for
every time.
"""

import gzip
from functools import cache
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

_ROOT = Path(__file__).parent / "browser"
_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
FIRST_LOAD = (
    "app.js",
    "vendor/preact.js",
    "lib/router.js",
    "lib/api.js",
    "lib/live.js",
    "lib/store.js",
    "lib/format.js",
    "parts/shell.js",
    "parts/parts.js",
    "parts/dialogs.js",
    "parts/bars.js",
    "pages/overview.js",
)
"""Modules that every page needs, and those of the first one: fetched at once, not one after another."""


class File(Struct, frozen=True):
    media_type: str
    content: bytes
    packed: bytes


@cache
def files() -> dict[str, File]:
    """By their path below `/assets/<digest>/`."""
    return {
        path.relative_to(_ROOT).as_posix(): _file(path)
        for path in sorted(_ROOT.rglob("*"))
        if path.suffix in _TYPES and path.name != "tsconfig.json"
    }


def _file(path: Path) -> File:
    content = path.read_bytes()
    return File(_TYPES[path.suffix], content, gzip.compress(content, 9, mtime=0))


@cache
def digest() -> str:
    whole = sha256((_ROOT / "shell.html").read_bytes())
    for name, file in files().items():
        whole.update(name.encode() + b"\0" + file.content)
    return whole.hexdigest()[:16]


@cache
def shell() -> str:
    """The one page there is: every address below `/ui/` is it."""
    base = f"/assets/{digest()}"
    preloads = "".join(f'<link rel="modulepreload" href="{base}/{name}">' for name in FIRST_LOAD)
    text = (_ROOT / "shell.html").read_text()
    return text.replace("<!--preloads-->", preloads).replace("{{base}}", base)
