"""What a pod may say at most: asked by whoever takes it in, and by admission before it is stored.

Intake asks part by part, each where it reads it: most pods are like others that were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec

from kai.model import limits, names
from kai.model.limits import Limit
from kai.model.objects import ApiStruct, Pod, PodSpec
from kai.model.remembered import forgettable
from kai.model.rules.host_ports import host_ports_of
from kai.snapshot.asked import asked
from kai.snapshot.constraints import config_maps_of
from kai.snapshot.gpu_need import gpu_annotations
from kai.snapshot.group_order import GroupOrder
from kai.snapshot.resources import ResourceTable
from kai.snapshot.shapes import conform

_ORDER: Final = GroupOrder()
_NO_NODES: Final = ResourceTable()
_encode: Final = msgspec.msgpack.Encoder().encode
#: Users decide how long inputs are: longer ones are not remembered, but looked at each time.
_SHORT: Final = 1024
_MOST_BORNE: Final = 1024


class _Inputs(set[bytes]):
    cache_clear = set.clear


#: What pods asked for and may: those of a workload ask for the same.
_borne: Final = forgettable(_Inputs())


def _at_most(limit: Limit) -> msgspec.Meta:
    return msgspec.Meta(max_length=limit.most)


class _Expression(ApiStruct):
    key: str = ""
    operator: str = ""
    values: Annotated[list[str], _at_most(limits.VALUES)] | None = None


_Expressions = Annotated[list[_Expression], _at_most(limits.EXPRESSIONS)]


class _Selector(ApiStruct):
    match_labels: Annotated[dict[str, str], _at_most(limits.EXPRESSIONS)] | None = None
    match_expressions: _Expressions | None = None


class _NodeTerm(ApiStruct):
    match_expressions: _Expressions | None = None
    match_fields: _Expressions | None = None


class _NodeTerms(ApiStruct):
    node_selector_terms: Annotated[list[_NodeTerm], _at_most(limits.NODE_TERMS)] | None = None


_Weight = Annotated[int, msgspec.Meta(ge=limits.WEIGHT.least, le=limits.WEIGHT.most)]


class _PreferredNode(ApiStruct):
    weight: _Weight = 0
    preference: _NodeTerm = msgspec.field(default_factory=_NodeTerm)


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class _NodeAffinity(ApiStruct):
    required: _NodeTerms | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: Annotated[list[_PreferredNode], _at_most(limits.NODE_TERMS)] | None = msgspec.field(
        default=None, name=_PREFERRED
    )


class _PodTerm(ApiStruct):
    topology_key: str = ""
    label_selector: _Selector | None = None
    namespace_selector: _Selector | None = None
    namespaces: Annotated[list[str], _at_most(limits.VALUES)] | None = None
    match_label_keys: Annotated[list[str], _at_most(limits.EXPRESSIONS)] | None = None
    mismatch_label_keys: Annotated[list[str], _at_most(limits.EXPRESSIONS)] | None = None


class _PreferredPod(ApiStruct):
    weight: _Weight = 0
    pod_affinity_term: _PodTerm = msgspec.field(default_factory=_PodTerm)


class _PodAffinity(ApiStruct):
    required: Annotated[list[_PodTerm], _at_most(limits.POD_TERMS)] | None = msgspec.field(
        default=None, name=_REQUIRED
    )
    preferred: Annotated[list[_PreferredPod], _at_most(limits.POD_TERMS)] | None = msgspec.field(
        default=None, name=_PREFERRED
    )


class _Affinity(ApiStruct):
    node_affinity: _NodeAffinity | None = None
    pod_affinity: _PodAffinity | None = None
    pod_anti_affinity: _PodAffinity | None = None


_Skew = Annotated[int, msgspec.Meta(ge=limits.SKEW.least, le=limits.SKEW.most)]


class _Spread(ApiStruct):
    topology_key: str = ""
    max_skew: _Skew = 1
    min_domains: _Skew | None = None
    when_unsatisfiable: str = ""
    label_selector: _Selector | None = None
    match_label_keys: Annotated[list[str], _at_most(limits.EXPRESSIONS)] | None = None


_Spreads = Annotated[list[_Spread], _at_most(limits.SPREAD)]


class _ClaimReference(ApiStruct):
    claim_name: str = ""


class _ConfigMapReference(ApiStruct):
    name: str = ""
    optional: bool | None = None


class _Volume(ApiStruct):
    name: str = ""
    persistent_volume_claim: _ClaimReference | None = None
    config_map: _ConfigMapReference | None = None


class _ValueFrom(ApiStruct):
    config_map_key_ref: _ConfigMapReference | None = None


class _Variable(ApiStruct):
    value_from: _ValueFrom | None = None


class _Variables(ApiStruct):
    config_map_ref: _ConfigMapReference | None = None


def check(pod: Pod) -> None:
    """All that a pod says for itself. How many pods its group has, and what its claims are, it does not know.

    Raises:
        OutOfBounds: a field is beyond its bounds, or has not the type that it must have.
    """
    if pod.labels:
        check_devices(pod.labels)
        _ORDER.key(pod.labels, 0.0, "")
    check_scheduling(pod)
    limits.POD_CLAIMS.check_count(pod.spec.resource_claims)
    _check_asked(pod)


def _check_asked(pod: Pod) -> None:
    spec = pod.spec
    inputs = _encode(
        (
            [each.resources for each in spec.containers],
            [(each.resources, each.restart_policy) for each in spec.init_containers or ()],
            spec.overhead,
            spec.resources,
            gpu_annotations(pod),
        )
    )
    if inputs in _borne:
        return
    asked(pod, _NO_NODES)
    if len(inputs) <= _SHORT:
        if len(_borne) >= _MOST_BORNE:
            _borne.clear()
        _borne.add(inputs)


def check_devices(labels: Mapping[str, str]) -> None:
    """Raises OutOfBounds for labels that name more shared devices than a pod may have."""
    if len(labels) > limits.GPU_GROUPS.most:  # of nearly no pod there is
        limits.GPU_GROUPS.check(sum(key.startswith(names.MULTI_GPU_GROUP_PREFIX) for key in labels))


def check_scheduling(pod: Pod) -> None:
    """What decides where a pod may run, but for its claims.

    Raises:
        OutOfBounds: there is too much of it, or a part of it has not the type that it must have.
    """
    spec = pod.spec
    containers = len(spec.containers) + len(spec.init_containers or ())
    limits.CONTAINERS.check(containers)
    limits.SELECTOR.check_count(spec.node_selector)
    limits.TOLERATIONS.check_count(spec.tolerations)
    limits.HOST_PORTS.check_count(host_ports_of(pod))
    limits.VOLUMES.check_count(spec.volumes)
    _check_references(spec)
    limits.CONFIG_MAPS.check_count(config_maps_of(pod))
    if spec.priority:
        limits.POD_PRIORITY.check(spec.priority)
    demanded = 0
    if spec.affinity:
        affinity: _Affinity = conform(spec.affinity, _Affinity, field="spec.affinity")
        limits.NODE_REQUIREMENTS.check(sum(map(_expressions, _terms_about_nodes(affinity))))
        demanded += sum(_demands(term) for term in _terms_about_pods(affinity))
    if spec.topology_spread_constraints:
        spread: list[_Spread] = conform(
            spec.topology_spread_constraints, _Spreads, field="spec.topologySpreadConstraints"
        )
        demanded += sum(_demands(each) for each in spread)
    limits.TERM_REQUIREMENTS.check(demanded)


def _check_references(spec: PodSpec) -> None:
    """What has to be there before a pod can run is named as it must be."""
    if spec.volumes:
        conform(spec.volumes, list[_Volume], field="spec.volumes")
    for role, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for number, each in enumerate(containers or ()):
            field = f"spec.{role}[{number}]"
            if each.env:
                conform(each.env, list[_Variable], field=f"{field}.env")
            if each.env_from:
                conform(each.env_from, list[_Variables], field=f"{field}.envFrom")


def _terms_about_nodes(affinity: _Affinity) -> Iterator[_NodeTerm]:
    rules = affinity.node_affinity
    if rules is not None:
        if rules.required is not None:
            yield from rules.required.node_selector_terms or ()
        yield from (each.preference for each in rules.preferred or ())


def _expressions(term: _NodeTerm) -> int:
    return len(term.match_expressions or ()) + len(term.match_fields or ())


def _terms_about_pods(affinity: _Affinity) -> Iterator[_PodTerm]:
    for rules in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if rules is not None:
            yield from rules.required or ()
            yield from (each.pod_affinity_term for each in rules.preferred or ())


def _demands(term: _PodTerm | _Spread) -> int:
    """How many labels and expressions a pod is held against for a term."""
    selectors = [term.label_selector]
    keys = len(term.match_label_keys or ())
    if isinstance(term, _PodTerm):
        selectors.append(term.namespace_selector)
        keys += len(term.mismatch_label_keys or ())
    return keys + sum(
        len(each.match_labels or ()) + len(each.match_expressions or ())
        for each in selectors
        if each is not None
    )
