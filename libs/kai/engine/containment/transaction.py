"""What a cycle or a question may change in the state, so that it can be taken back as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kai.engine.containment.blame import blamed
from kai.engine.framework.decisions import Decisions
from kai.snapshot.state import ClusterState


class Transaction:
    """Begins when it is made, on a state that all cycles before have left."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        #: What was decided since, as soon as anything can be.
        self.decisions: Decisions | None = None
        self._touched = tuple(state.touched_jobs)
        self._kept = state.kept.carried()

    def revoke(self) -> None:
        """Leave nothing behind; what was half done when something failed is found anew.

        Costs time by the number of pods, as all sums are made again.
        """
        state = self._state
        if self.decisions is not None:
            self.decisions.revoke()
            self.decisions = None
        state.mend()
        state.touch_only(self._touched)
        state.kept.restore(self._kept)


@contextmanager
def undone_if_failed(state: ClusterState) -> Iterator[None]:
    """A question leaves nothing behind where it is answered; neither does it where it fails.

    Raises:
        FailedOver: it failed, and an object was at hand.
    """
    transaction = Transaction(state)
    try:
        with blamed(state):  # which knows rows only as long as they are not found anew
            yield
    except Exception:
        transaction.revoke()
        raise
