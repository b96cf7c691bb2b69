"""One cycle's view of the state: shares, orders, filters, and what the actions decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from kai.config import PluginOption, SchedulerConfig
from kai.config.arguments import ConfigError
from kai.engine.framework.decisions import PROMISED, Decisions
from kai.engine.framework.handle import Handle
from kai.engine.framework.options import orders, with_headroom
from kai.engine.framework.protocols import NodeSets, Opener, Plugin
from kai.engine.framework.resolved import Concerned, Plugins
from kai.engine.framework.statement import Statement
from kai.engine.framework.victims import ANYBODY, VictimRules, both
from kai.engine.kernel.seats import Seating
from kai.engine.kernel.static import StaticFilters
from kai.engine.kernel.view import ClassView
from kai.engine.kernel.views import Views
from kai.engine.queueing.chunks import only_task
from kai.engine.queueing.disruption import victim_key
from kai.engine.queueing.order import KeyOfJob
from kai.engine.queueing.pending import LookaheadJobs, PendingJobs, TwoJobs
from kai.engine.queueing.pools import Pool, Pools
from kai.engine.queueing.queue_order import QueueOrder
from kai.engine.queueing.requests import request_of
from kai.engine.queueing.shares import Usage, divide_cluster
from kai.engine.queueing.turns import Turns
from kai.engine.queueing.victims import VictimSource
from kai.engine.reasons import Errors, Unschedulable
from kai.model.decisions import Cut, ResourceVector
from kai.snapshot.classes import TaskClass
from kai.snapshot.kept import Kept, KeptValues, as_it_is
from kai.snapshot.resources import PODS
from kai.snapshot.rows import Job, Queue, Task
from kai.snapshot.state import ClusterState

#: With so many views, each of which has arrays over all nodes, the next cycle begins with none.
_MANY_VIEWS = 512
#: What classes may demand of nodes, while these are the same.
_FILTERS: Final = Kept[StaticFilters](lent=as_it_is)
#: What each class demands of nodes, and its fits and scores, while nodes and options are the same.
_VIEWS: Final = Kept[Views](lent=Views.lent)
#: Possible victims by queue.
_POOLS: Final = Kept[Pools]()
_NO_PLUGINS: Final[Mapping[str, Opener]] = {}
_UNTOLD: Final = (
    "plugin {name!r} chooses sets of nodes for groups, and its PluginSpec does not say so; "
    "write node_sets=True there"
)


class Session:
    """Opened on a settled state; after :meth:`close` the state holds only what was decided."""

    def __init__(
        self,
        state: ClusterState,
        config: SchedulerConfig,
        now: float,
        *,
        usage: Usage | None = None,
        plugins: Mapping[str, Opener] = _NO_PLUGINS,
        turns: Turns | None = None,
        cuts: Sequence[Cut] | None = None,
        tells: bool = True,
    ) -> None:
        """Settle the state as of ``now`` (Unix seconds), divide the cluster, and open the plugins.

        Before: no other session is open on the state. After: nothing is decided yet, and the pods and
        subgroups of each group are in the configured order.

        Args:
            state: read and changed until :meth:`close`.
            config: what is on, and how.
            now: the moment for which everything is decided.
            usage: past use by queue, as fractions of the cluster; none counts as nothing used.
            plugins: those that there are, by the names of the configuration.
            turns: lets searches of several cycles make up one; without them they run to their end.
            cuts: where time ended searches of the cycle that this one repeats; None: the clock says.
            tells: whether anybody is told why pods found no place.
        """
        state.settle(now)
        group_order, scores = orders(config, state)
        state.order_groups(group_order)
        self.state = state
        self.config = config
        self.now = now
        self.nodes = state.nodes
        self.ledger = state.ledger
        self.tells = tells
        self.errors = Errors()
        #: What others keep here until the session ends.
        self.memo = KeptValues()
        self.clock: Callable[[], float] = time.monotonic
        self.turns = turns or Turns()
        self.cuts = cuts
        self.predicates = config.plugin("predicates") is not None
        self.static = _FILTERS.get(state.kept, (self.nodes.epoch, self.predicates), self._filters)
        self.options = with_headroom(scores, state, self.static)
        self._alarm = _Alarm()
        #: Seconds that plugins took to open.
        self.plugin_timings: dict[str, float] = {}
        started = time.perf_counter()
        # Plugins find shares and filters in their handle, so these are made before.
        self._open_fair_share(usage or {})
        started = self._opening_took("proportion", started)
        self._open_filters()
        self._opening_took("predicates", started)
        #: By class.
        self._plain: dict[int, bool] = {}
        self.handle = self._handle()
        self.plugins = Plugins(self._opened(plugins))
        #: Whether there are plugins of other packages: what these go by nobody knows.
        self.foreign = any(each.name not in plugins and each.spec.opener for each in config.plugins)
        #: Those that have something to say about pods of a class; None where nobody has.
        self.concerned: Callable[[TaskClass], Concerned | None] = self.plugins.concerned
        #: What else of a pod than its spec makes a difference to nodes; None where nothing does for anybody.
        self.particulars: Callable[[Task], Hashable] | None = self.plugins.particulars
        #: Whether neither a limit nor a quota can keep a job from being placed.
        self.unbounded: Callable[[Job], bool] = self.plugins.unbounded
        self.nominate = config.plugin("nominatednode") is not None
        #: The order of queues with the same parent.
        self.queue_order = QueueOrder(self.plugins.queue_rankings, self.forest.rank)
        #: The order of jobs inside a queue.
        self.job_key = KeyOfJob(self.plugins.job_rankings)
        #: The order of jobs, the last of which is the first victim.
        self.victim_key = victim_key(
            state, self.job_key, [each.rank for each in self.plugins.victim_rankings]
        )
        self.pools = self._open_pools()
        self.decisions = Decisions(state, pools=self.pools, now=now)

    # --- opening -------------------------------------------------------------------------------
    def _opening_took(self, plugin: str, started: float) -> float:
        """Count the time since ``started`` for a plugin, if it is on; returns now."""
        now = time.perf_counter()
        if self.config.plugin(plugin) is None:
            return now
        self.plugin_timings[plugin] = self.plugin_timings.get(plugin, 0.0) + now - started
        return now

    def _open_fair_share(self, usage: Usage) -> None:
        division = self.division = divide_cluster(self.state, self.config, usage=usage)
        self.forest, self.columns, self.shares = division.forest, division.columns, division.shares

    def _open_filters(self) -> None:
        stamp = (self.nodes.epoch, self.options, self.predicates)
        views = _VIEWS.get(self.state.kept, stamp, lambda: Views(self.nodes, self.static, self.options))
        if len(views) > _MANY_VIEWS:
            views.clear()
        self._views = views
        #: Where pods of plain classes begin at once.
        self.seating = Seating(views, self.nodes)

    def _handle(self) -> Handle:
        """Knows nobody who knows the session: this and all it holds would wait for garbage collection."""
        state, config = self.state, self.config
        return Handle(
            nodes=self.nodes,
            filters=self.static,
            tasks=state.tasks,
            affine=state.affine,
            jobs=state.jobs,
            pending_jobs=state.pending_jobs,
            queues=state.queue_rows,
            classes=state.classes,
            resources=state.resources,
            objects=state.objects,
            versions=state.versions,
            faults=state.faults,
            division=self.division,
            min_gpu_memory_mib=state.min_gpu_memory_mib,
            max_gpu_memory_mib=state.max_gpu_memory_mib,
            allocatable=partial(_allocatable, state),
            refusals=state.refusals,
            eviction_refusals=state.eviction_refusals,
            params=state.params,
            flags=config.params,
            now=self.now,
            due=self._alarm.due,
            allot=state.ledger.counts.allot,
            kept=state.kept,
            arguments=config.arguments,
            requires=self.predicates,
            prefers=self.options.preferences,
            claims=config.serves_claims,
            moves=config.moves_pods,
        )

    def _opened(self, openers: Mapping[str, Opener]) -> list[Plugin]:
        opened: list[Plugin] = []
        started = time.perf_counter()
        for option in self.config.plugins:
            opener = openers.get(option.name)
            if opener is not None:
                opened += opener(self.handle)
            elif option.spec.opener is not None:
                opened += _of_others(option, self.handle)
            else:
                continue
            started = self._opening_took(option.name, started)
        return opened

    def _filters(self) -> StaticFilters:
        return StaticFilters(
            self.nodes.nodes,
            enabled=self.predicates,
            restricted=self.state.params.restrict_node_scheduling,
        )

    def _open_pools(self) -> Pools:
        """Those of the cycle before, where the order of victims is that of jobs alone, and lasts."""
        if self.victim_key is not self.job_key or not all(each.lasting for each in self.plugins.job_rankings):
            return Pools(self.victim_key)
        stamp = (self.config.plugins, self.state.group_order)
        pools = _POOLS.get(self.state.kept, stamp, lambda: Pools(self.job_key))
        pools.reopen(self.job_key, self.state.queues)
        return pools

    @property
    def tracked(self) -> bool:
        """Whether some plugin wants to hear of every placement."""
        return bool(self.plugins.trackers)

    # --- reading -------------------------------------------------------------------------------
    def view(self, cls: TaskClass) -> ClassView:
        """Fits and scores of a class on all nodes; refresh before reading.

        One view for each class, kept over cycles while no node's object changes. The first costs time by the
        number of nodes, a refresh by those on which something came or went.
        """
        return self._views.of(cls)

    def plain(self, cls: TaskClass) -> bool:
        """Whether nothing but amounts and static filters matters of a class.

        Pods of such a class may be placed without a statement. Found out once for each class in a cycle.
        """
        known = self._plain.get(cls.id)
        if known is None:
            special = cls.shared or self.tracked or self.concerned(cls) is not None
            known = self._plain[cls.id] = not special
        return known

    def fits_now(self, cls: TaskClass, row: int) -> bool:
        """Whether a class that asks for no shared devices fits on what is idle on the node in this row.

        Only amounts count, no filter. Pod slots count where filters check them.
        """
        idle = self.nodes.cells_idle
        for column, amount in cls.items:
            if idle[row, column] < amount and (column != PODS or self.options.pod_slots):
                return False
        return True

    def jobs_in_order(self, jobs: Iterable[Job], *, depth: int | None = None) -> PendingJobs:
        """Jobs in the order in which they are served.

        ``depth`` is how many of each queue are looked at, at most; None is all. Jobs whose queue is not a
        leaf are left out.
        """
        return PendingJobs(
            jobs,
            self.queue_order,
            key=self.job_key,
            gpu_memory_mib=self.state.min_gpu_memory_mib,
            depth=depth,
        )

    def simulated_jobs(self, jobs: Sequence[Job]) -> PendingJobs | TwoJobs:
        """Jobs in the order in which they are served in a simulation, where victims compete too.

        The same order as :meth:`jobs_in_order`, but chunks count pods that were evicted within the statement.
        """
        memory = self.state.min_gpu_memory_mib
        if len(jobs) == 2:
            pair = (jobs[0], jobs[1])
            return TwoJobs(pair, self.queue_order, key=self.job_key, gpu_memory_mib=memory, simulation=True)
        return PendingJobs(jobs, self.queue_order, key=self.job_key, gpu_memory_mib=memory, simulation=True)

    def lookahead_jobs(self, jobs: Iterable[Job], *, depth: int | None = None) -> LookaheadJobs:
        """The same, where most jobs are expected to get what they want.

        Whoever takes one places all that it asks for, or pushes it again, or refuses it, before the next.
        """
        return LookaheadJobs(
            jobs,
            self.queue_order,
            key=self.job_key,
            gpu_memory_mib=self.state.min_gpu_memory_mib,
            depth=depth,
        )

    def allocatable_jobs(self) -> list[Job]:
        """Jobs with pending tasks, enough pods, a queue and a sound tree.

        As of now, in no order that counts. Costs time by the number of all jobs that wait.
        """
        return _allocatable(self.state)

    def victim_source(
        self,
        job: Job,
        of_queue: Callable[[Queue], bool],
        *,
        of_job: Callable[[Job], bool] | None = None,
        rules: VictimRules = ANYBODY,
        most: int | None = None,
    ) -> VictimSource:
        """Preemptible jobs that hold resources, other than ``job``, as victims in order.

        Nothing is evicted. Conditions are asked of queues at once, of jobs as far as somebody draws.

        Args:
            job: for whom they would make room.
            of_queue: which queues' jobs count; asked only of queues that yield and have jobs.
            of_job: which jobs count; None takes all.
            rules: what plugins say of this search; whom they keep safe does not count either.
            most: the most jobs; those that would be victims first. None has no bound.
        """
        pools: list[tuple[Queue, Pool]] = []
        gangs = False
        also, counts = rules.of_queue, both(of_job, rules.accepts)
        for queue in self.state.queue_rows:
            if queue.yields and queue.jobs and of_queue(queue) and (also is None or also(queue)):
                pool = self.pools.of(queue)
                if pool.jobs:
                    pools.append((queue, pool))
                    gangs = gangs or pool.gangs
        found = [(queue, pool.jobs) for queue, pool in pools]
        if most is not None:
            found = _first_victims(pools, most)

        accepts = counts
        # Where no queue is the job's own, none of its jobs is the job.
        if job.queue in [queue for queue, _ in found]:

            def accepts(victim: Job) -> bool:
                return victim is not job and (counts is None or counts(victim))

        return VictimSource(
            found, queue_order=self.queue_order, key=self.victim_key, accepts=accepts, gangs=gangs
        )

    def victims_among(self, jobs: Iterable[Job]) -> VictimSource:
        """Just these jobs as victims, in order: one chunk of each makes the room that is needed.

        Nothing is evicted. The search tries all of them at once, before it goes through them one by one.
        """
        of_queue: dict[str, tuple[Queue, list[Job]]] = {}
        for job in sorted(jobs, key=lambda job: (self.victim_key(job), job.key)):
            of_queue.setdefault(job.queue.name, (job.queue, []))[1].append(job)
        gangs = any(job.active_allocated > 1 for _, found in of_queue.values() for job in found)
        victims = list(of_queue.values())
        return VictimSource(
            victims,
            queue_order=self.queue_order,
            key=self.victim_key,
            accepts=None,
            gangs=gangs,
            together=True,
        )

    def due_time(self) -> float:
        """When time alone may change what is decided, in Unix seconds; infinite if never, 0 for soon."""
        return min(self._alarm.earliest, self.state.next_change())

    def due(self, moment: float) -> None:
        """Time alone changes something at ``moment`` (Unix seconds); the earliest counts, 0 is soon."""
        self._alarm.due(moment)

    @property
    def alarm(self) -> float:
        """The earliest moment that :meth:`due` was told. Set to what it was, what came since is void."""
        return self._alarm.earliest

    @alarm.setter
    def alarm(self, earliest: float) -> None:
        self._alarm.earliest = earliest

    def promised_jobs(self) -> list[Job]:
        """Jobs that the last cycle let wait for resources being released, in the order of its promises.

        Those of them that could be given a place now, and not those that were made anew by their names since;
        none where ``keep_nominations`` is off.
        """
        known, gone = PROMISED.of(self.state.kept), self.state.gone_jobs
        if not known or not self.config.params.keep_nominations:
            return []
        able = {job.key: job for job in self.allocatable_jobs()}
        return [able[key] for key in known if key in able and key not in gone]

    def depth(self, action: str) -> int | None:
        """How many jobs of a queue an action looks at; None is all."""
        return self.config.queue_depth.get(action)

    def statement(self) -> Statement:
        """A new, empty transaction over the state.

        Steps of several statements are undone in the reverse of their order.
        """
        return Statement(self.ledger, trackers=self.plugins.trackers)

    def requested(self, tasks: Sequence[Task]) -> ResourceVector:
        """What tasks ask of their queue: millicores, bytes and devices.

        GPU memory is counted against the smallest GPUs, so that it is not too little anywhere.
        """
        return request_of(tasks, gpu_memory_mib=self.state.min_gpu_memory_mib)

    def over_capacity(self, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
        """Why a chunk may not be placed, whatever the nodes say; None if it may.

        The first plugin that refuses counts. Nothing changes; what queues hold is read as it is now.
        """
        if self.unbounded(job):
            return None
        for each in self.plugins.quotas:
            if (why := each.refuse(job, tasks)) is not None:
                return why
        return None

    def refused_for_good(self, job: Job, tasks: Sequence[Task]) -> Unschedulable | None:
        """Why a chunk could not be placed whoever else gave up a place; None if it could. Nothing changes."""
        for each in self.plugins.quotas:
            if (why := each.refuse_for_good(job, tasks)) is not None:
                return why
        return None

    def stands_for_alike(self, job: Job) -> bool:
        """Whether those that are alike find no place where a job finds none; nothing changes in between."""
        task = only_task(job)
        return not (task is None or self.foreign or self.concerned(task.cls) is not None)

    # --- recording -----------------------------------------------------------------------------
    def error(self, job: Job, error: Unschedulable) -> None:
        """Record why a job cannot run; what is recorded already counts once."""
        self.errors.of(job.key).add(error)

    def pod_error(self, job: Job, task: Task, *, message: str) -> None:
        """Record why a pod found no place.

        The ``message`` is for the pod's owner; the last one about a pod counts. What is said of
        its job is another matter: :meth:`error`.
        """
        self.errors.of(job.key).pods[task.key] = message

    def refuse_alike(self, job: Job, others: Sequence[Job]) -> None:
        """What was recorded of a job, which was refused, holds for others that are alike."""
        if others:
            tasks = map(only_task, others)
            self.errors.share(job.key, [(task.job.key, task.key) for task in tasks if task and task.job])

    def close(self) -> None:
        """Take back what only a cycle knows: placements on resources that are still being released."""
        self.decisions.close()


class _Alarm:
    """When time alone changes something, as far as anybody has said; infinite if nobody has."""

    def __init__(self) -> None:
        self.earliest = float("inf")

    def due(self, moment: float) -> None:
        self.earliest = min(self.earliest, moment)


def _of_others(option: PluginOption, handle: Handle) -> Sequence[Plugin]:
    """A plugin of another package, which is held to what it says of itself."""
    assert option.spec.opener is not None
    found = tuple(option.spec.opener(handle))
    if not option.spec.node_sets and any(isinstance(each, NodeSets) for each in found):
        raise ConfigError(_UNTOLD.format(name=option.name))
    return found


def _allocatable(state: ClusterState) -> list[Job]:
    return [
        job
        for job in state.pending_jobs.values()
        if job.queue.leaf and not job.error and not job.facts.attempted and job.ready
    ]


def _first_victims(pools: list[tuple[Queue, Pool]], most: int) -> list[tuple[Queue, list[Job]]]:
    """The best victims over all queues: the last in the order of jobs."""
    last = sorted(key for _, pool in pools for key in pool.last(most))[-most:] if most else []
    kept = [(queue, pool.since(last[0])) for queue, pool in pools] if last else []
    return [(queue, jobs) for queue, jobs in kept if jobs]
