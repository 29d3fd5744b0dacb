"""`/metrics`: what this process counts, the state of the fleet, and, under `waterclock up`, what the other components
count: one address to scrape instead of five."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from waterclock.api.application import Application
from waterclock.api.queries import fleet
from waterclock.core.domain.system_load import SystemLoad, system_load
from waterclock.core.jetstream.errors import LogError
from waterclock.core.runtime.clock import now_us

_TIMEOUT = 1.0


async def collect(app: Application) -> bytes:
    others, gauges = await asyncio.gather(_other_components(app.settings.data), _fleet(app))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Merged([*REGISTRY.collect(), *gauges], others))
    return generate_latest(registry)


class _Merged:
    """Families of the same name become one, told apart by `component` and `instance`."""

    def __init__(self, own: Iterable[Metric], others: dict[tuple[str, str], list[Metric]]) -> None:
        self._families: dict[str, Metric] = {}
        self._add(own, {})
        for (component, instance), families in others.items():
            self._add(families, {"component": component, "instance": instance})

    def collect(self) -> Iterable[Metric]:
        return self._families.values()

    def _add(self, families: Iterable[Metric], labels: dict[str, str]) -> None:
        for family in families:
            merged = self._families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type, family.unit)
            )
            for sample in family.samples:
                merged.samples.append(sample._replace(labels={**sample.labels, **labels}))


async def _other_components(data: Path) -> dict[tuple[str, str], list[Metric]]:
    """The components that `waterclock up` has started, by what it wrote down about them."""
    try:
        urls = msgspec.json.decode((data / "metrics.json").read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.MsgspecError):
        return {}
    places = [(component, url) for component, found in urls.items() for url in found]
    texts = await asyncio.gather(*(_fetch(url) for _, url in places))
    return {
        (component, str(number)): list(text_string_to_metric_families(text))
        for number, ((component, _), text) in enumerate(zip(places, texts, strict=True))
        if text
    }


async def _fetch(url: str) -> str:
    place = urlsplit(url)
    try:
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            try:
                writer.write(f"GET {place.path} HTTP/1.0\r\nHost: {place.netloc}\r\n\r\n".encode())
                await writer.drain()
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return ""
    return body.decode(errors="replace") if b" 200 " in head.split(b"\r\n", 1)[0] else ""


async def _fleet(app: Application) -> list[Metric]:
    """Queues, executors and partitions, as they are now; nothing while the log is away."""
    waiting = GaugeMetricFamily(
        "waterclock_queue_waiting",
        "Attempts that wait to be taken.",
        labels=("queue", "handler", "tier", "priority"),
    )
    running = GaugeMetricFamily(
        "waterclock_queue_running",
        "Attempts taken and not finished.",
        labels=("queue", "handler", "tier", "priority"),
    )
    age = GaugeMetricFamily(
        "waterclock_queue_age_seconds",
        "How long the oldest attempt of a queue has waited to be taken; 0 for an empty one.",
        labels=("queue", "handler", "tier", "priority"),
    )
    slots = GaugeMetricFamily("waterclock_executors_slots", "Slots of executors.", labels=("state",))
    executors = GaugeMetricFamily("waterclock_executors", "Executors, by state.", labels=("state",))
    owned = GaugeMetricFamily(
        "waterclock_partitions_owned", "Partitions that a scheduler owns.", labels=("owner",)
    )
    lag = GaugeMetricFamily(
        "waterclock_partition_lag_seconds", "How far the owner is behind.", labels=("partition",)
    )
    try:
        async with asyncio.timeout(_TIMEOUT):
            beats = [msgspec.structs.replace(beat, due={}) for beat in await fleet.schedulers(app.control)]
            for queue in await fleet.queues(app.connection, beats):
                labels = (queue.queue, queue.handler or "", queue.tier, str(queue.priority))
                waiting.add_metric(labels, queue.waiting)
                running.add_metric(labels, queue.running)
                since = await fleet.oldest_waiting(app.connection, queue) if queue.waiting else None
                waited = 0.0 if since is None else (datetime.now(UTC) - since).total_seconds()
                age.add_metric(labels, max(0.0, waited))
            found = await fleet.executors(app.control)
            for state in ("ACTIVE", "DRAINING"):
                executors.add_metric((state,), sum(executor.status == state for executor in found))
            slots.add_metric(("total",), sum(executor.slots for executor in found))
            slots.add_metric(("busy",), sum(executor.busy for executor in found))
            owners: dict[str, int] = {}
            schedulers = await fleet.schedulers(app.control)
            load = system_load(schedulers, now_us())
            for partition in fleet.owned_partitions(schedulers, app.settings.partitions):
                owners[partition.owner or ""] = owners.get(partition.owner or "", 0) + 1
                if partition.lag_seconds is not None:
                    lag.add_metric((str(partition.partition),), partition.lag_seconds)
            for owner, count in owners.items():
                owned.add_metric((owner,), count)
    except (LogError, TimeoutError):
        return []
    return [waiting, running, age, slots, executors, owned, lag, *_load(load)]


def _load(load: SystemLoad) -> list[Metric]:
    found = (
        ("waterclock_drain_seconds", "How long it takes to be on time again.", load.drain_seconds()),
        ("waterclock_behind_seconds", "Age of the oldest fire due and not decided.", load.behind_seconds),
        ("waterclock_saturated", "1 while callers are slowed down.", float(load.saturated)),
    )
    return [GaugeMetricFamily(name, about, value=value) for name, about, value in found]
