"""GPUs of resource claims, which neither the requests of pods nor what nodes can allocate tell of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kai.model.objects import Pod
from kai.model.rules.device_claims import claim_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedGpus:
    """What resource claims and slices tell of GPUs."""

    #: By claim (``namespace/name``).
    of_claims: Mapping[str, int] = field(default_factory=dict)
    #: What slices offer, by node.
    of_nodes: Mapping[str, int] = field(default_factory=dict)
    #: What could not be read, in a sentence; empty if nothing is missing.
    lacks: str = ""

    def claims(self, pod: Pod) -> Iterator[str]:
        """The claims of a pod that are for GPUs, each once."""
        keys = (f"{pod.metadata.namespace}/{entry.name}" for entry in claim_entries(pod) if entry.name)
        return (key for key in dict.fromkeys(keys) if key in self.of_claims)

    def gpus(self, pods: Iterable[Pod]) -> int:
        """How many these pods claim together; a claim that they share counts once."""
        return sum(self.of_claims[key] for key in {key for pod in pods for key in self.claims(pod)})


NOTHING_CLAIMED: Final = ClaimedGpus()
