"""Where a stream of answers is: what to ask for next, after a break too, and whether it is over."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime

from waterclock.api.client.messages import STREAM_SECONDS
from waterclock.proto.answers import Change, LogChunk
from waterclock.proto.queries import LogQuery, WatchQuery

_REMEMBERED = 2000


class LogPosition:
    """In a run's output; `follow` stays until the run has ended."""

    def __init__(
        self,
        run_id: str,
        *,
        follow: bool,
        attempt: int | None = None,
        tail: int | None = None,
        offset: int = 0,
    ) -> None:
        self.over = False
        self.offset = offset
        """The byte from which on nothing has come yet."""
        self._run_id = run_id
        self._follow = follow
        self._attempt = attempt
        self._tail = tail

    def request(self) -> LogQuery:
        return LogQuery(
            run_id=self._run_id,
            follow=self._follow,
            attempt=self._attempt,
            offset=self.offset,
            tail=self._tail,
            stay_seconds=STREAM_SECONDS,
        )

    def advance(self, chunk: LogChunk) -> bytes:
        self.offset, self.over, self._tail = chunk.next, chunk.last, None
        return chunk.text.encode() if chunk.data is None else chunk.data

    def call_ended(self) -> None:
        self.over = self.over or not self._follow


class WatchPosition:
    """In the changes of a job and its runs, of one run, or of everything."""

    def __init__(
        self,
        *,
        job: str | None = None,
        run: str | None = None,
        workflow_run: str | None = None,
        ids: Sequence[str] = (),
        type: Sequence[str] = (),
        since: datetime | None = None,
        after: str | None = None,
        conflate: str | None = None,
    ) -> None:
        self.over = False
        self._job, self._run, self._type = job, run, tuple(type)
        self._workflow_run, self._ids, self._conflate = workflow_run, tuple(ids), conflate
        self._since = since
        self._after = after
        self._seen = Seen()

    def request(self) -> WatchQuery:
        return WatchQuery(
            job=self._job,
            run=self._run,
            workflow_run=self._workflow_run,
            ids=self._ids,
            type=self._type,
            since=self._since if self._after is None else None,
            after=self._after,
            conflate=self._conflate,
            stay_seconds=STREAM_SECONDS,
        )

    def advance(self, change: Change) -> bool:
        """Whether the change is a new one, and not one that was sent again after a break or only tells the position."""
        self._after, self.over = change.position, change.final
        return change.type != "position" and self._seen.is_new(change)


class Seen:
    """Which changes were seen already: after a break a frame is sent again as a whole."""

    def __init__(self) -> None:
        self._keys: OrderedDict[tuple[object, ...], None] = OrderedDict()

    def is_new(self, change: Change) -> bool:
        """Whether this is the first time; remembers it."""
        key = (change.type, change.job_id, change.run_id, change.at, change.attempt_number)
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _REMEMBERED:
            self._keys.popitem(last=False)
        return True
