"""Answers that are the same in every made-up world: what would follow, how services are, where pods ran."""

from __future__ import annotations

import time
from typing import Any, Final

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


def imagined(asked: Any) -> dict[str, Any]:
    """Four pods make room for four others."""
    target = asked.get("target", "what was submitted")
    change = f"{asked.get('change', 'submit')} {target} {asked.get('value', '')}".strip()
    before, after = _share(quota=8, held=8), _share(quota=12, held=12)
    lost = [f"team-language/ember-sweep-117-{at}" for at in range(_PODS)]
    won = [f"team-vision/birch-finetune-140-{at}" for at in range(_PODS)]
    return {
        "now": "2026-11-26T20:00:00Z",
        "changes": [{"text": change, "command": f"kubectl patch queue {target} --type merge -p '{{}}'"}],
        "queues": [
            {"queue": "vision", "before": before, "after": after},
            {"queue": "language", "before": after, "after": before},
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


def _share(*, quota: float, held: float) -> dict[str, Any]:
    gpus = {
        "quota": quota,
        "limit": -1.0,
        "overQuotaWeight": 1.0,
        "fairShare": 10.0,
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
        "why": "language holds more than its fair share of 10 GPUs, vision less",
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


def runs(name: str, namespace: str, *, nodes: list[str], now: float) -> list[dict[str, Any]]:
    """Each pod ran twice, and was evicted once."""
    found = []
    for at in range(_PODS if nodes else 0):
        for turn in range(_RUNS):
            began = now - 40_000 + turn * 16_000 + at * 300
            found.append(
                {
                    "podUid": f"{at}-{turn}",
                    "began": began,
                    "created": began,
                    "namespace": namespace,
                    "pod": f"{name.removeprefix('pg-')}-{at}",
                    "podGroup": name,
                    "queue": "vision",
                    "userName": "amara",
                    "workload": "",
                    "node": nodes[at % len(nodes)],
                    "cpuMillis": 12_000,
                    "memoryBytes": 2**30,
                    "gpus": 1.0,
                    "ended": began + 11_000,
                    "ending": "Evicted" if turn == 0 else "Deleted",
                }
            )
    return found
