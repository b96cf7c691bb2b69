"""All that is known of a cluster: rows, tables and indices. Who changes them keeps them in step."""

from __future__ import annotations

from typing import Any

from kai.model.faults import Fault
from kai.model.ids import PodGroupKey, PodUid
from kai.model.objects import PodGroup, PriorityClass
from kai.model.objects import Queue as QueueObject
from kai.snapshot.access import AccessTable
from kai.snapshot.amounts import Totals
from kai.snapshot.budgets import Budgets
from kai.snapshot.class_table import ClassTable
from kai.snapshot.eviction_refusals import EvictionRefusals
from kai.snapshot.grants import Grants
from kai.snapshot.group_order import GroupOrder
from kai.snapshot.kept import KeptValues
from kai.snapshot.kinds import Kind, StateParams
from kai.snapshot.ledger import Ledger
from kai.snapshot.refusals import Refusals
from kai.snapshot.resources import ResourceTable
from kai.snapshot.rows import UNKNOWN_GPU_MEMORY_MIB, Job, Queue, Task
from kai.snapshot.table import NodeTable


class Cluster:
    """Rows and indices, and nothing that is done with them."""

    def __init__(self, params: StateParams | None = None) -> None:
        self.params = params or StateParams()
        self.resources = ResourceTable()
        self.classes = ClassTable(self.resources)
        self.nodes = NodeTable(self.resources)
        self.ledger = Ledger(self.nodes)
        self.tasks: dict[PodUid, Task] = {}
        self.jobs: dict[PodGroupKey, Job] = {}
        self.queues: dict[str, Queue] = {}
        self.queue_objects: dict[str, QueueObject] = {}
        self.group_objects: dict[PodGroupKey, PodGroup] = {}
        #: Pod groups of other node pools.
        self.elsewhere: dict[PodGroupKey, PodGroup] = {}
        #: Those of them of which it may have changed whether pods of theirs run here.
        self.unsettled: dict[PodGroupKey, None] = {}
        #: Queues that take part, parents before children; rows are positions in it.
        self.queue_rows: list[Queue] = []
        self.priority_classes: dict[str, PriorityClass] = {}
        #: Objects that only plugins read, by kind and key, and how often each kind changed.
        self.objects: dict[Kind, dict[str, Any]] = {kind: {} for kind in Kind}
        self.access = AccessTable(self.objects[Kind.NAMESPACE])
        self.budgets = Budgets(self.objects[Kind.POD_DISRUPTION_BUDGET])
        self.versions: dict[Kind, int] = dict.fromkeys(Kind, 0)
        self.version = 0
        #: Jobs with pending tasks; jobs whose tasks changed since a cycle looked.
        self.pending_jobs: dict[PodGroupKey, Job] = {}
        self.touched_jobs: dict[PodGroupKey, Job] = {}
        #: Uids of jobs that are gone since somebody asked; another pod group may have the key by now.
        self.gone_jobs: dict[PodGroupKey, str] = {}
        #: Pods that want to be near or away from others.
        self.affine: dict[PodUid, Task] = {}
        #: Requests of other schedulers' pods on ready nodes.
        self.foreign = Totals()
        #: Objects whose newest version could not be taken in, by kind and key.
        self.faults: dict[tuple[Kind, str], Fault] = {}
        #: Pods that say something else than what they were granted, by key.
        self.overruled: dict[str, Fault] = {}
        self.grants = Grants()
        self.refusals = Refusals()
        self.eviction_refusals = EvictionRefusals()
        self.group_order = GroupOrder()
        #: What others keep here from cycle to cycle.
        self.kept = KeptValues()
        #: A change failed half-way: no sum can be trusted until all are found anew.
        self.unsound = False
        self.min_gpu_memory_mib = UNKNOWN_GPU_MEMORY_MIB
        self.max_gpu_memory_mib = UNKNOWN_GPU_MEMORY_MIB
        #: Unix seconds, when time was last looked at.
        self.now = 0.0
        #: Pods by ``namespace/name``; by key of the group that they name; by name of the node that they are
        #: on, or are being bound to; by key of the claims that they use; and those that are being deleted.
        self.tasks_by_key: dict[str, Task] = {}
        self.members: dict[PodGroupKey, dict[PodUid, Task]] = {}
        self.on_node: dict[str, dict[PodUid, Task]] = {}
        self.claim_users: dict[str, dict[PodUid, Task]] = {}
        self.deleted: dict[PodUid, Task] = {}
