"""Listings: once, or watched as they change."""

import os
import select
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from waterclock.api.cli.output import dumb, note, print_json
from waterclock.api.errors import Unavailable, Unreachable
from waterclock.proto.answers import Page

T = TypeVar("T")
Source = Callable[[], Page[T]]

_SECONDS_BETWEEN = 1.0
_CLEAR = "\x1b[H\x1b[2J"

_encode = msgspec.json.Encoder().encode


class Listing(Struct, Generic[T], frozen=True, kw_only=True):
    key: Callable[[T], Hashable]
    """What identifies an item, to find it again when the listing is read anew."""
    text: Callable[[Sequence[T]], str]
    """For people."""

    def show(self, source: Source[T], *, json: bool, watch: bool) -> None:
        if watch:
            self._watch(source, json=json)
            return
        page = source()
        if json:
            print_json(page)
            return
        print(self.text(page.items))
        if page.next_cursor:
            note(f"there are more: --cursor {page.next_cursor}")

    def _watch(self, source: Source[T], *, json: bool) -> None:
        """Until Ctrl-C, or until nobody reads any more. A terminal shows how things are, a pipe what has changed."""
        known: dict[Hashable, bytes] | None = None
        away = False
        page: Page[T] | None = source()
        try:
            while True:
                if page is not None:
                    found = {self.key(item): item for item in page.items}
                    self._print(found, known, json=json)
                    known = {key: _encode(item) for key, item in found.items()}
                if not _still_read(_SECONDS_BETWEEN):
                    return
                page, was_away = _read(source), away
                away = page is None
                if away and not was_away:
                    note("waterclock: out of reach; watching on")
        except KeyboardInterrupt:
            return
        except BrokenPipeError:
            # So that flushing what is left at the exit does not fail once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _print(self, found: dict[Hashable, T], known: dict[Hashable, bytes] | None, *, json: bool) -> None:
        if not json and (known is None or sys.stdout.isatty()):
            before = _CLEAR if sys.stdout.isatty() and not dumb() else ""
            print(f"{before}{self.text(list(found.values()))}", flush=True)
            return
        known = known or {}
        changed = {key: item for key, item in found.items() if known.get(key) != _encode(item)}
        if json:
            for key, item in changed.items():
                _line("changed" if key in known else "added", _encode(item))
            for key in known.keys() - found.keys():
                _line("removed", known[key])
        elif changed:
            _, _, rows = self.text(list(changed.values())).partition("\n")
            if rows:
                print(rows)
        sys.stdout.flush()


def _line(change: str, item: bytes) -> None:
    print(_encode({"change": change, "item": msgspec.Raw(item)}).decode())


def _read(source: Source[T]) -> Page[T] | None:
    try:
        return source()
    except (Unreachable, Unavailable):
        return None


def _still_read(seconds: float) -> bool:
    """Waits; False as soon as whoever read our output has gone."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return not poll.poll(seconds * 1000)
