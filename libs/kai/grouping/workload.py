"""What a rule is given, what it gives, and how a module of rules declares its kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kai.grouping import default_rule
from kai.grouping.cluster import Cluster
from kai.grouping.draft import GroupDraft
from kai.grouping.objects.documents import Document, ObjectRef
from kai.grouping.objects.pods import Pod
from kai.grouping.options import GroupingOptions
from kai.grouping.walk import is_of

ANY_VERSION: Final = "*"


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod and what owns it. ``owners``, nearest first, end with ``top``; none if the pod is its own top.

    ``exact_rule`` gives the rule of a kind in just its version, for rules that hand over to another.
    ``notes`` gathers what was ignored since it makes no sense; it ends up in the log.
    """

    pod: Pod
    top: Document
    owners: tuple[Document, ...]
    cluster: Cluster
    options: GroupingOptions
    exact_rule: Callable[[Document], Rule | None]
    notes: list[str] = field(default_factory=list)

    def draft(self, *, fallback_class: str = default_rule.TRAIN, all_owners: bool = False) -> GroupDraft:
        """The default rule's group of the top owner, to be changed at will."""
        return default_rule.default_draft(
            self.top,
            self.pod,
            owners=self.owners if all_owners else (),
            cluster=self.cluster,
            options=self.options,
            fallback_class=fallback_class,
            notes=self.notes,
        )

    def under(self, top: Document) -> Workload:
        """The same pod as if ``top`` alone owned it."""
        return replace(self, top=top, owners=(top,))

    async def read(self, api_version: str, kind: str, name: str, *, fresh: bool = False) -> Document:
        """Another object in the pod's namespace.

        Raises:
            LookupFailed: it cannot be read.
        """
        ref = ObjectRef(api_version, kind, self.pod.metadata.namespace, name)
        return await self.cluster.get(ref, fresh=fresh)

    async def pods(self, labels: Mapping[str, str]) -> list[Pod]:
        """The pods of our scheduler with all these labels that belong to the top owner.

        Names in labels are those of a former workload as well, whose pods may be there still.

        Raises:
            KubeError: it cannot be read at this moment whose they are.
        """
        ours: dict[str, bool] = {}
        found: list[Pod] = []
        for pod in self.cluster.pods(self.pod.metadata.namespace, labels):
            owner = next((each.uid for each in pod.metadata.owner_references or ()), "")
            if owner not in ours:
                ours[owner] = await is_of(pod, self.top, self.cluster)
            if ours[owner]:
                found.append(pod)
        return found


Rule = Callable[[Workload], Awaitable[GroupDraft]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of top owner and its rule. ``summary`` is what ``kai group --kinds`` says about it."""

    api_version: str
    kind: str
    summary: str
    rule: Rule


def kinds(
    api_versions: Sequence[str], kind_names: Sequence[str], summary: str, rule: Rule
) -> tuple[Kind, ...]:
    """The same rule for several kinds and versions."""
    return tuple(Kind(version, name, summary, rule) for name in kind_names for version in api_versions)
