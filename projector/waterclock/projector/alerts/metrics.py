"""What the alerts have come to, as Prometheus reads it."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from waterclock.core.runtime.metrics import Quiet, counter


class Tally(Quiet):
    def __init__(self) -> None:
        self.results: Counter[str] = Counter(delivered=0, failed=0, given_up=0, silenced=0)
        self.waiting = 0

    def collect(self) -> Iterator[Metric]:
        yield counter("waterclock_alerts", "Calls to the webhook, by result.", "result", self.results)
        yield GaugeMetricFamily("waterclock_alerts_waiting", "Alerts to be delivered.", value=self.waiting)
