"""A shard that insight decides again as its scheduler decides, to be looked at."""

from prometheus_client import CollectorRegistry

from deadlines import eventually
from kai_insight.checker import Checker
from kai_insight.live.live import Live
from kai_insight.metrics import ReplayMetrics
from services.tests.insight.recording import Recording


class Watched:
    """A scheduler, and what follows it."""

    def __init__(self):
        self.live = Live()
        self.registry = CollectorRegistry()
        self.checker = Checker("default", ReplayMetrics(self.registry), live=self.live)
        self.recording = Recording()
        self.checker.put(self.recording.base())

    @property
    def shard(self):
        return self.live.shards["default"]

    async def cycle(self, *things):
        """One more, in which one more pod runs, and these things come."""
        goal = self._decided() + 1
        self.recording.add(*things)
        self.checker.put(self.recording.cycle())
        await eventually(self._decided, lambda found: found >= goal)

    def _decided(self):
        return self.registry.get_sample_value("kai_replay_cycles_total")
