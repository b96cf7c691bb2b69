"""What a scheduler would say: anything, about whatever is there, and the end of what is not."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from e2e.hostile import site
from e2e.hostile.inside.apiserver import MemoryApiServer
from kai.kube.resources import POD_GROUPS, PODS, QUEUES
from kai.model import names
from kai.model.decisions import (
    BindDecision,
    Eviction,
    Nomination,
    Outcome,
    PodGroupOutcome,
    PodRef,
    QueueShare,
    ResourceType,
)
from kai.model.faults import INVALID_OBJECT, SET_ASIDE, Fault
from kai.wire.decisions import Assignment, DecisionBatch
from kai.wire.sessions import SessionUpdate
from kai_binder.executor import Executor

Json = dict[str, Any]
_EPOCH: Final = 1
_DEVICES: Final = tuple(f"device-{number}" for number in range(4))
_NOTHING: Final = (0.0, 0.0, 0.0)


class MadeUpLeader:
    """Publishes a session in each :meth:`cycle`, and has pods bound by whoever works for it."""

    def __init__(self, server: MemoryApiServer, rng: random.Random) -> None:
        self.executors: list[Executor] = []
        self._server, self._rng = server, rng
        self._listeners: list[asyncio.Queue[SessionUpdate]] = []
        self._versions, self._decisions = itertools.count(1), itertools.count(1)
        self._outcomes: dict[str, PodGroupOutcome] = {}
        self._faults: dict[str, Fault] = {}
        self._prepared: list[str] = []

    async def watch_sessions(self, client: object, **_: object) -> AsyncIterator[SessionUpdate]:
        """In place of that of :mod:`kai.wire.sessions`."""
        news: asyncio.Queue[SessionUpdate] = asyncio.Queue()
        self._listeners.append(news)
        yield self._update(full=True)
        while True:
            yield await news.get()

    def cycle(self) -> None:
        """Find something about each group, and decide about some pods."""
        pods, groups = self._server.objects[PODS.plural], self._server.objects[POD_GROUPS.plural]
        told = {key: self._outcome(key) for key in groups if self._rng.random() < 0.5}
        forgotten = tuple(self._outcomes.keys() - groups.keys())
        self._outcomes = {key: each for key, each in (self._outcomes | told).items() if key in groups}
        ours = {key: pod for key, pod in pods.items() if key.startswith(site.TENANT_NAMESPACES)}
        waiting = [pod for pod in ours.values() if not pod["spec"].get("nodeName")]
        running = [pod for pod in ours.values() if pod["spec"].get("nodeName")]
        faults = {_key(pod): self._fault(pod) for pod in waiting if self._rng.random() < 0.1}
        cured = tuple((PODS.kind, key) for key in self._faults if key not in ours or self._rng.random() < 0.3)
        self._faults = {key: each for key, each in self._faults.items() if (PODS.kind, key) not in cured}
        self._faults |= faults
        evicted = [pod for pod in running if self._rng.random() < 0.1]
        self._publish(
            self._update(
                outcomes=tuple(told.values()),
                forgotten=forgotten,
                faults=tuple(faults.values()),
                cured=tuple(each for each in cured if each[1] not in faults),
                evictions=tuple(Eviction(pod=_ref(pod), action="reclaim", message="x") for pod in evicted),
                nominations=tuple(Nomination(pod=_ref(pod), node=self._node()) for pod in waiting[:3]),
            )
        )
        for pod in evicted:
            self._server.delete(PODS.plural, _key(pod))
        self._bind(pod for pod in waiting if self._rng.random() < 0.5)

    async def lead_no_more(self) -> None:
        """Be lost to whoever works for us, perhaps amid a decision."""
        for executor in self.executors:
            await executor.drop()

    # --- sessions ------------------------------------------------------------------------------
    def _publish(self, update: SessionUpdate) -> None:
        for news in self._listeners:
            news.put_nowait(update)

    def _update(self, **more: Any) -> SessionUpdate:
        shares = tuple(_share(name) for name in self._server.objects[QUEUES.plural])
        version = next(self._versions)
        if more.get("full"):
            more |= {"outcomes": tuple(self._outcomes.values()), "faults": tuple(self._faults.values())}
        return SessionUpdate(version=version, epoch=_EPOCH, opened_at=0.0, shares=shares, **more)

    def _outcome(self, group: str) -> PodGroupOutcome:
        kind = self._rng.choice(list(Outcome))
        stale = {names.STALE_TIMESTAMP: f"2026-01-01T00:00:{self._rng.randrange(60):02}Z"}
        return PodGroupOutcome(
            pod_group=group,
            outcome=kind,
            message=f"{group} lacks {self._rng.randrange(10**6)}",
            staleness=self._rng.choice(("", f"lacks {self._rng.randrange(9)}")),
            annotations=self._rng.choice(({}, stale)),
        )

    def _fault(self, pod: Json) -> Fault:
        reason = self._rng.choice((INVALID_OBJECT, SET_ASIDE))
        message = f"no {self._rng.randrange(10**6)}"
        return Fault(
            kind=PODS.kind, key=_key(pod), uid=pod["metadata"]["uid"], reason=reason, message=message
        )

    # --- decisions -----------------------------------------------------------------------------
    def _bind(self, pods: Iterable[Json]) -> None:
        assignments = [self._assignment(pod) for pod in pods]
        for executor in self.executors:
            bind = [each for each in self._prepared if self._rng.random() < 0.5]
            executor.verdict(bind=bind, abandon=self._prepared)
            executor.start(
                DecisionBatch(epoch=_EPOCH, deadline=time.time() + 60.0, assignments=tuple(assignments))
            )
        self._prepared = [each.decision_id for each in assignments if each.prepare_only]

    def _assignment(self, pod: Json) -> Assignment:
        whole = "gpu-fraction" not in (pod["metadata"].get("annotations") or {})
        groups = () if whole else tuple(self._rng.sample(_DEVICES, self._rng.choice((1, 1, 2))))
        decision = BindDecision(
            pod=_ref(pod),
            node=self._node(),
            resource_type=ResourceType.REGULAR if whole else ResourceType.FRACTION,
            gpu_count=len(groups),
            gpu_portion=0.1,
            gpu_groups=groups,
            node_pool=self._rng.choice(("", "", "pool")),
        )
        return Assignment(
            decision_id=f"d-{next(self._decisions)}",
            decision=decision,
            prepare_only=self._rng.random() < 0.2,
        )

    def _node(self) -> str:
        return self._rng.choice((*site.NODES, "hostile-gone"))


def _key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _ref(pod: Json) -> PodRef:
    meta = pod["metadata"]
    group = (meta.get("annotations") or {}).get(names.POD_GROUP_ANNOTATION)
    return PodRef(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        pod_group=f"{meta['namespace']}/{group}" if group else "",
    )


def _share(queue: str) -> QueueShare:
    return QueueShare(
        queue=queue,
        display_name="",
        parent="",
        priority=100,
        deserved=_NOTHING,
        limit=_NOTHING,
        over_quota_weight=_NOTHING,
        fair_share=_NOTHING,
        allocated=_NOTHING,
        allocated_non_preemptible=_NOTHING,
        requested=_NOTHING,
        usage=_NOTHING,
    )
