"""What waits in a made-up world and why, and what it was before."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from e2e.browser.mock.worlds import FREE, QUEUES, World, new_group, queues_of
from kai.simulate.changes.queues import Bound, SetBounds
from kai.snapshot.state import ClusterState

STAGES: Final = (
    "known",
    "grouped",
    "admitted to its queue",
    "complete",
    "within limits",
    "nodes allowed",
    "room",
    "victims permitted",
    "bound",
)
_STEPS: Final = 240
#: Verdict, code, stage, what is said.
_REASONS: Final = (
    (
        "WAIT",
        "NotEnoughFree",
        "room",
        "it asks for {gpus} GPUs; {free} are free on {nodes} nodes",
    ),
    (
        "WAIT",
        "Fragmented",
        "room",
        "it asks for {gpus} GPUs on one node; {free} are free on {nodes} nodes, {hole} at most on one",
    ),
    ("WAIT", "OthersFirst", "room", "there is room, and 4 workloads ahead of it take it"),
    (
        "WAIT",
        "Protected",
        "victims permitted",
        "3 pods of language are protected by minimum runtime for 11 more minutes; then it is its turn",
    ),
    (
        "CHANGE",
        "OverLimit",
        "within limits",
        "it asks for {gpus} GPUs; its queue holds 22 of its limit of 24",
    ),
    (
        "CHANGE",
        "NodeSelector",
        "nodes allowed",
        "no node has the label topology.example.com/rack=r9; 12 nodes would do but for it",
    ),
    (
        "CHANGE",
        "Tainted",
        "nodes allowed",
        "12 nodes with room have the taint maintenance=true:NoSchedule",
    ),
    ("CHANGE", "Gated", "complete", "the scheduling gate example.com/data-ready holds 4 pods back"),
    (
        "ESCALATE",
        "NonPreemptibleOverQuota",
        "within limits",
        "it cannot be preempted and asks for {gpus} GPUs; its queue has a quota of 8 and holds 8",
    ),
    (
        "ESCALATE",
        "NodesUnavailable",
        "nodes allowed",
        "the only nodes that would do are cordoned: gpu-3, gpu-4",
    ),
    ("NEVER", "TooLarge", "nodes allowed", "each pod asks for {gpus} GPUs; the largest node has 8"),
    ("", "", "known", ""),
)
_WEIGHTS: Final = (26, 18, 14, 8, 8, 5, 4, 3, 5, 3, 3, 3)


def fill_queue(world: World, count: int, *, now: float, called: Callable[[str], str] | None = None) -> None:
    """So many workloads wait."""
    chance = world.random
    leaves = [at for at, queue in enumerate(QUEUES) if queue[3]]
    room = _room(world)
    for place in range(count):
        queue = chance.choices(leaves, [QUEUES[at][3] for at in leaves])[0]
        verdict, code, _, text = chance.choices(_REASONS, _WEIGHTS)[0]
        gpus = _asked(code, room, chance)
        group = world.groups.pop(new_group(world, queue, gpus, called))
        work = f"{group.workload.rpartition('-')[0]}-{400 + 7 * place}"
        age = 30 + chance.expovariate(1 / 5400)
        pods = 1 if code in ("TooLarge", "Fragmented") else max(1, gpus // chance.choice((1, 2, 4)))
        world.waiting.append(
            {
                "namespace": group.namespace,
                "name": f"pg-{work.partition('/')[2]}",
                "workload": work,
                "user": group.user,
                "queue": QUEUES[queue][0],
                "created": now - age - 4,
                "waitingSince": now - age,
                "pods": pods,
                "running": pods // 2 if chance.random() < 0.06 else 0,
                "minMember": pods,
                "gpus": gpus,
                "cpuMillis": gpus * 12_000,
                "memoryBytes": gpus * 120 * 2**30,
                "priority": chance.choice((50, 50, 50, 100, 125)),
                "preemptible": chance.random() < 0.8,
                "verdict": verdict,
                "code": code,
                "text": text.format(gpus=f"{gpus:,}", **room),
                "position": None,
            }
        )
    world.waiting.sort(key=lambda row: row["waitingSince"])
    for queue in {row["queue"] for row in world.waiting}:
        rows = [row for row in world.waiting if row["queue"] == queue]
        for ahead, row in enumerate(rows):
            row["position"] = {"ahead": ahead, "of": len(rows)}


def _room(world: World) -> dict[str, int]:
    """What is free: devices, nodes that have some, and the most of one node."""
    holes = [world.of_node(node).count(FREE) for node in range(len(world.nodes))]
    return {"free": sum(holes), "nodes": sum(map(bool, holes)), "hole": max(holes, default=0)}


def _asked(code: str, room: dict[str, int], chance: random.Random) -> int:
    """As many GPUs as there have to be for this to be the reason."""
    if code == "TooLarge":
        return 16
    if code == "Fragmented":
        return 8
    if code == "NotEnoughFree":
        return max(16, 1 << room["free"].bit_length())
    return chance.choice((2, 2, 4, 8, 8, 16, 32))


def answer(row: dict[str, Any], *, running: bool = False) -> dict[str, Any]:
    """Why it waits, as ``kai explain -o json`` says it."""
    if running:
        stages = [{"stage": name, "state": "passed", "text": _passed(name, row)} for name in STAGES]
        return _answer(row, "RUNS", None, stages, [])
    failed = next((each[2] for each in _REASONS if each[1] == row["code"]), "known")
    at = STAGES.index(failed)
    stages = [
        {
            "stage": name,
            "state": "passed" if place < at else "failed" if place == at else "not reached",
            "text": _passed(name, row) if place < at else row["text"] if place == at else "",
        }
        for place, name in enumerate(STAGES)
    ]
    reason = (
        {"code": row["code"], "text": row["text"], "amounts": {"asked": row["gpus"]}} if row["code"] else None
    )
    return _answer(row, row["verdict"], reason, stages, _changes(row))


def _answer(
    row: dict[str, Any], verdict: str, reason: Any, stages: list[Any], changes: list[Any]
) -> dict[str, Any]:
    kind, _, name = row["workload"].partition("/")
    return {
        "kind": kind,
        "namespace": row["namespace"],
        "name": name,
        "podGroup": row["name"],
        "verdict": verdict,
        "reason": reason,
        "stages": stages,
        "changes": changes,
        "forecast": None,
        "position": row["position"] and {"queue": row["queue"], **row["position"]},
        "evictions": [],
    }


def _passed(stage: str, row: dict[str, Any]) -> str:
    return {
        "known": f"{row['pods']} pod{'' if row['pods'] == 1 else 's'} known to the scheduler",
        "grouped": f"{row['name']}, {row['minMember']} at least together",
        "admitted to its queue": row["queue"],
        "complete": f"{row['pods']} of {row['minMember']} pods exist",
        "within limits": "its queue and those above it may hold so much more",
        "nodes allowed": "121 of 128 nodes could take a pod of it",
    }.get(stage, "")


def _changes(row: dict[str, Any]) -> list[dict[str, Any]]:
    queue = row["queue"]
    bound = Bound.LIMIT if row["code"] == "OverLimit" else Bound.QUOTA
    raised = SetBounds(queue=queue, bound=bound, amounts={"gpu": row["gpus"] + 24})
    more = {"text": raised.text, "command": raised.command(ClusterState()), "proven": True}
    node = {"text": "add 1 node like 'gpu-1'", "command": None, "proven": True}
    fewer = max(1, row["pods"] // 2)
    smaller = {
        "text": f"let {row['namespace']}/{row['name']} start with {fewer} pod{'' if fewer == 1 else 's'}",
        "command": f"kubectl annotate {row['workload'].lower()} -n {row['namespace']} "
        f"kai.scheduler/batch-min-member={fewer}",
        "proven": True,
    }
    if row["code"] == "Fragmented":
        return [node]
    return [more, smaller] if row["code"] in ("OverLimit", "NotEnoughFree") else [smaller]


def pods_of(name: str, count: int, *, nodes: list[str], gpus: float, since: float) -> list[dict[str, Any]]:
    """Pods of a group; those that have no node wait."""
    return [
        {
            "name": f"{name.removeprefix('pg-')}-{at}",
            "state": "Running" if at < len(nodes) else "Pending",
            "node": nodes[at] if at < len(nodes) else "",
            "devices": list(range(int(gpus))) if at < len(nodes) else [],
            "gpus": gpus,
            "since": since,
            "subGroup": "",
        }
        for at in range(count)
    ]


def past(world: World, *, now: float, seconds: float) -> dict[str, list[dict[str, Any]]]:
    """Decisions, evictions, cycles and states of queues in the seconds before, the newest first."""
    chance = random.Random(11)
    groups = world.groups[:400] or []
    decisions: list[dict[str, Any]] = []
    takings: list[dict[str, Any]] = []
    for _ in range(min(600, 20 * max(1, len(groups)))):
        if not groups:
            break
        group = chance.choice(groups)
        at = now - chance.random() * seconds
        outcome = chance.choices(("Placed", "Unschedulable", "Gone"), (6, 3, 2))[0]
        decisions.append(
            {
                "namespace": group.namespace,
                "podGroup": group.name,
                "at": at,
                "shard": "default",
                "epoch": 7,
                "cycle": int(at) % 10_000,
                "queue": QUEUES[group.queue][0],
                "outcome": outcome,
                "reason": "NotEnoughFree" if outcome == "Unschedulable" else "",
                "message": "it asks for 8 GPUs; 6 are free on 3 nodes" if outcome == "Unschedulable" else "",
            }
        )
        if chance.random() < 0.08:
            other = chance.choice(groups)
            takings.append(
                {
                    "podUid": f"uid-{len(takings)}",
                    "at": at,
                    "shard": "default",
                    "epoch": 7,
                    "cycle": int(at) % 10_000,
                    "namespace": group.namespace,
                    "pod": f"{group.name.removeprefix('pg-')}-0",
                    "podGroup": group.name,
                    "queue": QUEUES[group.queue][0],
                    "action": chance.choice(("reclaim", "preempt", "consolidation")),
                    "gpus": 1.0,
                    "forNamespace": other.namespace,
                    "forPodGroup": other.name,
                    "forQueue": QUEUES[other.queue][0],
                    "message": f"its queue holds more than its fair share, and {QUEUES[other.queue][0]} less",
                }
            )
    cycles, states = _curves(chance, world, now=now, seconds=seconds)

    def newest(row: dict[str, Any]) -> float:
        return -float(row["at"])

    return {
        "decisions": sorted(decisions, key=newest),
        "evictions": sorted(takings, key=newest),
        "cycles": sorted(cycles, key=newest),
        "queue-states": sorted(states, key=newest),
    }


def _curves(
    chance: random.Random, world: World, *, now: float, seconds: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Found backwards, from how it is now."""
    told = queues_of(world)
    columns = {key: told["gpu"][key] for key in ("quota", "fairShare", "allocated", "requested")}
    leaves = [at for at, queue in enumerate(QUEUES) if queue[3]]
    held = {at: columns["allocated"][at] for at in leaves}
    waiting = float(len(world.waiting))
    cycles, states = [], []
    for step in reversed(range(_STEPS)):
        at = now - seconds + (step + 1) * seconds / _STEPS
        cycles.append(_cycle(step, at, waiting=round(waiting), binds=chance.randint(0, 9)))
        for queue in leaves:
            row = {key: column[queue] for key, column in columns.items()}
            asked = row["requested"] - row["allocated"] + held[queue]
            row |= {"allocated": round(held[queue]), "requested": round(asked)}
            states.append(_state(QUEUES[queue][0], at, row))
            held[queue] = max(0.0, held[queue] * (1 + chance.gauss(0, 0.03)))
        waiting = max(0.0, waiting + chance.gauss(0, 2))
    return cycles, states


def _cycle(number: int, at: float, *, waiting: int, binds: int) -> dict[str, Any]:
    return {
        "shard": "default",
        "epoch": 7,
        "cycle": number,
        "at": at,
        "binds": binds,
        "evictions": 0,
        "nominations": 0,
        "outcomes": 1,
        "waiting": waiting,
    }


def _state(queue: str, at: float, gpus: dict[str, float]) -> dict[str, Any]:
    return {
        "queue": queue,
        "shard": "default",
        "at": at,
        "parent": "",
        "quotaGpus": gpus["quota"],
        "limitGpus": -1.0,
        "fairShareGpus": gpus["fairShare"],
        "allocatedGpus": gpus["allocated"],
        "requestedGpus": gpus["requested"],
        "allocatedCpuMillis": 0.0,
        "allocatedMemoryBytes": 0.0,
    }
