"""One scheduling scenario: a small cluster, some cycles over it, and what must come out."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kai.config import PluginOption
from kai.conformance.compare import Differences, compare, compare_calls
from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.engine.actions import ACTIONS
from kai.engine.framework.session import Session
from kai.engine.plugins.dynamicresources import ResourceClaims
from kai.model import names
from kai.model.ids import GpuGroup
from kai.model.objects import Node, Pod, PodGroup, PriorityClass, Queue, Topology
from kai.model.rules.gpu_groups import gpu_group_labels
from kai.snapshot.rows import Task
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.status import Status
from kai.snapshot.times import rfc3339, seconds

_KINDS: Final[dict[str, tuple[Kind, Any]]] = {
    "nodes": (Kind.NODE, Node),
    "queues": (Kind.QUEUE, Queue),
    "priorityclasses": (Kind.PRIORITY_CLASS, PriorityClass),
    "topologies": (Kind.TOPOLOGY, Topology),
    "deviceclasses": (Kind.DEVICE_CLASS, None),
    "resourceslices": (Kind.RESOURCE_SLICE, None),
    "resourceclaims": (Kind.RESOURCE_CLAIM, None),
    "noderesourcetopologies": (Kind.NODE_RESOURCE_TOPOLOGY, None),
    "podgroups": (Kind.POD_GROUP, PodGroup),
    "pods": (Kind.POD, Pod),
}
_STARTED: Final = ("Allocated", "Bound", "Binding", "Running")
_STUCK_SECONDS: Final = 600


@dataclass(slots=True)
class PodState:
    """What a round leaves of a pod for the next."""

    status: str
    node: str = ""
    groups: tuple[GpuGroup, ...] = ()
    zones: list[dict[str, Any]] | None = None


class ScenarioRun:
    """Runs one scenario; the differences are readable and empty where everything is as expected."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self.scenario = scenario
        self.now = seconds(scenario["now"])
        self.engine = Engine(_config(scenario))
        self.objects: dict[str, list[dict[str, Any]]] = copy.deepcopy(dict(scenario["objects"]))
        self.pods = {name: _initial(pod) for name, pod in scenario["initial_state"]["pods"].items()}

    def run(self) -> list[str]:
        """All differences."""
        found = Differences()
        if self.scenario["mode"] == "single":
            session = self._open()
            self._act(session, found)
            compare(session, self.scenario, self.now, found)
            return found.lines
        for number in range(int(self.scenario["rounds_until_match"])):
            session = self._open()
            self._act(session, found.within(f"round {number + 1}"))
            self._fold(session)
        compare(self._open(), self.scenario, self.now, found)
        for number in range(int(self.scenario["rounds_after_match"])):
            session = self._open()
            later = found.within(f"stable round {number + 1}")
            self._act(session, later)
            compare(session, self.scenario, self.now, later)
            self._fold(session)
        return found.lines

    def _act(self, session: Session, found: Differences) -> None:
        for action in self.scenario["actions"]:
            ACTIONS[action](session)
            session.state.check()
            after = self.scenario["expected"].get("after_action", {}).get(action)
            if after:
                later = found.within(f"after {action}")
                compare(session, {**self.scenario, "expected": after}, self.now, later)
        compare_calls(session, self.scenario["expected"], found)

    # --- from the scenario to a session ----------------------------------------------------------
    def _open(self) -> Session:
        state = ClusterState()
        for name, (kind, cls) in _KINDS.items():
            for obj in self.objects.get(name) or ():
                if name == "podgroups":
                    obj = self._pod_group(obj)
                elif name == "pods":
                    if self.pods[obj["metadata"]["name"]].status == "Failed":
                        continue
                    obj = self._pod(obj)
                state.apply(kind, obj if cls is None else msgspec.convert(obj, cls))
        for pod in self.objects["pods"]:
            known = self.pods[pod["metadata"]["name"]]
            if known.status in ("Binding", "Allocated"):
                state.assume_bind(pod["metadata"]["uid"], known.node, groups=known.groups)
        session = self.engine.open(state, self.now)
        state.check()
        return session

    def _pod_group(self, obj: dict[str, Any]) -> dict[str, Any]:
        name = obj["metadata"]["name"]
        obj = copy.deepcopy(obj)
        members = [
            self.pods[pod["metadata"]["name"]].status
            for pod in self.objects["pods"]
            if pod["metadata"].get("annotations", {}).get(names.POD_GROUP_ANNOTATION) == name
        ]
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations.pop(names.LAST_START_TIMESTAMP, None)
        if any(status in _STARTED for status in members):
            annotations[names.LAST_START_TIMESTAMP] = rfc3339(self.now - 60)
        return obj

    def _pod(self, obj: dict[str, Any]) -> dict[str, Any]:
        known = self.pods[obj["metadata"]["name"]]
        obj = copy.deepcopy(obj)
        meta, spec = obj["metadata"], obj["spec"]
        for key in [key for key in meta.get("labels", {}) if key.startswith(names.GPU_GROUP_LABEL)]:
            del meta["labels"][key]
        meta.pop("deletionTimestamp", None)
        spec.pop("nodeName", None)
        match known.status:
            case "Pending" | "Gated" | "Binding" | "Allocated" | "Pipelined":
                obj["status"]["phase"] = "Pending"
            case "Bound":
                obj["status"]["phase"] = "Pending"
                spec["nodeName"] = known.node
            case "Succeeded":
                obj["status"]["phase"] = "Succeeded"
                spec["nodeName"] = known.node
            case _:
                obj["status"]["phase"] = "Running"
                spec["nodeName"] = known.node
        if known.status == "Releasing":
            meta["deletionTimestamp"] = rfc3339(self.now)
        elif known.status == "StuckInReleasing":
            meta["deletionTimestamp"] = rfc3339(self.now - _STUCK_SECONDS)
        if known.groups and known.status not in ("Pending", "Binding"):
            meta.setdefault("labels", {}).update(gpu_group_labels(known.groups))
        if self.scenario["initial_state"]["pods"][meta["name"]].get("legacy_mig"):
            meta["annotations"][f"{names.MIG_PREFIX}1g.10gb"] = "1"
        if known.zones is not None:
            meta.setdefault("annotations", {})[names.NUMA_PREDICTED] = msgspec.json.encode(
                known.zones
            ).decode()
        return obj

    # --- from a session to the next round --------------------------------------------------------
    def _fold(self, session: Session) -> None:
        keep = {
            job
            for job, known in self.scenario["initial_state"]["jobs"].items()
            if known.get("delete_in_test")
        }
        for task in session.state.tasks.values():
            known = self.pods[task.name]
            match task.status:
                case Status.RELEASING if not (task.job is not None and task.job.name in keep):
                    self.pods[task.name] = PodState("Pending")
                case Status.RELEASING:
                    known.status = "Releasing"
                case Status.PIPELINED:
                    self.pods[task.name] = PodState("Pending")
                case Status.BINDING:
                    self.pods[task.name] = _started(task)
        self._fold_claims(session)

    def _fold_claims(self, session: Session) -> None:
        gone = {
            pod["metadata"]["uid"]
            for pod in self.objects["pods"]
            if self.pods[pod["metadata"]["name"]].status not in ("Running", "Bound", "Releasing")
        }
        if self.objects.get("resourceclaims"):
            plugin = session.plugins.of(ResourceClaims) or ResourceClaims(session.handle)
            self.objects["resourceclaims"] = plugin.objects_after(gone)


def _started(task: Task) -> PodState:
    assert task.node is not None
    zones = task.allotment.numa if task.allotment is not None else ()
    return PodState("Running", task.node.name, task.groups, list(zones) if zones else None)


def _initial(pod: Mapping[str, Any]) -> PodState:
    return PodState(pod["status"], pod.get("node") or "", tuple(pod.get("gpu_groups") or ()))


def _config(scenario: Mapping[str, Any]) -> SchedulerConfig:
    told = scenario["session"]
    gates = told.get("feature_gates") or {}
    params = EngineParams(
        max_consolidation_preemptees=told.get("max_number_consolidation_preemptees", 16),
        allow_consolidating_reclaim=told.get("allow_consolidating_reclaim", True),
        default_staleness_grace_seconds=float(told.get("staleness_grace_period_s", 60)),
        dynamic_resources=bool(gates.get("DynamicResourceAllocation", True)),
        keep_nominations=False,
    )
    conf = told.get("scheduler_conf")
    if isinstance(conf, Mapping):
        return SchedulerConfig.of(conf, params=params)
    config = SchedulerConfig(params=params)
    if not told.get("predicates_plugin", True):
        config = replace(config, plugins=tuple(each for each in config.plugins if each.name != "predicates"))
    if told.get("numa_plugin"):
        config = replace(config, plugins=(*config.plugins, PluginOption("numa")))
    return config
