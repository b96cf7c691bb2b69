"""How many pods a component of a workload stands for, by its Karta definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kai.grouping.errors import InvalidWorkload
from kai.grouping.karta import jq_paths
from kai.grouping.karta.definition import Component, Definition
from kai.model.objects import Json


@dataclass(frozen=True, slots=True)
class Scales:
    """The workload ``body``, seen through its definition."""

    definition: Definition
    body: Json
    of: str

    def of_subtree(self, name: str, instance: str | None = None) -> int:
        """Pods in the subtree: least or wanted replicas, multiplied down the tree.

        Without any scale definition, the number of components (and instances) that have pods. ``instance``
        narrows the top component.

        Raises:
            InvalidWorkload: a path gives something else than numbers, or there is no such instance.
        """
        if any(component.scale_definition for component in self.definition.components.values()):
            return self._by_scale(name, instance)
        return self._by_leaves(name, instance)

    def instances(self, component: Component) -> list[str]:
        """The ids of the component's instances; one empty id if it has no such distinction."""
        if component.instance_id_path is None:
            return [""]
        ids = self._evaluate(component.instance_id_path)
        for found in ids:
            if not isinstance(found, str) or not found:
                raise InvalidWorkload(
                    f"{self.of}: {component.instance_id_path} must give names, but gives {found!r}"
                )
        return ids

    def _by_scale(self, name: str, instance: str | None) -> int:
        component = self.definition.component(name)
        own = self._own_scale(component, instance)
        below = sum(self._by_scale(child.name, None) for child in self.definition.children(name))
        return own * below if own and below else own or below

    def _own_scale(self, component: Component, instance: str | None) -> int:
        scale = component.scale_definition
        if scale is None:
            return 0
        replicas, least = self._numbers(scale.replicas_path), self._numbers(scale.min_replicas_path)
        count, ids = max(len(replicas), len(least)), self.instances(component)
        if count != len(ids):
            raise InvalidWorkload(
                f"{self.of}: {self.definition.of} finds {count} scales"
                f" for {len(ids)} instances of {component.name!r}"
            )
        sizes = [_first_positive(least, replicas, at=i) for i in range(count)]
        if len(ids) > 1 and instance is not None:
            return dict(zip(ids, sizes, strict=True))[self._known(instance, ids)]
        return sum(sizes)

    def _by_leaves(self, name: str, instance: str | None) -> int:
        component = self.definition.component(name)
        if not component.has_pods:
            return sum(self._by_leaves(child.name, None) for child in self.definition.children(name))
        ids = self.instances(component)
        if component.instance_id_path is not None and instance is not None:
            self._known(instance, ids)
            return 1
        return len(ids)

    def _known(self, instance: str, ids: list[str]) -> str:
        if instance not in ids:
            raise InvalidWorkload(f"{self.of}: there is no instance {instance!r}, only {', '.join(ids)}")
        return instance

    def _numbers(self, path: str | None) -> list[int]:
        """The numbers at ``path``, 0 for null."""
        found = [] if path is None else self._evaluate(path)
        for number in found:
            if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
                raise InvalidWorkload(f"{self.of}: {path} must give integers, but gives {number!r}")
        return [number or 0 for number in found]

    def _evaluate(self, path: str) -> list[Any]:
        try:
            return jq_paths.evaluate(path, self.body)
        except jq_paths.InvalidExpression as error:
            raise InvalidWorkload(f"{self.of}: {error}") from error


def _first_positive(*columns: list[int], at: int) -> int:
    return next((column[at] for column in columns if at < len(column) and column[at] > 0), 0)
