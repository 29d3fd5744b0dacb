"""How long to wait before a child that ended is started again."""

FIRST = 0.1
LONGEST = 5.0
STABLE = 10.0


class Backoff:
    """Doubles with every early end; one that lived for a while is forgiven."""

    def __init__(self, *, first: float = FIRST, longest: float = LONGEST, stable: float = STABLE) -> None:
        self._first = first
        self._longest = longest
        self._stable = stable
        self._next = first

    def after(self, lived: float) -> float:
        if lived >= self._stable:
            self._next = self._first
        wait = self._next
        self._next = min(wait * 2, self._longest)
        return wait
