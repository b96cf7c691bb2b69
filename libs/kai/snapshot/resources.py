"""Names of resources and their columns in node matrices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kai.model import names, quantity

CPU: Final = 0
MEMORY: Final = 1
GPU: Final = 2
PODS: Final = 3

_FIXED: Final = ("cpu", "memory", "gpu", "pods")
_WHOLE: Final = frozenset(("memory", "pods", "storage", "ephemeral-storage"))
_MIG: Final = re.compile(r"nvidia\.com/mig-([0-9]+)g\.[0-9]+gb.*")


def is_gpu(name: str) -> bool:
    """Whether a resource counts whole GPU devices, whoever made them."""
    return name.endswith("gpu") and not name.startswith("requests.")


def mig_gpus(name: str) -> int:
    """How many GPUs of quota one device of a MIG profile costs; 0 for any other resource."""
    match = _MIG.fullmatch(name)
    return int(match[1]) if match else 0


class ResourceTable:
    """The shared index of resource names: column 0 CPU, 1 memory, 2 GPU, 3 pods, then as discovered.

    Amounts are integers: CPU in thousandths, memory in bytes, GPUs, pods, storage and MIG devices by count,
    everything else in thousandths.
    """

    __slots__ = ("_columns", "mig", "names")

    def __init__(self) -> None:
        self.names: list[str] = list(_FIXED)
        self._columns: dict[str, int] = {name: column for column, name in enumerate(_FIXED)}
        #: (column, GPUs per device) of every MIG profile seen.
        self.mig: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.names)

    def column(self, name: str) -> int:
        """The column of a resource; a name not seen before gets the next one."""
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

    def known(self, name: str) -> int | None:
        """The column of a resource, if any object has named it."""
        return self._columns.get(name)

    def amount(self, name: str, text: str) -> int:
        """A quantity in the unit of its column."""
        if name in _WHOLE or is_gpu(name) or name.startswith(names.MIG_PREFIX):
            return quantity.whole(text)
        return quantity.milli(text)

    def vector(self, requests: Mapping[str, str]) -> dict[int, int]:
        """Amounts by column."""
        amounts: dict[int, int] = {}
        for name, text in requests.items():
            column = self.column(name)
            amounts[column] = amounts.get(column, 0) + self.amount(name, text)
        return amounts
