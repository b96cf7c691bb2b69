"""Karta definitions (``run.ai/v1alpha1``): the components of a kind of workload and how to schedule them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import msgspec

from kai.grouping.errors import InvalidWorkload
from kai.grouping.karta import jq_paths
from kai.grouping.karta.misspelt import misspelt
from kai.grouping.objects.documents import Document
from kai.model.objects import Json


class _Part(msgspec.Struct, rename="camel", kw_only=True):
    pass


class GroupVersionKind(_Part):
    """A kind of object."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Scale(_Part):
    """Where the numbers of pods stand."""

    replicas_path: str | None = None
    min_replicas_path: str | None = None


class TypeSelector(_Part):
    """Tells the component that a pod belongs to; without ``value`` the key must only exist."""

    key_path: str
    value: str | None = None


class InstanceSelector(_Part):
    """Tells the instance of a component that a pod belongs to."""

    id_path: str


class PodSelector(_Part):
    """How pods of a component are recognised."""

    component_type_selector: TypeSelector | None = None
    component_instance_selector: InstanceSelector | None = None


class PodTemplate(_Part):
    """Where pod templates stand; only whether there is one matters here."""

    pod_template_spec_path: str | None = None
    pod_spec_path: str | None = None
    fragmented_pod_spec_definition: Json | None = None

    @property
    def ways(self) -> int:
        """In how many ways the template is given; more than one is an error."""
        ways = (self.pod_template_spec_path, self.pod_spec_path, self.fragmented_pod_spec_definition)
        return sum(way is not None for way in ways)


class Component(_Part):
    """A node of the workload's tree."""

    name: str
    kind: GroupVersionKind | None = None
    owner_ref: str | None = None
    spec_definition: PodTemplate | None = None
    scale_definition: Scale | None = None
    status_definition: Json | None = None
    instance_id_path: str | None = None
    pod_selector: PodSelector | None = None

    @property
    def selector(self) -> PodSelector:
        """How its pods are recognised; by nothing if it does not say."""
        return self.pod_selector or PodSelector()

    @property
    def has_pods(self) -> bool:
        """Whether pods are made of this component directly."""
        return self.spec_definition is not None and self.spec_definition.ways > 0


class Structure(_Part):
    """The tree."""

    root_component: Component
    child_components: list[Component] = []


class Topology(_Part):
    """A topology constraint."""

    topology_name: str = ""
    preferred_topology_level: str = ""
    required_topology_level: str = ""


class SubGroupMapping(_Part):
    """A component that is a subgroup."""

    component_name: str
    topology: Topology | None = None


class PodGroupMapping(_Part):
    """The whole workload as one group."""

    name: str
    sub_groups: list[SubGroupMapping] = []
    topology: Topology | None = None


class Member(_Part):
    """A component in a group of the older form."""

    component_name: str
    group_by_key_paths: list[str] = []
    filters: list[str] = []


class PodGroupDefinition(_Part):
    """A group of the older form: pods with equal keys."""

    name: str
    members: list[Member] = []


class GangScheduling(_Part):
    """``podGroup`` is preferred to the older ``podGroups``."""

    pod_group: PodGroupMapping | None = None
    pod_groups: list[PodGroupDefinition] = []


class Instructions(_Part):
    """What schedulers are told."""

    gang_scheduling: GangScheduling | None = None


class _Spec(_Part):
    structure_definition: Structure
    optimization_instructions: Instructions = msgspec.field(default_factory=Instructions)


class Definition(msgspec.Struct, dict=True):
    """A valid definition with instructions for gangs."""

    of: str
    structure: Structure
    gang: GangScheduling

    @cached_property
    def components(self) -> dict[str, Component]:
        """By name, the root first."""
        every = (self.structure.root_component, *self.structure.child_components)
        return {component.name: component for component in every}

    def children(self, name: str) -> list[Component]:
        """The components right below."""
        return [component for component in self.components.values() if component.owner_ref == name]

    def ancestry(self, name: str) -> Iterator[Component]:
        """The component and those above it."""
        current: str | None = name
        while current is not None:
            yield self.components[current]
            current = self.components[current].owner_ref

    def component(self, name: str) -> Component:
        """A component by name.

        Raises:
            InvalidWorkload: there is none.
        """
        if name not in self.components:
            raise InvalidWorkload(f"{self.of}: there is no component {name!r}")
        return self.components[name]


def parse(document: Document, owner: Document) -> Definition | None:
    """The definition if it is for this owner's kind and says how to gang; ``None`` if it is not meant.

    Raises:
        InvalidWorkload: it is meant, and wrong.
    """
    if document.has("metadata", "deletionTimestamp"):
        return None
    content = document.at("spec").content
    try:
        spec = msgspec.convert(content, _Spec)
    except msgspec.ValidationError as error:
        raise InvalidWorkload(f"{document.of}: spec: {error}") from error
    root, gang = spec.structure_definition.root_component, spec.optimization_instructions.gang_scheduling
    if root.kind != GroupVersionKind(group=owner.group, version=owner.version, kind=owner.kind):
        return None
    if gang is None or not (gang.pod_group or gang.pod_groups):
        return None
    definition = Definition(document.of, spec.structure_definition, gang)
    for problem in (*misspelt(content, _Spec, "spec"), *_problems(definition)):
        raise InvalidWorkload(f"{document.of}: {problem}")
    return definition


def _problems(definition: Definition) -> Iterator[str]:
    root, children = definition.structure.root_component, definition.structure.child_components
    every = [root, *children]
    if len(definition.components) != len(every):
        yield "component names must be unique"
    if root.owner_ref is not None:
        yield "the root component must not have an ownerRef"
    if root.status_definition is None:
        yield "the root component needs a statusDefinition"
    for child in children:
        if child.owner_ref not in definition.components:
            yield f"component {child.name!r}: ownerRef must name a component, but is {child.owner_ref!r}"
    if _has_circle(definition):
        yield "the components' ownerRefs form a circle"
    for component in every:
        yield from _component_problems(component)
    for group in definition.gang.pod_groups:
        for member in group.members:
            if member.component_name not in definition.components:
                yield f"pod group {group.name!r}: there is no component {member.component_name!r}"
            yield from _expression_problems(*member.group_by_key_paths, *member.filters)


def _component_problems(component: Component) -> Iterator[str]:
    selector, scale = component.selector, component.scale_definition or Scale()
    by_type, by_instance = selector.component_type_selector, selector.component_instance_selector
    if not component.name:
        yield "a component has no name"
    if component.spec_definition is not None and component.spec_definition.ways > 1:
        yield f"component {component.name!r} has more than one pod specification"
    if (component.instance_id_path is None) != (by_instance is None):
        yield f"component {component.name!r} needs instanceIdPath and componentInstanceSelector, or neither"
    yield from _expression_problems(
        scale.replicas_path,
        scale.min_replicas_path,
        component.instance_id_path,
        by_type.key_path if by_type else None,
        by_instance.id_path if by_instance else None,
    )


def _expression_problems(*expressions: str | None) -> Iterator[str]:
    for expression in expressions:
        if expression is not None:
            try:
                jq_paths.check(expression)
            except jq_paths.InvalidExpression as error:
                yield str(error)


def _has_circle(definition: Definition) -> bool:
    for start in definition.components.values():
        seen, current = {start.name}, start.owner_ref
        while current in definition.components and current is not None:
            if current in seen:
                return True
            seen.add(current)
            current = definition.components[current].owner_ref
    return False
