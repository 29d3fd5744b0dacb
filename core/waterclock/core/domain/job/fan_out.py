"""What a job or a node is expanded over."""

import re
from typing import Any

from msgspec import UnsetType

from waterclock.core.domain.job.request_fields import said_or
from waterclock.core.domain.job.validate import Problems
from waterclock.proto.commands import DIGEST_PATTERN, FanOutRequest
from waterclock.proto.names import is_user_id
from waterclock.proto.spec import FanOut

LARGEST = 100_000_000

_SHARE = re.compile(r"(?P<percent>\d{1,3}(\.\d{1,6})?)\s*%", re.ASCII)
_DIGEST = re.compile(DIGEST_PATTERN)


def fan_out_of(request: FanOutRequest, upstream: tuple[str, ...] | None, problems: Problems) -> FanOut:
    """`upstream`: the nodes whose output may be expanded; None for a job, which has none."""
    _check_over(request.over, upstream, problems)
    tolerated = 0 if isinstance(request.tolerated_failures, UnsetType) else request.tolerated_failures
    if isinstance(tolerated, str):
        share = _SHARE.fullmatch(tolerated.strip())
        if share is None or float(share["percent"]) > 100:
            problems.add("tolerated_failures", f"{tolerated!r} is neither a count nor a share such as 5%")
    return FanOut(
        over=request.over, max_concurrency=said_or(request.max_concurrency, 100), tolerated_failures=tolerated
    )


def _check_over(over: Any, upstream: tuple[str, ...] | None, problems: Problems) -> None:
    match over:
        case list():
            return
        case {"range": bool()}:
            problems.add("over.range", "must be a number of members")
        case {"range": int() as size, **rest} if not rest:
            if not 0 <= size <= LARGEST:
                problems.add("over.range", f"must be between 0 and {LARGEST}")
        case {"lines": str() as digest, **rest} if not rest:
            if not _DIGEST.fullmatch(digest):
                problems.add("over.lines", "must be sha256: followed by 64 hexadecimal digits")
        case {"from": str() as node, **rest} if not rest and upstream is not None:
            if not is_user_id(node) or node not in upstream:
                problems.add("over.from", f"{node!r} is not among the nodes it depends on")
        case {"from": _, **rest} if not rest and upstream is None:
            problems.add("over.from", "only a workflow's node can expand the output of another")
        case _:
            choices = '[items], {"range": N}, {"lines": "sha256:…"}'
            more = ' or {"from": "node id"}' if upstream is not None else ""
            problems.add("over", f"must be one of {choices}{more}")
