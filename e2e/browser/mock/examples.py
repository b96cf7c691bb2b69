"""Answers that are the same in every made-up world: what would follow, how services are, where pods ran."""

from __future__ import annotations

import time
from typing import Any, Final

from kai.simulate.changes.queues import Bound, SetBounds
from kai.snapshot.state import ClusterState

_SERVICES: Final = (
    "scheduler",
    "binder",
    "pod-grouper",
    "podgroup-controller",
    "queue-controller",
    "insight",
)
_VISION: Final = {"workload": "team-vision/job/birch-finetune-140", "queue": "vision"}
_LANGUAGE: Final = {"workload": "team-language/job/ember-sweep-117", "queue": "language"}
_PODS: Final = 4
_RUNS: Final = 2
#: Of each run, in seconds: when the first began, when the next does, and how long it lasts.
_LONG_AGO: Final = 40_000
_TURN: Final = 16_000
_LASTED: Final = 11_000


def imagined(asked: Any) -> dict[str, Any]:
    """Four pods make room for four others."""
    won_before, won_after = _share(quota=8, held=8), _share(quota=12, held=12)
    lost_before, lost_after = _share(quota=8, held=12), _share(quota=8, held=8)
    lost = [f"team-language/ember-sweep-117-{at}" for at in range(_PODS)]
    won = [f"team-vision/birch-finetune-140-{at}" for at in range(_PODS)]
    return {
        "now": "2026-11-26T20:00:00Z",
        "changes": [_change(asked)],
        "queues": [
            {"queue": "vision", "before": won_before, "after": won_after},
            {"queue": "language", "before": lost_before, "after": lost_after},
        ],
        "workloads": [
            {
                **_VISION,
                "podGroup": "team-vision/pg-birch-finetune-140",
                "before": {"running": 0, "waiting": _PODS},
                "after": {"running": _PODS, "waiting": 0},
                "reason": "",
            },
            {
                **_LANGUAGE,
                "podGroup": "team-language/pg-ember-sweep-117",
                "before": {"running": _PODS, "waiting": 0},
                "after": {"running": 0, "waiting": _PODS},
                "reason": "its queue holds its fair share",
            },
        ],
        "events": [*map(_evicted, lost), *map(_started, won)],
        "evicted": lost,
        "started": won,
        "deleted": [],
        "moreAfter": 1260.0,
    }


def _change(asked: Any) -> dict[str, Any]:
    """In the product's own words, where they are those of a queue's quota or limit."""
    bound, target = asked.get("change", "submit"), asked.get("target", "what was submitted")
    if bound not in (Bound.QUOTA, Bound.LIMIT):
        return {"text": f"{bound} {target}", "command": None}
    amounts = dict(each.split("=") for each in asked["value"].split())
    change = SetBounds(
        queue=target,
        bound=Bound(bound),
        amounts={name: -1.0 if amount == "unlimited" else float(amount) for name, amount in amounts.items()},
    )
    return {"text": change.text, "command": change.command(ClusterState())}


def _share(*, quota: float, held: float) -> dict[str, Any]:
    gpus = {
        "quota": quota,
        "limit": -1.0,
        "overQuotaWeight": 1.0,
        "fairShare": held,
        "allocated": held,
        "requested": 14.0,
    }
    return {name: {"cpu": 0.0, "memory": 0.0, "gpu": float(value)} for name, value in gpus.items()}


def _evicted(pod: str) -> dict[str, Any]:
    return {
        "after": 0.0,
        "what": "evicted",
        "pod": pod,
        "workload": _LANGUAGE["workload"],
        "node": f"gpu-{pod[-1]}",
        "by": _VISION["workload"],
        "action": "reclaim",
        "why": "language holds more than its fair share of 8 GPUs, vision less than its own of 12",
        "anyway": False,
    }


def _started(pod: str) -> dict[str, Any]:
    return {
        "after": 31.0,
        "what": "started",
        "pod": pod,
        "workload": _VISION["workload"],
        "node": f"gpu-{pod[-1]}",
        "by": "",
        "action": "allocate",
        "why": "",
        "anyway": pod.endswith("3"),
    }


def health(version: str, *, late: bool) -> dict[str, Any]:
    """All is well, or a binder is late and a pod is set aside."""
    now = time.time()
    aside = {
        "kind": "Pod",
        "key": "team-robotics/arm-7",
        "reason": "its request of 9007199254740993 GPUs is beyond bounds",
    }
    return {
        "processes": [
            {
                "name": name,
                "holder": f"kai-{name}-7c9d5f6b8-{at}x2k",
                "since": now - 86_400 * (at + 1),
                "renewed": now - (40 if late and name == "binder" else 1 + at % 3),
                "late": late and name == "binder",
                "release": "0.1.0",
            }
            for at, name in enumerate(_SERVICES)
        ],
        "shards": [
            {
                "name": "default",
                "version": version,
                "at": now - 1,
                "lag": 0.21,
                "cycles": {"perMinute": 58.2, "p50Seconds": 0.034, "p99Seconds": 0.41},
                "replayed": 8412,
                "differing": 0,
                "setAside": [aside] if late else [],
            }
        ],
        "forecasts": {"p50": {"held": 21, "of": 40}, "p90": {"held": 35, "of": 38}},
        "store": {"trouble": ""},
    }


def life(row: dict[str, Any], *, nodes: list[str], now: float) -> dict[str, list[dict[str, Any]]]:
    """Each pod of a workload ran twice, and was evicted once: what is recorded of it, the newest first."""
    began = [now - _LONG_AGO + turn * _TURN for turn in range(_RUNS)]
    runs = [
        _run(row, pod=pod, turn=turn, at=at + 20 * pod, node=nodes[pod % len(nodes)])
        for pod in range(min(row["pods"], _PODS) if nodes else 0)
        for turn, at in enumerate(began)
    ]
    evictions = [_taking(row, run) for run in runs if run["ending"] == "Evicted"]
    stood = [(at, "Placed", "", "") for at in began]
    stood += [(at + _LASTED, "Unschedulable", row["code"] or "OthersFirst", row["text"]) for at in began]
    decisions = [
        {
            **{name: row[name] for name in ("namespace", "queue")},
            "podGroup": row["name"],
            "at": at,
            "shard": "default",
            "epoch": 7,
            "cycle": int(at) % 10_000,
            "outcome": outcome,
            "reason": reason,
            "message": message,
        }
        for at, outcome, reason, message in sorted(stood, reverse=True)
    ]
    return {"runs": runs, "evictions": evictions, "decisions": decisions}


def _run(row: dict[str, Any], *, pod: int, turn: int, at: float, node: str) -> dict[str, Any]:
    return {
        "podUid": f"{pod}-{turn}",
        "began": at,
        "created": at,
        "namespace": row["namespace"],
        "pod": f"{row['name'].removeprefix('pg-')}-{pod}",
        "podGroup": row["name"],
        "queue": row["queue"],
        "userName": row["user"],
        "workload": row["workload"],
        "node": node,
        "cpuMillis": 12_000,
        "memoryBytes": 2**30,
        "gpus": row["gpus"] / max(1, row["pods"]),
        "ended": at + _LASTED,
        "ending": "Evicted" if turn == 0 else "Deleted",
    }


def _taking(row: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: run[name] for name in ("podUid", "namespace", "pod", "podGroup", "queue", "gpus")},
        "at": run["ended"],
        "shard": "default",
        "epoch": 7,
        "cycle": 1204,
        "action": "reclaim",
        "forNamespace": "team-vision",
        "forPodGroup": "pg-birch-finetune-140",
        "forQueue": "vision",
        "message": f"{row['queue']} holds more than its fair share, and vision less",
    }
