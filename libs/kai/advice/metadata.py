"""Labels and annotations of pods and workloads: keys that nobody reads, values that nobody understands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from kai.advice.finding import Code, Finding
from kai.advice.spelling import key_meant
from kai.model import duration, names
from kai.model.rules.priorities import PREEMPTIBILITIES

#: More keys than that nobody has written by hand.
_MOST_KEYS: Final = 200

#: What users write, and where.
LABELS: Final = frozenset(
    {
        names.QUEUE_LABEL,
        names.NODE_POOL_LABEL,
        names.PRIORITY_CLASS_LABEL,
        names.PREEMPTIBILITY_LABEL,
        names.SUBGROUP_LABEL,
        names.TASK_PRIORITY_LABEL,
    }
)
ANNOTATIONS: Final = frozenset(
    {
        names.PREEMPTION_DELAY,
        names.STALENESS_GRACE_PERIOD,
        names.BATCH_MIN_MEMBER,
        names.TOPOLOGY,
        names.TOPOLOGY_REQUIRED,
        names.TOPOLOGY_PREFERRED,
        names.SEGMENT_SIZE,
        names.SEGMENT_TOPOLOGY_REQUIRED,
        names.SEGMENT_TOPOLOGY_PREFERRED,
        names.SKIP_POD_GROUPER,
        names.POD_GROUP_ANNOTATION,
        names.GPU_FRACTION,
        names.GPU_MEMORY,
        names.GPU_FRACTION_NUM_DEVICES,
        names.GPU_FRACTION_CONTAINER,
    }
)
#: What our own processes write.
_WRITTEN: Final = frozenset(
    {
        names.TOP_OWNER_METADATA,
        names.STALE_TIMESTAMP,
        names.LAST_START_TIMESTAMP,
        names.LAST_EVICTION_TIMESTAMP,
        names.RECEIVED_RESOURCE_TYPE,
        names.SHARED_GPU_CONFIGMAP,
        names.NUMA_PREDICTED,
        names.NUMA_OBSERVED,
        names.GPU_GROUP_LABEL,
        names.RESERVED_BY,
        names.ENDPOINT_ANNOTATION,
        names.EPOCH_ANNOTATION,
        names.VERSION_ANNOTATION,
    }
)


def findings(
    labels: Mapping[str, str], annotations: Mapping[str, str], *, queue_label_key: str = names.QUEUE_LABEL
) -> Iterator[Finding]:
    """What is wrong with the keys and values of one object."""
    known_labels = LABELS | {queue_label_key}
    yield from _keys("label", labels, known_labels, "annotation", ANNOTATIONS)
    yield from _keys("annotation", annotations, ANNOTATIONS, "label", known_labels)
    for key, is_meant, remedy in _CHECKED_ANNOTATIONS:
        yield from _ignored("annotation", key, annotations.get(key), is_meant, remedy)
    for key, is_meant, remedy in _CHECKED_LABELS:
        yield from _ignored("label", key, labels.get(key), is_meant, remedy)


def _keys(
    what: str, told: Mapping[str, str], known: frozenset[str], other: str, elsewhere: frozenset[str]
) -> Iterator[Finding]:
    for key in islice(told, _MOST_KEYS):
        if key in known or key in _WRITTEN or key == names.MPS:
            continue
        if key in elsewhere:
            yield Finding(Code.MISPLACED_KEY, f"{what} {key} is ignored; it has to be {_article(other)}")
            continue
        meant = key_meant(key, known | elsewhere)
        if meant is None:
            continue
        remedy = f"did you mean {what if meant in known else other} {meant}?" if meant else "nothing reads it"
        yield Finding(Code.MISSPELT_KEY, f"{what} {key} is not known and ignored; {remedy}")


def _article(what: str) -> str:
    return f"an {what}" if what.startswith("a") else f"a {what}"


def _ignored(
    what: str, key: str, text: str | None, is_meant: Callable[[str], bool], remedy: str
) -> Iterator[Finding]:
    if text is not None and not is_meant(text):
        yield Finding(Code.IGNORED_VALUE, f'{what} {key} "{_short(text)}" is ignored; {remedy}')


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def _is_duration(text: str) -> bool:
    try:
        duration.parse(text, days=False)
    except duration.InvalidDuration:
        return False
    return True


_Checked = tuple[tuple[str, Callable[[str], bool], str], ...]
_CHECKED_ANNOTATIONS: _Checked = (
    (names.MPS, lambda text: text in ("true", "false"), 'write "true" or "false"'),
    (
        names.PREEMPTION_DELAY,
        lambda text: _is_duration(text) and not text.startswith("-"),
        "write a duration with a unit, for example 5m",
    ),
    (
        names.STALENESS_GRACE_PERIOD,
        _is_duration,
        "write a duration with a unit, for example 60s, or -1s for never",
    ),
    (names.SKIP_POD_GROUPER, lambda text: text in ("true", "false"), 'write exactly "true"'),
    (
        names.SEGMENT_SIZE,
        lambda text: re.fullmatch(r"[0-9]{1,10}", text) is not None and int(text) > 1,
        "write a whole number above 1",
    ),
)
_CHECKED_LABELS: _Checked = (
    (
        names.TASK_PRIORITY_LABEL,
        lambda text: re.fullmatch(r"[+-]?[0-9]+", text) is not None,
        "write a whole number",
    ),
    (
        names.PREEMPTIBILITY_LABEL,
        lambda text: text in ("", *PREEMPTIBILITIES),
        'write "preemptible", "non-preemptible" or "semi-preemptible"',
    ),
)
