"""`/metrics`: what this process counts, the state of the fleet, and, under `waterclock up`, what the other components
count: one address to scrape instead of five."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from waterclock.api.application import Application
from waterclock.api.http.fleet_gauges import fleet_gauges

_TIMEOUT = 1.0


async def collect(app: Application) -> bytes:
    others, gauges = await asyncio.gather(_other_components(app.settings.data), fleet_gauges(app))
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
