"""The state changes in few places: a sum that somebody else writes is a sum that cannot be trusted.

That is so of rows, of the tables that they stand in, and of the indices over them.
"""

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kai.snapshot import amounts, rows
from kai.snapshot.cluster import Cluster
from kai.snapshot.resources import ResourceTable
from kai.snapshot.table import NodeTable

ROOT = Path(__file__).resolve().parents[3]
SNAPSHOT = ROOT / "libs/kai/snapshot"
#: Those who read rows: nothing of them is theirs to write.
READERS = tuple(
    ROOT / name
    for name in ("libs/kai/engine", "libs/kai/simulate", "libs/kai/answers", "services/kai_scheduler")
)
ROWS = (
    rows.Task,
    rows.PodFacts,
    rows.PodSet,
    rows.SubGroupSet,
    rows.Job,
    rows.JobFacts,
    rows.Queue,
    rows.Node,
    amounts.SharedDevice,
    amounts.SharedClaim,
    amounts.Totals,
)
#: What readers found out about a row, and keep on it, by field: the one module that does.
CACHES = {
    "next_tasks": "engine/queueing/chunks.py",
    "cursor": "engine/queueing/chunks.py",
    "signature": "engine/search/signatures.py",
}
#: What is written elsewhere and only called as a field of the state is.
NO_ROWS = {
    ("engine/containment/cycles.py", "entry.job"),
    ("engine/queueing/order.py", "node.key"),
    ("engine/queueing/order.py", "parent.children"),
    ("engine/queueing/shares.py", "columns.allocated"),
    ("engine/queueing/shares.py", "columns.deserved"),
    ("engine/queueing/shares.py", "columns.limit"),
    ("engine/queueing/shares.py", "columns.weight"),
    ("simulate/fair_share.py", "columns.deserved"),
    ("simulate/fair_share.py", "columns.limit"),
    ("simulate/fair_share.py", "columns.weight"),
    # of sums of its own
    *(
        ("engine/plugins/proportion/reclaim.py", f"rest.{unit}")
        for unit in ("cpu_millis", "memory_bytes", "gpu_centi")
    ),
    # of what headroom keeps of free room
    ("engine/packing/columns.py", "self._free.cpu_millis"),
    ("engine/packing/columns.py", "self._free.memory_bytes"),
    # of a memento, which has facts of its own
    ("simulate/journal.py", "facts.assumed_allotment"),
    ("simulate/journal.py", "facts.assumed_groups"),
    ("simulate/journal.py", "facts.assumed_node"),
    ("simulate/journal.py", "memento.facts.evicting"),
    ("kai_scheduler/changes.py", "self._batch.objects"),
    ("kai_scheduler/dispatch.py", "gang.members"),
    ("kai_scheduler/dispatch.py", "work.gang.members"),
    ("kai_scheduler/dispatch.py", "work.phase"),
}
#: What a shared device is charged.
DEVICES = {"held_mib", "releasing_mib", "pipelined_mib", "reservation_pods"}
#: Statuses, and what pod groups count by them.
COUNTS = {
    *("status", "virtual", "job", "pod_set", "tasks"),
    *("alive", "gated", "pending", "pipelined", "active_allocated", "active_used", "succeeded"),
}
#: What queues are charged.
AMOUNTS = {"cpu_millis", "memory_bytes", "gpu_centi"}
CHARGES = {"charged", "allocated", "non_preemptible", "pending", *AMOUNTS}
#: What tasks hold of nodes.
HOLDS = {
    *("releasing", "groups", "pipelined_node", "pipelined_groups", "claims", "tasks", "legacy_mig"),
    *DEVICES,
    *("users", "releasing_users", "pipelined_users"),
}
SUMS = COUNTS | CHARGES | HOLDS
#: Who writes them, and from which side: the ledger both; the others enter what the ledger then counts.
WRITERS = {
    "ledger/counts.py": COUNTS,
    "ledger/charges.py": CHARGES,
    "ledger/holds.py": HOLDS,
    # several in one step
    "ledger/ledger.py": {"status", "virtual", "charged", "releasing", "groups", "tasks", "legacy_mig"},
    "recount.py": SUMS,  # everything to nothing
    "table.py": {"groups", "claims", "tasks", "legacy_mig"},  # of all nodes at once, to nothing
    "check.py": DEVICES,  # of rows of its own, to compare with
    "accounts.py": {"status"},  # of a task that is in no sum
    "intake.py": {"claims", "gated"},  # what a pod's spec says
    "exclusion.py": {"gated"},  # the same, of a pod that is not known any more
}
_CHANGES = {
    "add",
    "append",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "setdefault",
    "sort",
    "update",
}


def _fields() -> set[str]:
    """Of rows, of the cluster, and of its table of nodes."""
    found = {name for table in (Cluster(), NodeTable(ResourceTable())) for name in vars(table)}
    for row in ROWS:
        if issubclass(row, msgspec.Struct):
            found.update(row.__struct_fields__)
        else:
            found.update(each.name for each in dataclasses.fields(row))
    return found


FIELDS = _fields()
#: Whose attributes are not those of a row: what writes its own, and the cluster, which has tables of rows.
_NO_ROW = {"self", "cls", "cluster"}


def _written(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement or call changes."""
    if isinstance(node, ast.Assign | ast.Delete):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple | ast.List) else (target,)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
        yield node.target
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        yield node.func.value


def writes(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, field and expression of what is called as a field of the state and is written from outside."""
    for node in ast.walk(ast.parse(source)):
        for target in _written(node):
            while isinstance(target, ast.Subscript):
                target = target.value
            if not isinstance(target, ast.Attribute) or target.attr not in FIELDS:
                continue
            if not (isinstance(target.value, ast.Name) and target.value.id in _NO_ROW):
                yield node.lineno, target.attr, ast.unparse(target)  # type: ignore[attr-defined]


def test_who_reads_rows_does_not_write_them() -> None:
    found = []
    for root in READERS:
        for path in sorted(root.rglob("*.py")):
            where = str(path.relative_to(root.parent))
            for line, field, text in writes(path.read_text()):
                if CACHES.get(field) != where and (where, text) not in NO_ROWS:
                    found.append(f"{where}:{line}: {text}")
    assert not found, "state changes by methods of ClusterState and Ledger only"


def test_who_reads_rows_sets_nothing_by_a_name_that_is_only_known_when_it_runs() -> None:
    for root in READERS:
        for path in sorted(root.rglob("*.py")):
            calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
            names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
            assert names.isdisjoint({"setattr", "delattr"}), path


def test_sums_are_written_by_the_ledger_alone() -> None:
    found = [
        f"{where}:{line}: {text}"
        for path in sorted(SNAPSHOT.rglob("*.py"))
        for where in [str(path.relative_to(SNAPSHOT))]
        for line, field, text in writes(path.read_text())
        if field in SUMS and field not in WRITERS.get(where, set())
    ]
    assert not found


def test_nothing_is_allowed_that_nobody_does() -> None:
    done = {
        (str(path.relative_to(root.parent)), text)
        for root in READERS
        for path in root.rglob("*.py")
        for _, _, text in writes(path.read_text())
    }
    assert done >= NO_ROWS
    for field, where in CACHES.items():
        assert any(path == where and text.endswith(f".{field}") for path, text in done), field


@pytest.mark.parametrize(
    "source",
    [
        "task.status = 1",
        "task.job, other = None, 1",
        "job.pending += 1",
        "queue.allocated.cpu_millis += 1",
        "node.groups.pop('a')",
        "del node.tasks['a']",
        "for each.row in range(3): pass",
        "session.state.jobs[key].last_start = 0.0",
        "self._job.last_start = 0.0",
        "state.faults[key] = fault",
        "state.touched_jobs.clear()",
        "state.nodes.cells_idle[row, column] -= 1",
        "session.nodes.touched.append(row)",
        "self._state.pending_jobs[job.key] = job",
    ],
)
def test_every_way_to_write_is_seen(source: str) -> None:
    assert list(writes(source))
