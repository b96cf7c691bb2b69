"""All shards that can be looked at in this process."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kai.model import names
from kai_insight.live.shard import LiveShard

WAITING = "no scheduler of this shard has told how its cluster is yet; its next base is waited for"


class Live:
    """``away`` says why there are none; empty where there may be."""

    def __init__(self, away: str = "", *, leading: bool = True) -> None:
        self.away = away
        #: Whether this process follows schedulers; where it does not, another one may.
        self.leading = leading
        self._boot = secrets.token_hex(4)
        self._shards: dict[str, LiveShard] = {}

    @contextmanager
    def led(self) -> Iterator[None]:
        """This process follows schedulers while the block runs."""
        self.leading = True
        try:
            yield
        finally:
            self.leading = False

    @property
    def shards(self) -> Mapping[str, LiveShard]:
        """By name, as they are now; one may come or go while somebody looks at one after the other.

        The first is meant where none is named: the default one, where there is one.
        """
        return dict(sorted(self._shards.items(), key=lambda each: (each[0] != names.DEFAULT_SHARD, each[0])))

    def open(
        self, name: str, run: Callable[[Callable[[], Any]], Awaitable[Any]], *, lacks: str = ""
    ) -> LiveShard:
        """A shard from now on; ``run`` has something done in the thread that owns its state.

        ``lacks``: what of the cluster that state never has, to be told with whatever is told of it.
        """
        shard = LiveShard(name, run, boot=self._boot, reason=WAITING, lacks=lacks)
        self._shards[name] = shard
        return shard

    def close(self, shard: LiveShard) -> None:
        """No longer."""
        shard.close()
        if self._shards.get(shard.name) is shard:
            del self._shards[shard.name]
