"""The arithmetic of a fan-out: over what, how many, and when enough have failed."""

from typing import Any

from msgspec import Struct

from waterclock.core.domain.workflow.conditions import Unusable, failing_alone
from waterclock.proto.spec import FanOut


class Listed(Struct, frozen=True):
    items: list[Any]

    def __len__(self) -> int:
        return len(self.items)


class Counted(Struct, frozen=True):
    """0, 1, 2, …"""

    size: int

    def __len__(self) -> int:
        return self.size


class Lines(Struct, frozen=True):
    """The lines of an artifact: read bit by bit, by whoever can."""

    artifact: str


Source = Listed | Counted | Lines


@failing_alone
def source_of(expansion: FanOut, output: Any = None) -> Source:
    """`output`: what the node gave that the expansion is `from`. Raises Unusable."""
    match expansion.over:
        case list() | tuple() as items:
            return Listed(list(items))
        case {"range": int() as size}:
            return Counted(size)
        case {"lines": str() as artifact}:
            return Lines(artifact)
        case {"from": node}:
            return _given(output, node)
        case _:
            raise Unusable("there is nothing to expand over")


def _given(output: Any, node: str) -> Source:
    match output:
        case list():
            return Listed(output)
        case {"results": list() as results}:
            return Listed(results)
        case {"artifact": str() as artifact}:
            return Lines(artifact)
        case _:
            raise Unusable(f"the output of '{node}' is not a list")


def tolerated(expansion: FanOut, total: int) -> int:
    """How many members may fail."""
    share = expansion.tolerated_failures
    if isinstance(share, int):
        return share
    return int(total * float(share.strip().removesuffix("%")) / 100)
