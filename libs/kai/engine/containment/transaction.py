"""What a cycle or a question may change in the state, so that it can be taken back as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kai.engine.framework.decisions import Decisions
from kai.model.decisions import CycleResult
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState

#: What is more than a saving of work, and changes in the course of a cycle.
_KEPT: Final = ("promised", "stale")
_OUTCOMES: Final = "outcomes"


class Transaction:
    """Begins when it is made, on a state that all cycles before have left."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        #: What was decided since, as soon as anything can be.
        self.decisions: Decisions | None = None
        self._touched: dict[str, Job] = dict(state.touched_jobs)
        self._memory: dict[str, Any] = {key: state.memory[key].copy() for key in _KEPT if key in state.memory}

    def revoke(self, result: CycleResult | None = None) -> None:
        """Leave nothing behind; what was half done when something failed is found anew.

        ``result`` is that of a cycle that went well and is taken back all the same.
        """
        state = self._state
        outcomes = state.memory.get(_OUTCOMES, {})
        for outcome in result.outcomes if result is not None else ():
            outcomes.pop(outcome.pod_group, None)
        if self.decisions is not None:
            self.decisions.revoke()
            self.decisions = None
        state.mend()
        state.touched_jobs.clear()
        state.touched_jobs.update(
            (key, job) for key, job in self._touched.items() if state.jobs.get(key) is job
        )
        state.memory.clear()
        state.memory.update((key, value.copy()) for key, value in self._memory.items())
        state.memory[_OUTCOMES] = outcomes


@contextmanager
def undone_if_failed(state: ClusterState) -> Iterator[None]:
    """A question leaves nothing behind where it is answered; neither does it where it fails."""
    transaction = Transaction(state)
    try:
        yield
    except Exception:
        transaction.revoke()
        raise
