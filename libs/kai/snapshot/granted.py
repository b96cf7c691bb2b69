"""What pods hold of shared devices: what they were granted, whatever they say of themselves."""

from __future__ import annotations

from collections.abc import Iterable

from kai.model.claims import Grant, claims_of
from kai.model.faults import NOT_AS_GRANTED, Fault
from kai.model.ids import GpuGroup, PodUid
from kai.model.objects import Pod
from kai.snapshot.accounts import Accounts, facts_of
from kai.snapshot.amounts import GPU_CENTI
from kai.snapshot.classes import TaskClass
from kai.snapshot.cluster import Cluster
from kai.snapshot.grants import Device
from kai.snapshot.kinds import Kind
from kai.snapshot.rows import PodFacts, Task

#: GPU groups that a message names.
_SHOWN = 4


class Granted:
    """Holding pods to what reservation pods record of them."""

    def __init__(self, cluster: Cluster, accounts: Accounts) -> None:
        self._cluster = cluster
        self._accounts = accounts

    def read_claims(self, facts: PodFacts, pod: Pod) -> None:
        """Take in what a reservation pod records of others."""
        claims = claims_of(pod.metadata.annotations or {})
        if claims:
            facts.pod = pod
        group = facts.group_ids[0] if facts.group_ids else GpuGroup("")
        grants, before = self._cluster.grants, self._cluster.grants.device_of_others(facts.key)
        self.grants_changed(grants.put(facts.key, node=facts.node_name, group=group, claims=claims))
        self._owners_changed(before, grants.device_of_others(facts.key))

    def forget_claims(self, facts: PodFacts) -> None:
        """A reservation pod is gone, with what it recorded of others."""
        grants, before = self._cluster.grants, self._cluster.grants.device_of_others(facts.key)
        self.grants_changed(grants.drop(facts.key))
        self._owners_changed(before, None)

    def _owners_changed(self, before: Device | None, now: Device | None) -> None:
        """Pods of other schedulers hold parts of those devices that are held for others than us."""
        if before == now:
            return
        for node, group in filter(None, (before, now)):
            for task in list(self._cluster.on_node.get(node, {}).values()):
                if task.node is not None and not facts_of(task).ours and group in facts_of(task).group_ids:
                    self._accounts.detach(task)
                    self._accounts.attach(task)

    def grants_changed(self, uids: Iterable[PodUid]) -> None:
        """What is recorded of pods (uid) is not what it was.

        Those of them that are known hold from now on what is recorded; all sums follow.
        """
        for uid in uids:
            task = self._cluster.tasks.get(uid)
            if task is not None:
                self._accounts.detach(task)
                self.hold_to_grant(task, declared=task.declared_cls or task.cls, decided=task.cls)
                self._accounts.attach(task)

    def hold_to_grant(self, task: Task, *, declared: TaskClass, decided: TaskClass | None) -> None:
        """Let a task hold what it was granted, which need not be what its pod says: that is ``declared``.

        While it is being bound, what was ``decided`` counts until it is recorded.
        """
        cluster = self._cluster
        facts = facts_of(task)
        facts.granted_ids, cls = (), declared
        node = facts.node_name or facts.assumed_node
        known = cluster.grants.of(task.uid, node=node) if node else None
        # Of a pod that is being bound an earlier attempt may have left a record, of other devices.
        if known is not None and (facts.node_name or not known[1].isdisjoint(facts.assumed_groups)):
            grant, groups = known
            cls = cluster.classes.granted(declared, grant)
            if facts.node_name:
                # Where not all of its devices are recorded, its own word counts for the rest.
                own = () if len(groups) >= grant.devices else facts.group_ids or facts.assumed_groups
                facts.granted_ids = tuple(sorted(groups.union(own)))
        elif decided is not None and decided.shared and facts.assumed_node:  # not recorded yet
            grant = Grant(decided.devices, decided.portion_centi, decided.gpu_memory_mib)
            cls = cluster.classes.granted(declared, grant)
        task.cls, task.declared_cls = cls, None if cls is declared else declared
        self._tell_overruled(task)

    def _tell_overruled(self, task: Task) -> None:
        cluster = self._cluster
        facts, declared = facts_of(task), task.declared_cls
        moved = facts.granted_ids and set(facts.granted_ids) != set(facts.group_ids)
        if not facts.node_name or (declared is None and not moved):
            cluster.overruled.pop(facts.key, None)
            return
        cluster.overruled[facts.key] = Fault(
            kind=Kind.POD.kubernetes,
            key=facts.key,
            uid=task.uid,
            reason=NOT_AS_GRANTED,
            message=_difference(task),
        )


def _difference(task: Task) -> str:
    facts, declared = facts_of(task), task.declared_cls or task.cls
    says = _share(declared) if declared.shared else "no part of a GPU"
    if facts.granted_ids and set(facts.granted_ids) != set(facts.group_ids):
        says += f" on {', '.join(facts.group_ids[:_SHOWN]) or 'no device'}"
    return (
        f"its labels and annotations say that it holds {says}; it was granted {_share(task.cls)} "
        f"on {', '.join(facts.granted_ids[:_SHOWN])}, which counts until it ends; "
        "set them back, and make another pod to ask for something else"
    )


def _share(cls: TaskClass) -> str:
    part = (
        f"{cls.portion_centi / GPU_CENTI:g} of a GPU"
        if cls.portion_centi
        else f"{cls.gpu_memory_mib} MiB of a GPU"
    )
    return part if cls.devices == 1 else f"{part} on each of {cls.devices}"
