"""What this process has exchanged with JetStream. Plain numbers: `core.runtime.metrics` shows them."""

from collections import Counter


class Traffic:
    def __init__(self) -> None:
        self.published = 0
        """Messages acknowledged by a stream; a batch counts as its messages."""
        self.work = 0
        """Work messages sent; acknowledged in bulk."""
        self.repeated = 0
        """Publishes sent again because the answer was lost."""
        self.refused: Counter[str] = Counter()
        """Publishes a stream refused, by the kind of refusal: lost comparisons, duplicates, full streams."""
        self.pulled: Counter[str] = Counter()
        """Messages taken, by stream."""


TRAFFIC = Traffic()
