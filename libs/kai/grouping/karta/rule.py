"""Grouping of kinds that no code here knows, by a Karta definition that the cluster has for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from kai.grouping.draft import GroupDraft, constraint, leaf
from kai.grouping.errors import InvalidWorkload, ReadForbidden
from kai.grouping.karta import definition as definitions
from kai.grouping.karta import jq_paths
from kai.grouping.karta.definition import Component, Definition, Member, PodGroupMapping, Topology
from kai.grouping.karta.scale import Scales
from kai.grouping.workload import Workload
from kai.model.objects import Json, SubGroup, TopologyConstraint

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

_DIGEST: Final = 8


async def group(workload: Workload) -> GroupDraft | None:
    """The group by the one definition for the owner's kind; ``None`` if there is none, or no single one.

    Raises:
        InvalidWorkload: the definition does not fit the workload.
    """
    definition = await _definition(workload)
    if definition is None:
        return None
    pod = _Pod(await workload.cluster.pod_body(workload.pod), f"Pod {workload.pod.key}")
    scales = Scales(definition, dict(workload.top.content), workload.top.of)
    draft = workload.draft()
    if definition.gang.pod_group is not None:
        return _as_one_group(workload, draft, definition.gang.pod_group, scales, pod)
    return _by_keys(workload, draft, scales, pod)


async def _definition(workload: Workload) -> Definition | None:
    found: list[Definition] = []
    try:
        documents = await workload.cluster.definitions(workload.top)
    except ReadForbidden as error:
        workload.notes.append(f"{error}; {workload.top.of} is grouped as if there were none")
        return None
    for document in documents:
        if not jq_paths.available():
            workload.notes.append(f"{document.of} is ignored: the library jq (extra karta) is not installed")
            return None
        try:
            definition = definitions.parse(document, workload.top)
        except InvalidWorkload as error:
            workload.notes.append(f"{error}; the definition is ignored")
            continue
        if definition is not None:
            found.append(definition)
    if len(found) > 1:
        known = ", ".join(one.of for one in found)
        workload.notes.append(f"several definitions for {workload.top.kind} are ignored; keep one of {known}")
    return found[0] if len(found) == 1 else None


def _as_one_group(
    workload: Workload, draft: GroupDraft, mapping: PodGroupMapping, scales: Scales, pod: _Pod
) -> GroupDraft:
    """Each listed component is a subgroup."""
    draft.name = f"pg-{workload.top.uid}-{mapping.name}"
    if mapping.topology is not None:
        whole = _constraint(mapping.topology, scales.definition)
        draft.topology = whole.topology
        draft.required_level, draft.preferred_level = (
            whole.required_topology_level,
            whole.preferred_topology_level,
        )
    parts: list[SubGroup] = []
    for sub_group in mapping.sub_groups:
        component = scales.definition.component(sub_group.component_name)
        size = scales.of_subtree(component.name)
        if size == 0:
            raise InvalidWorkload(
                f"{scales.of}: {scales.definition.of} finds no replicas of {component.name!r}"
            )
        topology = _constraint(sub_group.topology, scales.definition) if sub_group.topology else None
        parts.append(leaf(component.name, size, topology=topology))
        if not draft.pod_sub_group and any(
            pod.is_of(part) for part in _subtree(scales.definition, component)
        ):
            draft.pod_sub_group = component.name
    draft.sub_groups = tuple(parts)
    if parts:
        draft.min_member, draft.min_sub_group = None, len(parts)
    else:
        draft.min_member = scales.of_subtree(scales.definition.structure.root_component.name)
    return draft


def _by_keys(workload: Workload, draft: GroupDraft, scales: Scales, pod: _Pod) -> GroupDraft:
    """The older form: pods of a component with equal keys are a group."""
    definition = scales.definition
    component = _component_of(pod, definition)
    effective, member = _member(pod, definition, component)
    instance = _instance(pod, effective, scales) if effective is component else None
    keys = [pod.single(path) for path in member.group_by_key_paths]
    draft.name = _name(workload, keys)
    if keys and (len(draft.name) > 253 or not _SUBDOMAIN.fullmatch(draft.name)):
        raise InvalidWorkload(
            f"{pod.of}: {', '.join(member.group_by_key_paths)} must give parts of a name in lower case"
            f" letters, digits, - and ., but give {draft.name!r}"
        )
    draft.min_member = scales.of_subtree(effective.name, instance)
    return draft


def _name(workload: Workload, keys: list[str]) -> str:
    """By the keys, with a digest of them where another list of keys may join to the same name.

    A group that an earlier release named without one stays, lest a gang is torn in two.
    """
    name = "-".join([f"pg-{workload.top.uid}", *keys])
    joined = len(keys) > 1 and any("-" in key for key in keys)
    if not joined or workload.cluster.pod_group(workload.pod.metadata.namespace, name) is not None:
        return name
    return f"{name}-{sha256('/'.join(keys).encode()).hexdigest()[:_DIGEST]}"


def _component_of(pod: _Pod, definition: Definition) -> Component:
    with_pods = [component for component in definition.components.values() if component.has_pods]
    if len(with_pods) == 1:
        return with_pods[0]
    for component in with_pods:
        if pod.is_of(component):
            return component
    raise InvalidWorkload(f"{pod.of} belongs to no component of {definition.of}")


def _member(pod: _Pod, definition: Definition, component: Component) -> tuple[Component, Member]:
    """The first group that lists the pod's component, or one above it, and whose filters the pod passes."""
    for above in definition.ancestry(component.name):
        for pod_group in definition.gang.pod_groups:
            for member in pod_group.members:
                if member.component_name == above.name and all(
                    pod.single(f) == "true" for f in member.filters
                ):
                    return above, member
    raise InvalidWorkload(f"{pod.of} belongs to no pod group of {definition.of}")


def _instance(pod: _Pod, component: Component, scales: Scales) -> str | None:
    selector = component.selector.component_instance_selector
    ids = scales.instances(component)
    if selector is None or not ids or not ids[0]:
        return None
    found = pod.single(selector.id_path)
    if found not in ids:
        raise InvalidWorkload(
            f"{pod.of}: {selector.id_path} must be one of {', '.join(ids)}, but is {found!r}"
        )
    return found


def _subtree(definition: Definition, component: Component) -> Iterator[Component]:
    yield component
    for child in definition.children(component.name):
        yield from _subtree(definition, child)


def _constraint(topology: Topology, definition: Definition) -> TopologyConstraint:
    name, required = topology.topology_name, topology.required_topology_level
    found = constraint(name, required, topology.preferred_topology_level)
    if found is None or not name or not (required or topology.preferred_topology_level):
        raise InvalidWorkload(
            f"{definition.of}: a topology needs topologyName and a required or preferred level"
        )
    return found


class _Pod:
    """A whole pod, asked by jq."""

    def __init__(self, body: Json, of: str) -> None:
        self._body = body
        self.of = of

    def is_of(self, component: Component) -> bool:
        """Whether the component's type selector finds the pod."""
        selector = component.selector.component_type_selector
        if selector is None:
            return False
        found = self._evaluate(selector.key_path)
        if selector.value is None:
            return any(result is not None for result in found)
        return any(result == selector.value for result in found)

    def single(self, expression: str) -> str:
        """The one result as text."""
        found = self._evaluate(expression)
        if len(found) != 1 or found[0] in (None, ""):
            raise InvalidWorkload(f"{self.of}: {expression} must give one value, but gives {found}")
        return str(found[0]).lower() if isinstance(found[0], bool) else str(found[0])

    def _evaluate(self, expression: str) -> list[Any]:
        try:
            return jq_paths.evaluate(expression, self._body)
        except jq_paths.InvalidExpression as error:
            raise InvalidWorkload(f"{self.of}: {error}") from error
