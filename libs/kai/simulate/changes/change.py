"""What all changes have in common."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from kai.model import spelling
from kai.model.ids import PodGroupKey
from kai.simulate.journal import Journal, journal
from kai.snapshot.rows import Job, Node
from kai.snapshot.state import ClusterState


class ChangeRefused(ValueError):
    """A change cannot be made: it names what is not there, or says nothing that could be. Says what to do."""


class Change(Protocol):
    """Something to change in a cluster."""

    @property
    def text(self) -> str:
        """What to do, for people: ``raise the quota of queue 'a' to 4 GPUs``."""

    def command(self, state: ClusterState) -> str | None:
        """The shell command that does it; None where there is none. The state is the one before it."""

    def make(self, journal: Journal) -> None:
        """Make it in the journal's state.

        Raises:
            ChangeRefused: it cannot be made in this state; nothing has changed.
        """


def make(journal: Journal, changes: Iterable[Change]) -> None:
    """Make several, one after the other.

    Raises:
        ChangeRefused: one of them cannot be made; those before it are.
    """
    for change in changes:
        change.make(journal)


@contextmanager
def made(state: ClusterState, changes: Sequence[Change]) -> Iterator[Journal]:
    """The state with all changes while the block runs; afterwards it is as it was, all caches included.

    Whatever is done in the block through the journal is taken back as well.

    Raises:
        ChangeRefused: one of them cannot be made; the state is as it was.
    """
    with journal(state) as opened:
        make(opened, changes)
        yield opened


def patch(resource: str, namespace: str, body: dict[str, Any]) -> str:
    """The command that merges ``body`` into ``queue/a``, as a shell takes it; an empty namespace is none."""
    where = f" -n {namespace}" if namespace else ""
    return f"kubectl patch {resource}{where} --type=merge -p {shlex.quote(json.dumps(body))}"


def job_of(state: ClusterState, key: str) -> Job:
    """The pod group ``namespace/name``.

    Raises:
        ChangeRefused: there is none.
    """
    job = state.jobs.get(PodGroupKey(key))
    if job is None:
        raise ChangeRefused(_unknown("pod group", key, state.jobs))
    return job


def node_of(state: ClusterState, name: str) -> Node:
    """The node of this name.

    Raises:
        ChangeRefused: there is none.
    """
    node = state.nodes.by_name.get(name)
    if node is None:
        raise ChangeRefused(_unknown("node", name, state.nodes.by_name))
    return node


def queue_object(state: ClusterState, name: str) -> Any:
    """The Queue object of this name.

    Raises:
        ChangeRefused: there is none.
    """
    obj = state.queue_objects.get(name)
    if obj is None:
        raise ChangeRefused(_unknown("queue", name, state.queue_objects))
    return obj


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Names the nearest; all of them would be too many."""
    near = spelling.nearest(name, known)
    hint = f"did you mean {near!r}?" if near else f"see `kai get {what.replace(' ', '')}s`"
    return f"there is no {what} {name!r}; {hint}"
