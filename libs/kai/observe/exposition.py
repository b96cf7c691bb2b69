"""The text in which metrics are told: Prometheus' classic format, as Go's client library writes it.

We write it ourselves for two things that the client library cannot do: it gives every counter the suffix
``_total``, while dashboards know counters without, and it tells of each series when it was made, which
doubles them. Only this format is spoken: in OpenMetrics a counter must end in ``_total``, so names would
depend on who asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from kai.observe.metrics import PlainFamily

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: What the client library's kinds are in this format.
_TYPES: Final = {
    "unknown": "untyped",
    "info": "gauge",
    "stateset": "gauge",
    "gaugehistogram": "histogram",
}
_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
_IN_TEXT: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IN_LABEL: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def encode(registry: CollectorRegistry) -> bytes:
    """All series of a registry."""
    return "".join(line for family in registry.collect() for line in _lines(family)).encode()


def exposed_name(family: Metric) -> str:
    """The name under which a family is told."""
    if isinstance(family, PlainFamily):
        return family.name
    return family.name + _SUFFIXES.get(family.type, "")


def _lines(family: Metric) -> Iterator[str]:
    name = exposed_name(family)
    yield f"# HELP {name} {family.documentation.translate(_IN_TEXT)}\n"
    yield f"# TYPE {name} {_TYPES.get(family.type, family.type)}\n"
    made = f"{family.name}_created"
    for sample in family.samples:
        if sample.name != made:
            value = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
            yield f"{sample.name}{_labels(sample)} {value}\n"


def _labels(sample: Sample) -> str:
    if not sample.labels:
        return ""
    pairs = (f'{name}="{value.translate(_IN_LABEL)}"' for name, value in sorted(sample.labels.items()))
    return f"{{{','.join(pairs)}}}"
