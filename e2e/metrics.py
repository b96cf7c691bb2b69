"""What the processes of a local cluster say of themselves at /metrics."""

from __future__ import annotations

from urllib.parse import urlsplit

import aiohttp
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

#: Of metrics that have a port of their own.
METRICS_PORT = 8080
SECONDS = 3.0


async def scrape(session: aiohttp.ClientSession, address: str) -> list[Metric]:
    """The metrics of the process with this address; none if it does not answer, or serves none."""
    _, text = await _told(session, address)
    return list(text_string_to_metric_families(text))


async def target(address: str) -> str:
    """``host:port`` where the process with this address serves its metrics; empty if it does not answer."""
    async with aiohttp.ClientSession() as session:
        place, _ = await _told(session, address)
    return place


async def _told(session: aiohttp.ClientSession, address: str) -> tuple[str, str]:
    place, limits = urlsplit(address), aiohttp.ClientTimeout(total=SECONDS)
    for port in dict.fromkeys((place.port, METRICS_PORT)):
        try:
            async with session.get(f"http://{place.hostname}:{port}/metrics", timeout=limits) as answer:
                if answer.status == 200:
                    return f"{place.hostname}:{port}", await answer.text()
        except (aiohttp.ClientError, TimeoutError):  # frozen or ended, on purpose
            continue
    return "", ""


async def total(addresses: list[str], name: str, **labels: str) -> float:
    """The sum of a metric over processes and over all samples whose labels begin so."""
    async with aiohttp.ClientSession() as session:
        found = [await scrape(session, address) for address in addresses if address.startswith("http://")]
    return sum(
        sample.value
        for families in found
        for family in families
        for sample in family.samples
        if sample.name == name
        and all(sample.labels.get(key, "").startswith(value) for key, value in labels.items())
    )
