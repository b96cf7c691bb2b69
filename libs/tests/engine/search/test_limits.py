"""Who is kept out by a limit takes room from his queues, on whatever nodes those run who hold it."""

from typing import Any

from libs.tests.engine.builders import Case, a_job, a_node, a_queue, a_single, nodes, table, urgent

DEPARTMENT = [
    a_queue("d", gpu=4, limit=4),
    a_queue("rich", parent="d", gpu=2, created=1),
    a_queue("poor", parent="d", gpu=2, created=2),
]
ALONE = a_queue("team", gpu=4, limit=4)


def held_on_small_nodes(queue: str, count: int = 4, **more: Any) -> list[Any]:
    """Nodes with one device, each taken; the last is the first victim."""
    held = [a_single(f"r{n}", queue=queue, gpus=1, on=f"n{n}", created=n, **more) for n in range(count)]
    return [nodes(count, gpus=1), a_node("free", gpus=8), held]


CASES = [
    Case(
        "of the department, from a sibling",
        [DEPARTMENT, held_on_small_nodes("rich"), a_job("w", queue="poor", gpus=2, created=9)],
        evicts=["r2", "r3"],
        waits={"w-0": "free"},
    ),
    Case(
        "of the queue itself, from lower priorities",
        [ALONE, held_on_small_nodes("team"), urgent("w", gpus=2)],
        evicts=["r2", "r3"],
        waits={"w-0": "free"},
    ),
    Case(
        "for a gang",
        [ALONE, held_on_small_nodes("team"), urgent("w", pods=2, gpus=2)],
        evicts=["r0", "r1", "r2", "r3"],
        waits={"w-0": "free", "w-1": "free"},
    ),
    Case(
        "for a gang of which the first pod has room",
        [a_queue("team", gpu=4, limit=5), held_on_small_nodes("team"), urgent("w", pods=3, gpus=1)],
        evicts=["r2", "r3"],
        waits={"w-0": "free", "w-1": "free", "w-2": "free"},
    ),
    Case(
        "nobody of another department",
        [
            DEPARTMENT,
            a_queue("other", gpu=0),
            held_on_small_nodes("rich"),
            a_node("elsewhere", gpus=1),
            a_single("o", queue="other", gpus=1, on="elsewhere", created=8),
            a_job("w", queue="poor", gpus=2, created=9),
        ],
        evicts=["r2", "r3"],
        waits={"w-0": "free"},
    ),
    Case(
        "nobody, where those below the limit do not suffice",
        [ALONE, held_on_small_nodes("team"), urgent("w", gpus=6)],
        evicts=[],
        waits={},
    ),
]


@table(*CASES)
def test_room_below_a_limit_is_made(case: Case) -> None:
    case.holds("allocate", "reclaim", "preempt")
