"""Somebody who looks at a board: what he was shown first, and what he was told since."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from kai.live.board import Board
from kai.live.views import Sight, View


class Looking:
    """Applies changes to a frame as a page does."""

    def __init__(self, board: Board, sight: Sight) -> None:
        self._view = View(board, sight, name="looking")
        self.bytes = b""
        self.shown: dict[str, Any] = {}
        self.begin()

    def begin(self) -> None:
        """Take the frame as it is now."""
        self.shown = self.anew()
        self._serial = int(self.shown["version"].rpartition("/")[2])
        self.devices = slots_of(self.shown)

    def anew(self) -> dict[str, Any]:
        """What somebody is shown who comes now."""
        data = self._view.frame("default")
        self.bytes += data
        return msgspec.json.decode(data)

    def follow(self, news: Any) -> None:
        """Have the view note what changed, and apply what it tells."""
        assert self._view.take(news)
        steps = self._view.after(self._serial)
        assert steps is not None
        for step in steps:
            self.bytes += step.data
            self._apply(msgspec.json.decode(step.data))

    def _apply(self, change: dict[str, Any]) -> None:
        shown = self.shown
        for name in ("version", "at", "waiting", "hidden"):
            shown[name] = change[name]
        self._serial = int(change["version"].rpartition("/")[2])
        for index, state, cells in change["nodes"]:
            shown["nodes"]["state"][index] = state
            self.devices[index] = [cell if isinstance(cell, int) else sorted(cell) for cell in cells]
        for index, *values in change["groups"]:
            columns = [shown["groups"][name] for name in ("queue", "state", "key")]
            for column, value in zip(columns, values, strict=True):
                assert index <= len(column)
                column[index:] = [value, *column[index + 1 :]]
        if change["queues"] is not None:
            shown["queues"] = change["queues"]

    def without_slots(self) -> dict[str, Any]:
        """All but devices, and but the moment, which is told with changes only."""
        return {name: told for name, told in self.shown.items() if name not in ("slots", "shared", "at")}


def slots_of(frame: dict[str, Any]) -> list[list[Any]]:
    """The devices of each node, shared ones with their parts."""
    left = iter(frame["slots"])
    found = []
    for count in frame["nodes"]["gpus"]:
        cells = [next(left) for _ in range(count)]
        found.append([cell if cell >= -1 else sorted(frame["shared"][-2 - cell]) for cell in cells])
    assert next(left, None) is None
    return found


def who_sits(frame: dict[str, Any], names: dict[int, str]) -> list[Counter[str]]:
    """Of each node how often each is seen, whatever the place."""
    keys = frame["groups"]["key"]

    def named(cell: Any) -> str:
        if isinstance(cell, int):
            return "free" if cell == -1 else names[keys[cell]]
        return str(sorted((names[keys[group]] if group >= 0 else "", part) for group, part in cell))

    return [Counter(map(named, cells)) for cells in slots_of(frame)]
