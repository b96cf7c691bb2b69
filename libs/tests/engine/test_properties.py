"""What must hold over random clusters, hierarchies and workloads, whatever is decided."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example

from kai.engine import Engine, SchedulerConfig
from kai.engine.actions import ACTIONS
from kai.engine.actions import eviction as evicting
from kai.engine.kernel.view import NEVER
from kai.engine.queueing.pending import LookaheadJobs
from kai.engine.queueing.pools import Pool
from kai.engine.search import bounds, scenarios, solver
from kai.model.decisions import BindDecision, Nomination
from kai.snapshot import codec
from kai.snapshot.rows import Job
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.status import ACTIVE_USED, Status
from libs.tests.engine.builders import NOW, Objects, a_group, a_pod, a_state
from libs.tests.engine.random_worlds import a_copy, carry_out, fuzz, random_objects


def _gang_kept(job: Job, evicted: set[str]) -> bool:
    left = [
        sum(ACTIVE_USED[t.status] and t.uid not in evicted for t in pod_set.tasks.values())
        >= pod_set.min_member
        for pod_set in job.pod_sets.values()
    ]
    return all(left)


@fuzz
def test_every_action_keeps_the_invariants(world: int) -> None:
    state = a_state(random_objects(world))
    engine = Engine()
    session = engine.open(state, NOW)
    table = state.nodes
    for action in engine.config.actions:
        ACTIONS[action](session)
        state.check()
        assert (table.idle >= 0).all(), action
        assert (table.idle + table.releasing >= 0).all(), action
        for queue in state.queue_rows:
            limit = queue.limit[2]
            assert limit < 0 or queue.allocated.gpu_centi <= limit * 100 + 1e-6, (action, queue.name)
            quota = queue.deserved[2]
            assert quota < 0 or queue.non_preemptible.gpu_centi <= quota * 100 + 1e-6, (action, queue.name)
    session.close()
    state.check()


@fuzz
def test_gangs_start_as_a_whole_or_not_at_all(world: int) -> None:
    state = a_state(random_objects(world))
    before = {job.key: job.active_used for job in state.jobs.values()}
    result = Engine().run(state, NOW)
    bound = Counter(bind.pod.pod_group for bind in result.binds)
    for key in bound:
        job = state.jobs[key]
        assert before[key] or job.gang_satisfied, key


@fuzz
def test_a_gang_that_is_promised_a_place_is_promised_one_for_each_pod_that_it_lacks(world: int) -> None:
    """Whether by what is released, or by what others have to give up; pods that are done are not lacking."""
    objects, rng = random_objects(world), random.Random(world)
    for kind, obj in objects:
        if kind is Kind.POD and not obj.spec.node_name and rng.random() < 0.2:
            obj.spec.node_name, obj.status.phase = "node-0", "Succeeded"
    state = a_state(objects)
    session = Engine().open(state, NOW)
    for action in ("allocate", "consolidation", "reclaim", "preempt"):
        ACTIONS[action](session)
        moved = {each.pod.uid for each in session.decisions.evictions}
        promised = (each.pod for each in session.decisions.nominations if each.pod.uid not in moved)
        for key in {pod.pod_group for pod in promised}:
            assert state.jobs[key].gang_satisfied, (action, key)


@fuzz
def test_nobody_is_evicted_without_somebody_who_gets_the_place(world: int) -> None:
    state = a_state(random_objects(world))
    result = Engine().run(state, NOW)
    waiting = {nomination.pod.pod_group for nomination in result.nominations}
    for eviction in result.evictions:
        job = state.jobs[eviction.pod.pod_group]
        if eviction.action == "stalegangeviction":
            continue
        assert job.preemptible
        assert eviction.evictor in waiting, eviction
        assert eviction.evictor != eviction.pod.pod_group


@fuzz
@example(world=3649294)  # two queues took from each other what only one of them deserved
def test_rounds_come_to_rest_without_endless_evictions(world: int) -> None:
    objects = random_objects(world, sharing=False)
    state, engine = a_state(objects), Engine()
    pods = {obj.key: obj for kind, obj in objects if kind is Kind.POD}
    for key, pod in pods.items():
        if pod.metadata.deletion_timestamp:
            pods[key] = a_copy(pod, node="", uid=f"{key}-again")
            state.apply(Kind.POD, pods[key])
    quiet = 0
    for number in range(50):
        result = engine.run(state, NOW + number)
        carry_out(state, pods, result, number)
        state.check()
        quiet = 0 if result.evictions or result.binds else quiet + 1
        if quiet >= 3:
            return
    raise AssertionError("evictions went on for 50 rounds")


@fuzz
def test_the_order_of_objects_does_not_matter(world: int) -> None:
    objects = random_objects(world)
    first = Engine().run(a_state(objects), NOW)
    shuffled = list(objects)
    random.Random(world).shuffle(shuffled)
    second = Engine().run(a_state(shuffled), NOW)
    for name in ("binds", "evictions", "nominations", "outcomes", "shares"):
        assert getattr(first, name) == getattr(second, name), name


@fuzz
def test_a_kept_state_decides_like_a_fresh_one(world: int) -> None:
    objects = random_objects(world)
    late = [each for each in objects if each[0] in (Kind.POD, Kind.POD_GROUP)][::2]
    early = [each for each in objects if each not in late]
    engine = Engine(SchedulerConfig(actions=("stalegangeviction",)))
    warm = a_state(early)
    engine.run(warm, NOW)
    if any(task.facts.evicting for task in warm.tasks.values()):
        return
    for kind, obj in late:
        warm.apply(kind, obj)
    for job in warm.jobs.values():
        job.stale_since = 0.0
    cold = a_state(objects)
    first, second = Engine().run(warm, NOW), Engine().run(cold, NOW)
    assert first.binds == second.binds
    assert first.evictions == second.evictions
    assert first.nominations == second.nominations
    assert first.shares == second.shares


@fuzz
def test_victims_in_order_that_are_kept_equal_those_sorted_anew(world: int) -> None:
    objects, rng = random_objects(world, sharing=False), random.Random(world)
    state, engine = a_state(objects), Engine()
    pods = {obj.key: obj for kind, obj in objects if kind is Kind.POD}
    groups = {obj.key: obj for kind, obj in objects if kind is Kind.POD_GROUP}
    for number in range(4):
        carry_out(state, pods, engine.run(state, NOW + number), number)
        for kind, known in ((Kind.POD, pods), (Kind.POD_GROUP, groups)):
            for key in rng.sample(sorted(known), len(known) // 3):
                state.remove(kind, key)
                if rng.random() < 0.5:
                    state.apply(kind, known[key])
        session = engine.open(state, NOW + number)
        for queue in state.queue_rows:
            kept, anew = session.pools.of(queue), Pool(queue, session.job_key)
            assert kept.jobs == anew.jobs
            assert kept.gangs >= anew.gangs
            (grain, largest), (exact, most) = kept.chunks(), anew.chunks()
            assert exact == grain or (grain and exact % grain == 0)
            assert largest >= most
        session.close()


@fuzz
def test_scores_of_many_nodes_equal_those_of_each(world: int) -> None:
    state = a_state(random_objects(world))
    session = Engine().open(state, NOW)
    for task in state.tasks.values():
        view = session.view(task.cls)
        vector = view.refresh().copy()
        assert vector.tolist() == [view.score_of(row) for row in range(len(vector))]
        if not task.cls.shared:
            many = view._vector(np.arange(len(vector)))
            assert many.tolist() == vector.tolist()


@fuzz
def test_a_score_that_is_kept_equals_one_made_anew(world: int) -> None:
    state = a_state(random_objects(world))
    engine = Engine()
    session = engine.open(state, NOW)
    views = {task.cls.id: session.view(task.cls) for task in state.tasks.values()}
    for view in views.values():
        view.refresh()
    for action in engine.config.actions:
        ACTIONS[action](session)
        for view in views.values():
            kept = view.refresh().tolist()
            assert kept == [view.score_of(row) for row in range(len(kept))]


@fuzz
def test_the_best_node_is_the_first_with_the_highest_score(world: int) -> None:
    """Whatever is evicted, placed and taken back in between."""
    rng = random.Random(world)
    state = a_state(random_objects(world))
    session = Engine().open(state, NOW)
    tasks = [task for task in state.tasks.values() if task.job is not None]
    views = list({task.cls.id: session.view(task.cls) for task in tasks}.values())
    statement = session.statement()
    for _ in range(30):
        task, node = rng.choice(tasks), rng.choice(state.nodes.nodes)
        if task.status is Status.RUNNING:
            statement.evict(task)
        elif task.status is Status.PENDING:
            statement.pipeline(task, node, groups=("shared",) if task.cls.shared else ())
        elif rng.random() < 0.3:
            statement.rollback(rng.randint(0, statement.checkpoint()))
        view = rng.choice(views)
        scores = [view.score_of(row) for row in range(len(state.nodes))]
        best = int(np.argmax(scores))
        assert view.best() == (best if scores[best] != NEVER else -1)


@fuzz
def test_jobs_placed_together_go_where_each_alone_would(world: int) -> None:
    rng = random.Random(world)
    objects = [
        each for each in random_objects(world, sharing=False) if each[0] not in (Kind.POD, Kind.POD_GROUP)
    ]
    leaves = [obj.metadata.name for kind, obj in objects if kind is Kind.QUEUE and obj.spec.parent_queue]
    for i in range(rng.randint(20, 40)):
        group = a_group(
            f"job-{i}", queue=rng.choice(leaves), created=i // 3, priority=rng.choice(["train", "build"])
        )
        pods = (
            a_pod(f"job-{i}-{n}", group=f"job-{i}", gpus=rng.choice([1, 1, 1, 2]), cpu=rng.choice("1124"))
            for n in range(rng.choice([1, 1, 1, 2]))
        )
        objects += [(Kind.POD_GROUP, group), *((Kind.POD, pod) for pod in pods)]
    together = Engine().run(a_state(objects), NOW)
    with mock.patch.object(LookaheadJobs, "following", return_value=[]):
        alone = Engine().run(a_state(objects), NOW)
    for name in ("binds", "evictions", "nominations", "outcomes", "shares"):
        assert getattr(together, name) == getattr(alone, name), name


@fuzz
def test_bounds_never_refuse_what_the_plain_search_finds(world: int) -> None:
    """Without bounds every prefix of victims is simulated; with them the same jobs are solved."""
    objects = random_objects(world)
    plain = _solved_without_bounds(objects)
    assert _solved(objects) == plain
    assert _solved_at_a_glance(objects) == plain


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (bounds.GangBound, "holds_with", lambda bound, tasks: False),
        (bounds.GangBound, "first_holding", lambda bound, columns, **given: -1),
        (bounds.SlotBound, "reach", lambda bound, tasks: bound._base_total),
        (evicting, "never_fits", lambda session, job, tasks: len(tasks) > 1),
        (evicting._Action, "_may_suffice", lambda action, tasks, rules: len(tasks) > 1),
    ],
)
def test_a_bound_that_refuses_too_much_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Callable[..., Any]
) -> None:
    worlds = [random_objects(number) for number in range(100)]
    plain = [_solved_without_bounds(objects) for objects in worlds]
    monkeypatch.setattr(owner, name, wrong)
    assert any(_solved_at_a_glance(objects) != solved for objects, solved in zip(worlds, plain, strict=True))


def _solved(objects: Objects) -> tuple[object, ...]:
    """Who was served by which action, at whose cost, and with how many places; not which of equal pods."""
    state = a_state(objects)
    result = Engine().run(state, NOW)

    def places(decisions: Iterable[BindDecision | Nomination]) -> Counter[tuple[object, ...]]:
        tasks = ((state.tasks[each.pod.uid], each.node) for each in decisions)
        return Counter((task.job.key, task.pod_set.name, task.cls.id, node) for task, node in tasks)

    costs = {(each.pod.uid, each.action, each.evictor) for each in result.evictions}
    served = {
        name: count for name, count in result.counters.items() if name[0] == "podgroups_scheduled_by_action"
    }
    return places(result.binds), places(result.nominations), costs, served


def _solved_at_a_glance(objects: Objects) -> tuple[object, ...]:
    """The bound looks at all victims at once, as it does elsewhere after many steps."""
    with mock.patch.object(scenarios, "_STEPS", 0):
        return _solved(objects)


def _solved_without_bounds(objects: Objects) -> tuple[object, ...]:
    with (
        mock.patch.object(bounds.GangBound, "holds", new_callable=mock.PropertyMock, return_value=True),
        mock.patch.object(bounds.GangBound, "holds_with", return_value=True),
        mock.patch.object(bounds.GangBound, "first_holding", return_value=None),
        mock.patch.object(evicting, "never_fits", return_value=False),
        mock.patch.object(evicting._Action, "_may_suffice", return_value=True),
        mock.patch.object(solver.Search, "_room_for", return_value=True),
    ):
        return _solved(objects)


@fuzz
def test_jobs_are_served_in_the_order_foreseen(world: int) -> None:
    """Looking ahead at every step decides as never looking ahead."""
    from unittest import mock

    from kai.engine.queueing import pending

    objects = random_objects(world)
    with mock.patch.multiple(pending, _MANY=1, _CAUTION=1_000):
        ahead = Engine().run(a_state(objects), NOW)
    with mock.patch.object(pending, "_MANY", 1_000):
        step_by_step = Engine().run(a_state(objects), NOW)
    for name in ("binds", "evictions", "nominations", "outcomes", "shares"):
        assert getattr(ahead, name) == getattr(step_by_step, name), name


@fuzz
def test_many_pods_evicted_at_once_are_evicted_like_each_alone(world: int) -> None:
    rng = random.Random(world)
    sharing = rng.random() < 0.5
    alone, together = (a_state(random_objects(world, sharing=sharing)) for _ in range(2))
    running = [key for key, task in alone.tasks.items() if task.job and task.status is Status.RUNNING]
    chosen = rng.sample(running, rng.randint(0, len(running)))
    one_by_one = Engine().open(alone, NOW).statement()
    at_once = Engine().open(together, NOW).statement()
    for key in chosen:
        one_by_one.evict(alone.tasks[key])
    with mock.patch("kai.engine.framework.statement._MANY", 1):
        at_once.evict_all([together.tasks[key] for key in chosen])
    at_once.check()
    together.check()
    assert _held(together) == _held(alone)
    at_once.rollback()
    one_by_one.rollback()
    together.check()
    assert _held(together) == _held(alone)


def _held(state: ClusterState) -> tuple[object, ...]:
    """What every sum of the state says."""
    return (
        state.nodes.idle.tolist(),
        state.nodes.releasing.tolist(),
        [(queue.name, queue.allocated, queue.non_preemptible) for queue in state.queue_rows],
        state.ledger.charges.allocated.tolist(),
        {key: (task.status, task.virtual, task.charged) for key, task in state.tasks.items()},
        {key: (job.active_allocated, job.active_used, job.version) for key, job in state.jobs.items()},
    )


@fuzz
def test_a_statement_that_is_rolled_back_leaves_no_trace(world: int) -> None:
    rng = random.Random(world)
    state = a_state(random_objects(world))
    session = Engine().open(state, NOW)
    before = (state.nodes.idle.copy(), state.nodes.releasing.copy(), codec.cut(state).digest)
    sums = {q.name: (q.allocated.amounts(), q.non_preemptible.amounts()) for q in state.queue_rows}
    statement = session.statement()
    tasks = [task for task in state.tasks.values() if task.job is not None]
    for _ in range(30):
        task = rng.choice(tasks)
        node = rng.choice(state.nodes.nodes)
        if task.status in (Status.RUNNING, Status.PIPELINED, Status.ALLOCATED) and rng.random() < 0.6:
            if task.status is not Status.ALLOCATED:
                statement.evict(task)
        elif task.status is Status.PENDING or (task.status is Status.RELEASING and task.virtual):
            groups = ("shared",) if task.cls.shared else ()
            if task.status is Status.PENDING and rng.random() < 0.5:
                statement.allocate(task, node, groups=groups)
            else:
                statement.pipeline(task, node, groups=groups)
        statement.check()
    statement.rollback()
    state.check()
    assert (state.nodes.idle == before[0]).all()
    assert (state.nodes.releasing == before[1]).all()
    assert codec.cut(state).digest == before[2]
    assert {q.name: (q.allocated.amounts(), q.non_preemptible.amounts()) for q in state.queue_rows} == sums
