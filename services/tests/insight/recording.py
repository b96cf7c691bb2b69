"""Cycles as a scheduler has them recorded."""

from dataclasses import replace

import msgspec

from kai.engine import Engine
from kai.history.recordings import Entry
from kai.replay.cycles import take_base, write_cycle
from kai.snapshot.changes import Changes, take_in
from kai.snapshot.kinds import Kind
from kai.snapshot.state import ClusterState
from libs.tests.engine.builders import NOW, a_job, a_node, a_queue, usual_priorities, world_of


class Recording:
    """A scheduler that has a node, and in each cycle one more job for it."""

    def __init__(self):
        self.state, self.engine, self.number = ClusterState(), Engine(contained=True), 0
        self._coming = []
        for kind, obj in world_of(usual_priorities(), a_queue("team"), a_node("n", gpus=8)):
            self.state.apply(kind, obj)
        self.state.apply(Kind.NAMESPACE, {"metadata": {"name": "alone"}})  # without pod groups

    def base(self):
        return self._entry(take_base(self.state, self.engine, now=NOW), base=True)

    def add(self, *things):
        """They are there in the next cycle."""
        self._coming += things

    def cycle(self):
        """One that binds a pod."""
        self.number += 1
        batch = Changes()
        coming, self._coming = self._coming, []
        for kind, obj in world_of(coming, a_job(f"job-{self.number}", gpus=1)):
            batch.objects.setdefault(kind, {})[obj.key] = obj
        take_in(self.state, batch)
        result = self.engine.run(self.state, NOW + self.number)
        assert result.binds
        return self._entry(
            write_cycle(
                batch,
                result,
                number=self.number,
                version=self.number,
                now=NOW + self.number,
                usage={},
            )
        )

    def _entry(self, data, *, base=False):
        number = self.number
        return Entry(shard="default", epoch=5, number=number, version=number, at=NOW, base=base, data=data)


def without_decisions(entry):
    """As a scheduler would have told it that decided nothing."""
    record = msgspec.json.decode(entry.data)
    del record["decided"]
    return replace(entry, data=msgspec.json.encode(record))
