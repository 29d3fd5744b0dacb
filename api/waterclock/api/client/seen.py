"""Which changes were seen already: after a break a frame comes again as a whole."""

from collections import OrderedDict

from waterclock.proto.answers import Change

_REMEMBERED = 2000


class Seen:
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
