"""Who sits on which device of a node.

Nobody but a kubelet knows which of a node's devices a pod was given, so places here are the picture's own:
who has some keeps them until he is gone, and who comes gets the first that are free. What shares a device
sits together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from kai.live.holders import Holder, holder_of
from kai.snapshot.classes import GpuKind
from kai.snapshot.rows import Node, Task

#: Nobody has it (0), all of it is a holder's (his number), or parts of it are: number and percent of each.
Cell: TypeAlias = int | tuple[tuple[int, int], ...]
FREE: Final = 0
_WHOLE: Final = 100
#: Into so many slices a device is cut at most; a queue is charged a whole GPU for each.
_SLICES: Final = 7


class Unit(NamedTuple):
    """What has ``devices`` of a node that look alike: a pod, a device that is shared, or a claim."""

    id: str
    devices: int
    cell: Cell


class Seats(NamedTuple):
    """Devices of a node in turn: whose each is by :attr:`Unit.id` (empty: nobody's), and what is seen."""

    ids: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def used_centi(self) -> int:
        """Hundredths of devices that are held."""
        return sum(map(_held, self.cells))

    @property
    def free(self) -> int:
        """Of how many devices nobody has anything."""
        return sum(cell == FREE for cell in self.cells)


def _held(cell: Cell) -> int:
    if isinstance(cell, int):
        return _WHOLE if cell != FREE else 0
    return min(sum(percent for _, percent in cell), _WHOLE)


#: All devices of a node that was not seen before.
UNSEEN: Final = Seats((), ())


def size(node: Node) -> int:
    """How many devices a node is drawn with; where it cuts them, those that it cuts."""
    return max(node.gpus, node.gpu_count if node.mig else 0, 0)


def seated(before: Seats, node: Node, number_of: Callable[[Holder], int]) -> Seats:
    """The devices of a node as they are now; who was there before keeps his places.

    What is held beyond the devices that there are is not seen. Costs time by the pods of the node.
    """
    units = sorted(_units(node, number_of))
    places = list(before.ids[: size(node)])
    places += [""] * (size(node) - len(places))
    left = {unit.id: unit.devices for unit in units}
    for place, there in enumerate(places):
        if left.get(there, 0) > 0:
            left[there] -= 1
        else:
            places[place] = ""
    free = (place for place, there in enumerate(places) if not there)
    for unit in units:
        for _, place in zip(range(left[unit.id]), free, strict=False):
            places[place] = unit.id
    seen: dict[str, Cell] = {unit.id: unit.cell for unit in units}
    return Seats(tuple(places), tuple(seen.get(there, FREE) for there in places))


def places_of(seats: Seats, task: Task) -> list[int]:
    """On which devices of its node a pod sits."""
    wanted = {task.uid, *task.groups, *(f"claim {key}" for key, _ in task.claims)}
    found = [place for place, there in enumerate(seats.ids) if there in wanted]
    return found if found or task.cls.kind is not GpuKind.MIG else _cut_for(seats, task)


def _cut_for(seats: Seats, task: Task) -> list[int]:
    return [place for place, there in enumerate(seats.ids) if task.uid in there.split(" ")[1:]]


def share_percent(task: Task, node: Node) -> int:
    """Which part of each of its devices a pod has there, at least 1."""
    if not task.cls.shared:
        return _WHOLE
    return max(1, round(_WHOLE * task.cls.part_mib(node.gpu_memory_mib) / max(node.gpu_memory_mib, 1)))


def _units(node: Node, number_of: Callable[[Holder], int]) -> Iterator[Unit]:
    shared: dict[str, dict[int, int]] = {}
    claims: dict[str, tuple[int, set[int]]] = {}
    cut: list[tuple[str, int, int]] = []
    for task in node.tasks.values():
        if task.node is not node or (task.facts is not None and task.facts.reservation):
            continue
        cls = task.cls
        if cls.cpu_only and not task.claims:
            continue
        number = number_of(holder_of(task))
        for group in task.groups:
            parts = shared.setdefault(group, {})
            parts[number] = parts.get(number, 0) + share_percent(task, node)
        for key, gpus in task.claims:
            claims.setdefault(key, (gpus, set()))[1].add(number)
        if cls.kind is GpuKind.WHOLE and cls.devices:
            yield Unit(task.uid, cls.devices, number)
        elif cls.kind is GpuKind.MIG:
            cut.append((task.uid, number, min(max(1, round(cls.gpu_centi / _SLICES)), _WHOLE)))
    for device, parts in shared.items():
        yield Unit(device, 1, tuple(sorted(parts.items())))
    for key, (gpus, users) in claims.items():
        whose = sorted(users)
        cell: Cell = (
            whose[0] if len(whose) == 1 else tuple((each, max(1, _WHOLE // len(whose))) for each in whose)
        )
        yield Unit(f"claim {key}", gpus, cell)
    yield from _cut(sorted(cut))


def _cut(pods: Sequence[tuple[str, int, int]]) -> Iterator[Unit]:
    """Devices that are cut. Which part is of which is not known, so one after the other is filled."""
    bins: list[tuple[list[str], dict[int, int]]] = []
    for uid, number, percent in pods:
        room = (each for each in bins if sum(each[1].values()) + percent <= _WHOLE)
        fitting = next(room, None)
        if fitting is None:
            bins.append(fitting := ([], {}))
        fitting[0].append(uid)
        fitting[1][number] = fitting[1].get(number, 0) + percent
    for uids, parts in bins:
        yield Unit(" ".join(["cut", *uids]), 1, tuple(sorted(parts.items())))
