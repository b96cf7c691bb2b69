"""Running recorded divisions: calls with the queues they divide among and the shares that must come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from kai.engine.fairness.division import Entries, divide, divide_forest
from kai.engine.fairness.queues import QueueColumns, QueueForest
from kai.model.arrays import Floats

_RESOURCES: Final = ("cpu", "memory", "gpu")
_EXACT: Final = 1e-9
_COLUMNS: Final = {
    "deserved": "deserved", "limit": "max_allowed", "weight": "over_quota_weight", "request": "request",
    "allocated": "allocated", "allocated_non_preemptible": "allocated_non_preemptible", "usage": "usage",
    "fair_share": "fair_share",
}  # fmt: skip
_ONE_LEVEL: Final = frozenset({"setResourceShare", "divideOverQuotaResource", "SetResourcesShare"})
_HIERARCHY: Final = "setFairShare (hierarchical)"


def run_call(call: Mapping[str, Any]) -> list[str]:
    """Run one call and say what differs from its expectation; empty when it holds.

    The functions are ``setResourceShare`` (one resource), ``divideOverQuotaResource`` (one resource,
    starting from given shares, by weight only), ``SetResourcesShare`` (all three) and ``setFairShare
    (hierarchical)``.
    """
    function = call["function"]
    if function not in _ONE_LEVEL and function != _HIERARCHY:
        return [
            f"function {function!r} is not known; known are {', '.join(sorted({*_ONE_LEVEL, _HIERARCHY}))}"
        ]
    queues: Mapping[str, Mapping[str, Any]] = call["queues"]
    columns = _columns(queues)
    remaining = None
    if function == _HIERARCHY:
        divide_forest(_forest(queues), columns, _total(call), k=call["k_value"])
    else:
        remaining = _one_level(call, _forest(queues, flat=True), columns)
    return _differences(call["expected"], list(queues), columns.fair_share, remaining)


def _one_level(call: Mapping[str, Any], forest: QueueForest, columns: QueueColumns) -> Floats:
    total = _total(call)
    chosen = [_RESOURCES.index(call["resource"])] if "resource" in call else range(len(_RESOURCES))
    level = forest.levels[0]
    remaining = np.zeros(len(_RESOURCES))
    by_weight_only = call["function"] == "divideOverQuotaResource"
    for resource in chosen:
        picked = {name: getattr(columns, name)[level.rows, resource] for name in _COLUMNS}
        entries = Entries(
            division=np.zeros(len(forest), dtype=np.int64),
            band=level.band[:: len(_RESOURCES)],
            rank=level.rank[:: len(_RESOURCES)],
            **{name: picked[name] for name in ("deserved", "limit", "weight", "request", "usage")},
        )
        share, left = divide(
            entries,
            total[resource : resource + 1],
            k=call["k_value"],
            fair_share=picked["fair_share"],
            deserved=not by_weight_only,
        )
        columns.fair_share[level.rows, resource] = share
        remaining[resource] = max(0.0, left[0])
    return remaining


def _total(call: Mapping[str, Any]) -> Floats:
    total = call["total"]
    if isinstance(total, Mapping):
        return np.array([float(total.get(name, 0)) for name in _RESOURCES])
    return np.array([float(total) if name == call["resource"] else 0.0 for name in _RESOURCES])


def _columns(queues: Mapping[str, Mapping[str, Any]]) -> QueueColumns:
    return QueueColumns(
        **{
            column: np.array([[float(queue[name][key]) for name in _RESOURCES] for queue in queues.values()])
            for column, key in _COLUMNS.items()
        }
    )


def _forest(queues: Mapping[str, Mapping[str, Any]], *, flat: bool = False) -> QueueForest:
    keys = list(queues)
    ages = sorted(keys, key=lambda key: (queues[key]["creation_rank"], queues[key]["uid"]))
    row = {key: position for position, key in enumerate(keys)}
    parents = [-1 if flat else row.get(queues[key]["parent"], -1) for key in keys]
    return QueueForest(
        parents, priority=[queues[key]["priority"] for key in keys], rank=[ages.index(key) for key in keys]
    )


def _differences(
    expected: Mapping[str, Any], keys: list[str], fair_share: Floats, remaining: Floats | None
) -> list[str]:
    found = []
    for key, shares in expected["fair_share"].items():
        for name, want in shares.items():
            got = float(fair_share[keys.index(key), _RESOURCES.index(name)])
            if abs(got - want) > _EXACT:
                found.append(f"queue {key}: fair share of {name} is {got:.12g}, expected {want:.12g}")
    if remaining is not None and "remaining" in expected:
        left = float(remaining.sum())
        if abs(left - expected["remaining"]) > _EXACT:
            found.append(f"remaining is {left:.12g}, expected {expected['remaining']:.12g}")
    return found
