"""``schedulerParams`` of a snapshot file: what the scheduler's flags said.

The original leaves out whatever is false, zero or empty. So where the object exists, what is absent is false
or zero, and not the flag's default; only where there is no object at all do the defaults hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from kai.config import EngineParams
from kai.model import names
from kai.snapshot.state import StateParams

_WHERE: Final = "schedulerParams"
_NANOSECONDS: Final = 1_000_000_000
#: Known, and without influence on what a cycle decides.
_WITHOUT_EFFECT: Final = frozenset(
    {"gpuSharingMode", "numOfStatusRecordingWorkers", "schedulePeriod", "updatePodEvictionCondition"}
)
#: Nothing here has them; a replay by the original needs some.
_WORKERS: Final = 5
_Value = TypeVar("_Value", bool, int, str)


class ParamsError(ValueError):
    """A field has the wrong type; the message names it."""


def read(document: Mapping[str, Any] | None) -> tuple[StateParams, EngineParams, tuple[str, ...]]:
    """The parameters, and notes about what was ignored or assumed.

    Raises:
        ParamsError: a field has the wrong type.
    """
    if not document:
        return StateParams(), EngineParams(), (f"{_WHERE} is missing; the defaults of all flags are taken",)
    fields = _Fields(document)
    pool = _Fields({key.lower(): value for key, value in fields.mapping("partitionParams").items()})
    state = StateParams(
        scheduler_name=fields.text("schedulerName") or names.SCHEDULER_NAME,
        # The original writes these two keys with capitals.
        node_pool_label_key=pool.text("nodepoollabelkey"),
        node_pool=pool.text("nodepoollabelvalue"),
        queue_label_key=fields.text("queueLabelKey") or names.QUEUE_LABEL,
        # Those of the original do not say where reservation pods are.
        reservation_namespace=fields.text("resourceReservationNamespace"),
        scaling_namespace=fields.text("scaleAdjustNamespace"),
        namespace=fields.text("installationNamespace") or names.NAMESPACE,
        restrict_node_scheduling=fields.flag("restrictSchedulingNodes"),
        # Those of the original do not say these three either.
        cpu_worker_label_key=fields.text("cpuWorkerNodeLabelKey") or names.CPU_WORKER_LABEL,
        gpu_worker_label_key=fields.text("gpuWorkerNodeLabelKey") or names.GPU_WORKER_LABEL,
        mig_worker_label_key=fields.text("migWorkerNodeLabelKey") or names.MIG_WORKER_LABEL,
        full_hierarchy_fairness=fields.flag("fullHierarchyFairness"),
        # Schedulers that are older than the flag do not write it.
        stuck_in_releasing_seconds=fields.seconds("stuckInReleasingThreshold")
        or StateParams().stuck_in_releasing_seconds,
    )
    engine = EngineParams(
        max_consolidation_preemptees=fields.integer("maxNumberConsolidationPreemptees"),
        default_staleness_grace_seconds=fields.seconds("globalDefaultStalenessGracePeriod"),
        use_scheduling_signatures=fields.flag("useSchedulingSignatures"),
        allow_consolidating_reclaim=fields.flag("allowConsolidatingReclaim"),
        detailed_fit_errors=fields.flag("detailedFitErrors"),
        schedule_csi_storage=fields.flag("scheduleCSIStorage"),
    )
    unknown = sorted(set(document) - fields.read - _WITHOUT_EFFECT)
    return state, engine, tuple(f"{_WHERE}.{name} is not known and was ignored" for name in unknown)


def document(
    state: StateParams,
    engine: EngineParams,
    *,
    schedule_period_seconds: float = 1.0,
    update_pod_eviction_condition: bool = False,
) -> dict[str, Any]:
    """The inverse of :func:`read`; durations are integer nanoseconds."""
    return {
        "schedulerName": state.scheduler_name,
        "resourceReservationNamespace": state.reservation_namespace,
        "scaleAdjustNamespace": state.scaling_namespace,
        "installationNamespace": state.namespace,
        "restrictSchedulingNodes": state.restrict_node_scheduling,
        "cpuWorkerNodeLabelKey": state.cpu_worker_label_key,
        "gpuWorkerNodeLabelKey": state.gpu_worker_label_key,
        "migWorkerNodeLabelKey": state.mig_worker_label_key,
        "partitionParams": {
            "NodePoolLabelKey": state.node_pool_label_key,
            "NodePoolLabelValue": state.node_pool,
        },
        "maxNumberConsolidationPreemptees": engine.max_consolidation_preemptees,
        "scheduleCSIStorage": engine.schedule_csi_storage,
        "useSchedulingSignatures": engine.use_scheduling_signatures,
        "fullHierarchyFairness": state.full_hierarchy_fairness,
        "allowConsolidatingReclaim": engine.allow_consolidating_reclaim,
        "numOfStatusRecordingWorkers": _WORKERS,
        "globalDefaultStalenessGracePeriod": _nanoseconds(engine.default_staleness_grace_seconds),
        "schedulePeriod": _nanoseconds(schedule_period_seconds),
        "stuckInReleasingThreshold": _nanoseconds(state.stuck_in_releasing_seconds),
        "detailedFitErrors": engine.detailed_fit_errors,
        "updatePodEvictionCondition": update_pod_eviction_condition,
        "queueLabelKey": state.queue_label_key,
    }


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)


class _Fields:
    """Typed reading of one object, which remembers what was asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.read: set[str] = set()
        self._values = values

    def flag(self, name: str) -> bool:
        return self._of(name, bool, "true or false")

    def integer(self, name: str) -> int:
        return self._of(name, int, "an integer")

    def seconds(self, name: str) -> float:
        return self._of(name, int, "an integer, in nanoseconds") / _NANOSECONDS

    def text(self, name: str) -> str:
        return self._of(name, str, "a string")

    def mapping(self, name: str) -> Mapping[str, Any]:
        self.read.add(name)
        value = self._values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ParamsError(f"{_WHERE}.{name} is {value!r}; it must be an object")
        return value

    def _of(self, name: str, kind: type[_Value], what: str) -> _Value:
        self.read.add(name)
        value = self._values.get(name)
        if value is None:
            return kind()
        if type(value) is not kind:
            raise ParamsError(f"{_WHERE}.{name} is {value!r}; it must be {what}")
        return value
