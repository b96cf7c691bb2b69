"""Views of classes, made when they are first asked for, and kept while no node's object changes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from kai.engine.kernel.preferences import preferences
from kai.engine.kernel.static import StaticFilters
from kai.engine.kernel.view import ClassView, Demand, ScoreOptions, ranked_by
from kai.snapshot.classes import GpuKind, TaskClass
from kai.snapshot.table import NodeTable

#: Classes with the same differ in nothing that nodes are ranked by, only in what else has to fit: nodes that
#: are allowed, whether they are charged for GPUs, whether they belong where GPUs are, and for how many they
#: ask; those that are charged for none, for how much CPU.
Kin: TypeAlias = tuple[bytes, bool, bool, int]


class Views:
    """One view for each class, and some of what several have in common."""

    def __init__(self, table: NodeTable, static: StaticFilters, options: ScoreOptions) -> None:
        self._table = table
        self._static = static
        self.options = options
        self._of_classes: dict[int, ClassView] = {}
        self._kin_of_classes: dict[int, Kin | None] = {}
        #: By what has to fit.
        self._of_kin: dict[tuple[Kin, Demand], ClassView] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._of_classes) + len(self._of_kin)

    def clear(self) -> None:
        """Keep none."""
        self._of_classes.clear()
        self._kin_of_classes.clear()
        self._of_kin.clear()

    def lent(self) -> Views:
        """The same views, for somebody whose classes nobody else knows."""
        views = Views(self._table, self._static, self.options)
        views._of_classes |= self._of_classes
        views._kin_of_classes |= self._kin_of_classes
        views._of_kin |= self._of_kin
        return views

    def of(self, cls: TaskClass) -> ClassView:
        """Fits and scores of a class on all nodes; refresh before reading.

        The first time costs time by the number of nodes, a refresh by those on which something came or went.
        """
        view = self._of_classes.get(cls.id)
        if view is None:
            allowed = self._static.mask(cls)
            preferred = preferences(self._static, cls, allowed) if self.options.preferences else None
            view = self._of_classes[cls.id] = ClassView(
                cls, self._table, allowed, options=self.options, preferred=preferred
            )
        return view

    def kin(self, cls: TaskClass) -> Kin | None:
        """What a class that shares no devices has in common with others; None where it has nothing."""
        try:
            return self._kin_of_classes[cls.id]
        except KeyError:
            kin = self._kin_of_classes[cls.id] = self._find_kin(cls)
            return kin

    def _find_kin(self, cls: TaskClass) -> Kin | None:
        if cls.kind is GpuKind.MIG or self.options.keeps_room(cls):
            return None
        allowed = self._static.mask(cls)
        if self.options.preferences and preferences(self._static, cls, allowed) is not None:
            return None
        return allowed.tobytes(), cls.cpu_only, cls.for_gpus, dict(cls.items).get(ranked_by(cls), 0)

    def asking(self, cls: TaskClass, demand: Demand) -> ClassView:
        """The view of somebody who asks for no more than a class, and is of its kin, which it has."""
        if demand == self.options.demand(cls):
            return self.of(cls)
        kin = self.kin(cls)
        assert kin is not None
        view = self._of_kin.get((kin, demand))
        if view is None:
            allowed = np.frombuffer(kin[0], dtype=bool)
            view = ClassView(cls, self._table, allowed, options=self.options, items=demand)
            self._of_kin[kin, demand] = view
        return view
