"""Names of resources and their columns in node matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kai.model import decisions, limits
from kai.model.rules.gpus import is_gpu, is_mig, mig_gpus

#: The first columns are in the order of :data:`~kai.model.decisions.ResourceVector`, so both are read alike.
CPU: Final = decisions.CPU
MEMORY: Final = decisions.MEMORY
GPU: Final = decisions.GPU
PODS: Final = 3
#: Whatever no node offers: nodes have none of it, and pods ask for one where they ask for anything of it.
NOBODY: Final = 4

_FIXED: Final = ("cpu", "memory", "gpu", "pods", "")
_WHOLE: Final = frozenset(("memory", "pods", "storage", "ephemeral-storage"))


class Wanted(NamedTuple):
    """What somebody asks for: amounts by column, and by name what no node offers."""

    amounts: dict[int, int]
    unoffered: dict[str, int]


class ResourceTable:
    """The shared index of resource names: column 0 CPU, 1 memory, 2 GPU, 3 pods, then what nodes offer.

    A name that a pod makes up gets no column, or whoever may create pods could make all matrices as wide as
    he likes: :data:`NOBODY` stands for all of them.

    Amounts are integers: CPU in thousandths, memory in bytes, GPUs, pods, storage and MIG devices by count,
    everything else in thousandths.
    """

    __slots__ = ("_columns", "_last_offer", "mig", "names")

    def __init__(self) -> None:
        self.names: list[str] = list(_FIXED)
        self._columns: dict[str, int] = {name: column for column, name in enumerate(_FIXED) if name}
        #: (column, GPUs per device) of every MIG profile that nodes offer.
        self.mig: list[tuple[int, int]] = []
        #: What the last node said that it offers, and the amounts: those of a pool say the same.
        self._last_offer: tuple[Mapping[str, str], dict[int, int]] = ({}, {})

    def __len__(self) -> int:
        return len(self.names)

    def offered(self, name: str) -> int:
        """The column of a resource that nodes offer; a name not seen before gets the next one."""
        column = self._columns.get(name)
        if column is None:
            if is_gpu(name):
                column = GPU
            else:
                column = len(self.names)
                self.names.append(name)
                if gpus := mig_gpus(name):
                    self.mig.append((column, gpus))
            self._columns[name] = column
        return column

    def column(self, name: str) -> int:
        """The column of a resource; :data:`NOBODY` for one that no node offers."""
        return GPU if is_gpu(name) else self._columns.get(name, NOBODY)

    def knows(self, name: str) -> bool:
        """Whether there is a column for it: any node offers it, or once did."""
        return self.column(name) != NOBODY

    def unit(self, name: str) -> int:
        """How many of a column's units make one of the resource."""
        return 1 if name in _WHOLE or is_gpu(name) or is_mig(name) else 1000

    def limit(self, name: str) -> limits.Limit:
        """The bounds of what a pod may ask for of a resource, in units of its column."""
        return limits.WHOLE_GPUS if is_gpu(name) else limits.AMOUNT

    def wanted(self, requests: Mapping[str, str]) -> dict[str, int]:
        """Amounts by name, in units of their columns.

        Raises:
            OutOfBounds: one of them cannot be read, or no cluster has so much.
        """
        return {
            name: self.limit(name).quantity(text, f"resources.requests[{name}]", scale=self.unit(name))
            for name, text in requests.items()
        }

    def split(self, amounts: Mapping[str, int]) -> Wanted:
        """Amounts by column of what nodes offer, and the rest by name.

        Raises:
            OutOfBounds: together they are more than any cluster has.
        """
        found = Wanted({}, {})
        for name, amount in amounts.items():
            self.limit(name).check(amount, f"requests of {name} in all")
            column = self.column(name)
            if column != NOBODY:
                found.amounts[column] = found.amounts.get(column, 0) + amount
            elif amount > 0:
                found.unoffered[name] = amount
                found.amounts[NOBODY] = 1
        return found

    def offer(self, allocatable: Mapping[str, str]) -> dict[int, int]:
        """What a node offers, by column; each name gets one.

        Raises:
            OutOfBounds: one of them cannot be read, or no node has so much.
        """
        said, found = self._last_offer
        if allocatable == said:
            return found.copy()
        limits.NODE_RESOURCES.check_count(allocatable)
        parsed = {
            name: (limits.NODE_GPUS if is_gpu(name) else limits.ALLOCATABLE).quantity(
                text, f"status.allocatable[{name}]", scale=self.unit(name)
            )
            for name, text in allocatable.items()
        }
        amounts: dict[int, int] = {}
        for name, amount in parsed.items():
            column = self.offered(name)
            amounts[column] = amounts.get(column, 0) + amount
        self._last_offer = (dict(allocatable), amounts.copy())
        return amounts

    def named_amounts(
        self, column: int, *, amount: int, unoffered: Iterable[tuple[str, int]]
    ) -> Iterable[tuple[str, int]]:
        """The names and amounts that stand behind an amount of a column, as users know them."""
        return unoffered if column == NOBODY else ((self.names[column], amount),)
