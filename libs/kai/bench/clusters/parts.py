"""What benchmark clusters are made of, and what is said of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kai.bench.objects import UNLIMITED, a_group, a_node, a_pod, a_queue, usual_priorities
from kai.model.objects import ApiObject, Queue, TopologyConstraint
from kai.snapshot.state import Kind

NOW: Final = 1_900_000_000.0
Objects = list[tuple[Kind, ApiObject]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Bounds on what one cycle decides; ``victims`` and ``pipelined`` are exact where given."""

    most_binds: int
    most_evictions: int
    most_pipelines: int
    binds: int | None = None
    victims: int | None = None
    pipelined: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One cluster. ``arriving`` are the objects that come as events before the warm cycle."""

    name: str
    actions: tuple[str, ...]
    expect: Expectation
    base: Callable[[], Objects]
    arriving: Callable[[], Objects]
    size: int = 0
    family: str = ""
    #: What we aim at: milliseconds warm and cold, at most.
    limits_ms: tuple[float, float] | None = field(default=None)


def some_nodes(
    count: int, labels: Callable[[int], dict[str, str]] | None = None
) -> Iterator[tuple[Kind, ApiObject]]:
    """Nodes of eight GPUs, with labels by number."""
    for number in range(count):
        yield Kind.NODE, a_node(f"node-{number}", labels=labels(number) if labels else None)


def priorities() -> Objects:
    """The priority classes that the product ships."""
    return [(Kind.PRIORITY_CLASS, each) for each in usual_priorities()]


def a_job(
    name: str,
    queue: str,
    number: int,
    *,
    pods: int = 1,
    gpus: int = 1,
    node: str = "",
    priority: str = "train",
    topology: TopologyConstraint | None = None,
    spec: dict[str, object] | None = None,
    labels: dict[str, str] | None = None,
) -> Iterator[tuple[Kind, ApiObject]]:
    """A pod group and its equal pods, all on one node where one is given; ``number`` is its age."""
    started = NOW - 60 if node else 0
    yield (
        Kind.POD_GROUP,
        a_group(
            name,
            queue=queue,
            min_member=pods,
            created=NOW - 100_000 + number,
            started=started,
            priority=priority,
            topology=topology,
        ),
    )
    for pod in range(pods):
        yield Kind.POD, a_pod(f"{name}-{pod}", group=name, gpus=gpus, node=node, spec=spec, labels=labels)


def under_default(*queues: Queue) -> Objects:
    """Queues below one that is unlimited."""
    return [
        (Kind.QUEUE, a_queue("default", gpu=UNLIMITED, weight=0)),
        *((Kind.QUEUE, queue) for queue in queues),
    ]
