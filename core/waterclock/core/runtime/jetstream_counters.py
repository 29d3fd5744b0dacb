"""How many messages this process has exchanged with JetStream: counted in `core.jetstream`, shown by `metrics`.

A module of its own, since `metrics` loads prometheus_client, which takes longer than a command line has.
"""

from collections import Counter


class LogTraffic:
    def __init__(self) -> None:
        self.published = 0
        """Messages acknowledged by a stream; a batch counts as its messages."""
        self.work = 0
        """Work messages sent; acknowledged in bulk."""
        self.repeated = 0
        """Publishes sent again because the answer was lost."""
        self.refused: Counter[str] = Counter()
        """Publishes a stream refused, by kind: lost compare-and-sets, duplicates, full streams."""
        self.pulled: Counter[str] = Counter()
        """Messages taken, by stream."""


TRAFFIC = LogTraffic()
