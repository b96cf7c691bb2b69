"""Where pods begin at once, one after the other: at the best node of each, and many of them at the same one.

Packing makes a node the better the fuller it is. So the best node stays the best for all who ask alike for
what nodes are ranked by, until one of them has no room there, whatever else each asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kai.engine.kernel.view import ClassView, Demand
from kai.engine.kernel.views import Kin, Views
from kai.snapshot.classes import TaskClass
from kai.snapshot.table import NodeTable

#: Of pods that ask for nothing.
_ANY_NUMBER: Final = 1 << 60
_NOBODY: Final[Mapping[int, Demand]] = {}


class Seats:
    """What is left on one node, which is the best for each who takes a seat there, as they come."""

    __slots__ = ("_cls", "_demand", "_demands", "_left", "_room", "_taken", "_took", "row")

    def __init__(self, table: NodeTable, row: int, demands: Mapping[int, Demand]) -> None:
        """``demands`` are of the classes, by id, that may take a seat."""
        self.row = row
        self._demands = demands
        idle, releasing = table.idle[row].tolist(), table.releasing[row].tolist()
        # What is promised to others is less than nothing of what is being released.
        self._left = [have + more if more < 0 else have for have, more in zip(idle, releasing, strict=True)]
        #: Who came last, how many more of them have room, and how many seats of theirs `_left` still has.
        self._cls: TaskClass | None = None
        self._demand: Demand = ()
        self._room = self._taken = 0
        #: How many seats classes took that came before that one.
        self._took: dict[TaskClass, int] = {}

    def take(self, cls: TaskClass) -> bool:
        """Take a seat for a pod of a class, if it may and there is one.

        Before: nothing changes in the cluster but that those who took one before are placed here.
        """
        if cls is not self._cls and not self._turn_to(cls):
            return False
        if self._room < 1:
            return False
        self._room -= 1
        self._taken += 1
        return True

    def _turn_to(self, cls: TaskClass) -> bool:
        """Count the room for pods of a class; false if they may not take a seat."""
        demand, left, taken = self._demands.get(cls.id), self._left, self._taken
        if demand is None:
            return False
        if self._cls is not None:
            self._took[self._cls] = self._took.get(self._cls, 0) + taken
            for column, amount in self._demand:
                left[column] -= amount * taken
        room = _ANY_NUMBER
        for column, amount in demand:
            if left[column] < amount * room:
                room = left[column] // amount
        self._cls, self._demand, self._room, self._taken = cls, demand, room, 0
        return True

    def close(self) -> None:
        """Nobody takes a seat any more."""
        self._demands, self._room = _NOBODY, 0

    def taken(self) -> dict[TaskClass, int]:
        """How many seats were taken, by the class of who took them."""
        found = dict(self._took)
        if self._cls is not None and self._taken:
            found[self._cls] = found.get(self._cls, 0) + self._taken
        return found


class _Family:
    """Classes of one kin for which seats were asked in this cycle, and the view of who asks for the least.

    What nodes are ranked by is the same for all of them, so the best node for the least is the best for each
    who has room there.
    """

    __slots__ = ("demands", "view")

    def __init__(self, view: ClassView) -> None:
        self.view = view
        self.demands: dict[int, Demand] = {}


class Seating:
    """Finds seats in one cycle, for classes of which nothing but amounts and static filters matters."""

    def __init__(self, views: Views, table: NodeTable) -> None:
        self._views = views
        self._table = table
        self._of_classes: dict[int, _Family] = {}
        self._of_kin: dict[Kin, _Family] = {}

    def at_best(self, cls: TaskClass) -> Seats | None:
        """Seats at the best node for a pod of a class, of which it has taken the first.

        None if no node has room for it, or if it would have to wait at the best one. The class shares no
        devices.
        """
        family = self._of_classes.get(cls.id) or self._join(cls)
        seats = self._seats(family.view, cls, family.demands)
        # Another may be the best for it only where that one has room for others alone.
        if seats is None and family.view.best() >= 0:
            demand = family.demands[cls.id]
            if demand != family.view.items:
                seats = self._seats(self._views.of(cls), cls, {cls.id: demand})
        return seats

    def _seats(self, view: ClassView, cls: TaskClass, demands: Mapping[int, Demand]) -> Seats | None:
        row = view.best()
        if row < 0:
            return None
        seats = Seats(self._table, row, demands)
        if not seats.take(cls):
            return None
        if not view.packs:
            seats.close()
        return seats

    def _join(self, cls: TaskClass) -> _Family:
        views = self._views
        demand, kin = views.options.demand(cls), views.kin(cls)
        family = self._of_kin.get(kin) if kin is not None else None
        if family is None:
            family = _Family(views.of(cls))
        elif (least := _least(family.view.items, demand)) != family.view.items:
            family.view = views.asking(cls, least)
        if kin is not None:
            self._of_kin[kin] = family
        family.demands[cls.id] = demand
        self._of_classes[cls.id] = family
        return family


def _least(some: Demand, others: Demand) -> Demand:
    """The smaller amount of each; what one of them does not ask for is not in it."""
    amounts = dict(others)
    return tuple((column, min(amount, amounts[column])) for column, amount in some if column in amounts)
