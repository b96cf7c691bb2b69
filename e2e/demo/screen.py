"""What the audience sees: a live page on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kai_cli.output import console, table
from kai_cli.views import nodes, queues

from .story import Seen, Step
from .world import World

_WAITING, _RUNNING, _DONE, _FAILED = "·", "▶", "✔", "✘"


class Screen:
    """Follows the story. On a terminal the page stays: steps above, nodes and queues below."""

    def __init__(self, story: Sequence[Step]) -> None:
        self._story = story
        self._marks = [_WAITING] * len(story)
        self._facts = [""] * len(story)
        self._seconds = [0.0] * len(story)
        self._world: World | None = None
        self._console = console()
        self._live = Live(console=self._console, auto_refresh=False) if sys.stdout.isatty() else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line outside the story."""
        # An address that is folded leads nowhere.
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def begin(self, number: int) -> None:
        """A step begins."""
        self._marks[number] = _RUNNING
        if self._live is None:
            self.say(f"{_RUNNING} {self._story[number].title}")
        self._draw()

    def show(self, number: int, seen: Seen, world: World, seconds: float) -> None:
        """What was seen just now."""
        self._facts[number], self._seconds[number], self._world = seen.facts, seconds, world
        self._draw()

    def end(self, number: int, seen: Seen, seconds: float) -> None:
        """A step is over."""
        self._marks[number] = _DONE if seen.done else _FAILED
        if self._live is None:
            verdict = "" if seen.done else "NOT AS TOLD: "
            self.say(f"  {self._marks[number]} {verdict}{seen.facts}  ({seconds:.1f} s)")
            if self._world is not None and not seen.done:
                self._console.print(self._picture(self._world))
        self._draw()

    def _draw(self) -> None:
        if self._live is None:
            return
        steps = Table(box=None, pad_edge=False, show_header=False)
        for step, mark, facts, seconds in zip(
            self._story, self._marks, self._facts, self._seconds, strict=True
        ):
            style = {_DONE: "green", _FAILED: "red", _RUNNING: "bold"}.get(mark, "dim")
            steps.add_row(
                mark,
                Text(step.title),
                Text(facts, style="dim"),
                f"{seconds:.1f} s" if seconds else "",
                style=style,
            )
        parts: list[RenderableType] = [steps]
        if self._world is not None:
            parts.append(self._picture(self._world))
        self._live.update(Group(*parts), refresh=True)

    def _picture(self, world: World) -> Group:
        node_rows = [row.cells() for row in nodes.table_of(world.nodes, world.pods)]
        queue_rows = [row.cells() for row in queues.tree(world.queues, {})]
        return Group(Text(""), table(nodes.COLUMNS, node_rows), Text(""), table(queues.COLUMNS, queue_rows))
