"""Every deliberate difference from the original that the engine makes, as docs/differences.md lists them."""

from collections import Counter

import pytest

from kai.config import SearchBudgets
from kai.engine import Engine, EngineParams, SchedulerConfig
from kai.model import names
from kai.model.decisions import Outcome
from kai.model.objects import SubGroup, Topology, TopologyConstraint, TopologyLevel, TopologySpec
from kai.snapshot.kinds import StateParams
from kai.snapshot.state import ClusterState, Kind
from kai.snapshot.status import Status
from libs.tests.engine.builders import NOW, a_group, a_job, a_node, a_pod, a_queue, a_state, add, bound


def test_q1_groups_of_the_same_name_in_two_namespaces_are_two() -> None:
    state = a_state(
        [
            (Kind.NODE, a_node("n", gpus=2)),
            *a_job("job", gpus=1, namespace="a"),
            *a_job("job", gpus=1, namespace="b"),
        ]
    )
    result = Engine().run(state, NOW)
    assert sorted(bind.pod.pod_group for bind in result.binds) == ["a/job", "b/job"]


def test_q3_a_queue_depth_keeps_the_best_jobs() -> None:
    jobs = [each for i in range(9) for each in a_job(f"job-{i}", gpus=1, created=100 - i)]
    state = a_state([(Kind.NODE, a_node("n", gpus=8)), *jobs])
    result = Engine(SchedulerConfig(queue_depth={"allocate": 2})).run(state, NOW)
    assert sorted(bound(result)) == ["job-7-0", "job-8-0"]


def test_q4_the_cap_of_consolidation_takes_the_last_jobs_in_order_and_no_more() -> None:
    engine = Engine(SchedulerConfig(params=EngineParams(max_consolidation_preemptees=1)))
    running = [each for i in range(3) for each in a_job(f"run-{i}", gpus=1, created=i, on=f"n{i}")]
    state = a_state(
        [
            *((Kind.NODE, a_node(f"n{i}", gpus=2)) for i in range(3)),
            *running,
            *a_job("new", gpus=2, created=9),
        ]
    )
    result = engine.run(state, NOW)
    assert [each.pod.name for each in result.evictions] == ["run-2-0"]


def test_q10_pods_without_gpus_leave_idle_gpus_alone() -> None:
    nodes = [a_node("a-free", gpus=4), a_node("b-taken", gpus=4), a_node("c-plain", gpus=0, cpu="1")]
    taken = a_job("busy", gpus=4, on="b-taken")
    state = a_state(
        [*((Kind.NODE, node) for node in nodes), *taken, *a_job("one", created=1), *a_job("two", created=2)]
    )
    assert bound(Engine().run(state, NOW)) == {"one-0": "c-plain", "two-0": "b-taken"}


def test_q11_a_pod_that_joins_a_shared_device_needs_one_slot_and_a_new_device_two() -> None:
    joined = [
        (Kind.NODE, a_node("n", gpus=1, pods=3)),
        _reservation("n", "held"),
        *a_job("first", fraction=0.5, on="n", groups=("held",)),
    ]
    assert bound(Engine().run(a_state([*joined, *a_job("next", fraction=0.5)]), NOW)) == {"next-0": "n"}
    alone = a_state([(Kind.NODE, a_node("n", gpus=1, pods=1)), *a_job("new", fraction=0.5)])
    assert not Engine().run(alone, NOW).binds


@pytest.mark.parametrize("after", [{}, {"gpus": 1}, {"fraction": 0.5}], ids=["no GPU", "a GPU", "a part"])
def test_q11_the_slot_of_a_reservation_pod_that_is_still_to_come_is_nobody_elses(after) -> None:
    state = a_state([(Kind.NODE, a_node("n", gpus=4, pods=3)), *a_job("new", fraction=0.5)])
    add(state, a_job("fits", created=1, **after))
    add(state, a_job("late", created=2))
    first = Engine().run(state, NOW)
    assert bound(first) == {"new-0": "n", "fits-0": "n"}
    state.check()
    add(state, [_reservation("n", *first.binds[0].gpu_groups)])
    state.check()
    assert not Engine().run(state, NOW + 1).binds


def test_q12_gpus_of_any_vendor_count_as_whole_devices() -> None:
    pod = a_pod("job-0", group="job", spec=None)
    pod.spec.containers[0].resources.requests["example.com/gpu"] = "2"
    node = a_node("n", gpus=0, extra={"example.com/gpu": "2"})
    state = a_state([(Kind.NODE, node), (Kind.POD_GROUP, a_group("job", queue="team")), (Kind.POD, pod)])
    result = Engine().run(state, NOW)
    assert bound(result) == {"job-0": "n"}
    assert {share.queue: share.allocated[2] for share in result.shares}["team"] == 2


def test_q14_the_skip_rule_compares_gpu_memory() -> None:
    held = "4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a001"
    state = a_state(
        [
            (Kind.NODE, a_node("n", gpus=1, gpu_memory_mib=40_000)),
            *a_job("run", gpu_memory_mib=30_000, on="n", groups=(held,)),
            *a_job("large", gpu_memory_mib=50_000, priority="build-preemptible"),
            *a_job("small", gpu_memory_mib=20_000, priority="build-preemptible", created=1),
        ]
    )
    result = Engine(SchedulerConfig(actions=("preempt",))).run(state, NOW)
    assert [each.pod.name for each in result.nominations] == ["small-0"]


def _optional_parts(running: str) -> list[tuple[Kind, object]]:
    parts = [SubGroup(name="a", min_member=1), SubGroup(name="b", min_member=1)]
    group = a_group("job", queue="team", sub_groups=parts, min_sub_group=1, started=NOW - 500)
    return [
        (Kind.POD_GROUP, group),
        (Kind.POD, a_pod("job-0", group="job", gpus=1, node="n", sub_group=running)),
    ]


def test_q15_a_group_with_enough_subgroups_is_not_stale() -> None:
    state = a_state([(Kind.NODE, a_node("n", gpus=2)), *_optional_parts("a")])
    engine = Engine(SchedulerConfig(params=EngineParams(default_staleness_grace_seconds=0)))
    assert not engine.run(state, NOW).evictions


def test_q17_giving_up_a_stale_gang_rearms_its_delay_and_is_recorded() -> None:
    gang = a_job("gang", pods=2, gpus=1, on="n")
    state = a_state([(Kind.NODE, a_node("n", gpus=1)), *gang])
    engine = Engine(SchedulerConfig(params=EngineParams(default_staleness_grace_seconds=0)))
    result = engine.run(state, NOW)
    assert [each.action for each in result.evictions] == ["stalegangeviction"]
    assert state.jobs["default/gang"].last_eviction == NOW
    (outcome,) = [each for each in result.outcomes if each.pod_group == "default/gang"]
    assert "kai.scheduler/last-eviction-timestamp" in outcome.annotations


def test_q18_one_job_out_of_time_does_not_stop_the_others() -> None:
    queues = [a_queue("rich", parent="top", gpu=0, weight=0), a_queue("poor", parent="top", gpu=4)]
    running = [each for i in range(2) for each in a_job(f"run-{i}", queue="rich", gpus=2, on="n")]
    waiting = [each for i in range(2) for each in a_job(f"want-{i}", queue="poor", gpus=2, created=i)]
    state = a_state([(Kind.NODE, a_node("n", gpus=4)), *running, *waiting], queues)
    engine = Engine(
        SchedulerConfig(budgets=SearchBudgets(action={"default": 0.0}, job=5.0, generator={"default": 0.0}))
    )
    session = engine.open(state, NOW)
    ticks = iter([0.0, 0.0, 0.0, 100.0, 100.0, 100.0, *([100.0] * 1000)])
    session.clock = lambda: next(ticks)
    from kai.engine.actions import reclaim

    reclaim.run(session)
    assert (
        session.decisions.counters.get(("scenario_search_jobs_total", "reclaim", "not_attempted", "false"), 0)
        <= 1
    )
    assert {each.pod.pod_group for each in session.decisions.nominations} >= {"default/want-1"}


def test_q19_several_surplus_pods_of_one_job_move_in_one_scenario() -> None:
    nodes = [a_node("n0", gpus=4), a_node("n1", gpus=2)]
    elastic = a_job("elastic", pods=3, min_member=1, gpus=1, on=("n0", "n0", "n0"))
    state = a_state([*((Kind.NODE, node) for node in nodes), *elastic, *a_job("whole", gpus=3, created=1)])
    result = Engine().run(state, NOW)
    assert {each.action for each in result.evictions} == {"consolidation"}
    assert len(result.evictions) == 2
    assert {each.pod.name for each in result.nominations} >= {"whole-0"}


def test_q22_a_tree_that_cannot_be_built_is_an_error_and_never_starts_in_part() -> None:
    parts = [SubGroup(name="a", min_member=1, parent="nowhere")]
    state = a_state([
        (Kind.NODE, a_node("n", gpus=2)), (Kind.POD_GROUP, a_group("job", queue="team", sub_groups=parts)),
        (Kind.POD, a_pod("job-0", group="job", gpus=1, sub_group="a")),
    ])  # fmt: skip
    result = Engine().run(state, NOW)
    assert not result.binds
    (outcome,) = result.outcomes
    assert outcome.outcome is Outcome.UNSCHEDULABLE
    assert "'nowhere', which does not exist" in outcome.message


def test_q23_topology_spread_constraints_hold() -> None:
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"app": "web"}}}]  # fmt: skip
    nodes = [(Kind.NODE, a_node(f"n{i}", gpus=8, labels={"zone": f"z{i}"})) for i in range(2)]
    job = a_job("web", pods=4, gpus=1, labels={"app": "web"}, spec={"topology_spread_constraints": spread})
    found = bound(Engine().run(a_state([*nodes, *job]), NOW))
    assert sorted(found.values()) == ["n0", "n0", "n1", "n1"]


def test_q24_messages_count_each_node_once() -> None:
    nodes = [(Kind.NODE, a_node(f"n{i}", gpus=1)) for i in range(3)]
    state = a_state([*nodes, *a_job("gang", pods=4, gpus=1)])
    (outcome,) = [each for each in Engine().run(state, NOW).outcomes if each.pod_group == "default/gang"]
    assert "3 Insufficient GPUs" in outcome.message


def _promised() -> tuple[Engine, ClusterState]:
    """A job waits for what is being taken from another queue, which then is free."""
    queues = [a_queue("rich", parent="top", gpu=1, weight=0), a_queue("poor", parent="top", gpu=2)]
    state = a_state(
        [
            (Kind.NODE, a_node("n", gpus=2)),
            *a_job("run", queue="rich", gpus=2, on="n"),
            *a_job("want", queue="poor", gpus=2, created=2),
        ],
        queues,
    )
    engine = Engine()
    assert [each.pod.name for each in engine.run(state, NOW).nominations] == ["want-0"]
    state.remove(Kind.POD, "default/run-0")
    return engine, state


def test_q27_what_is_released_for_a_job_stays_its_own() -> None:
    engine, state = _promised()
    add(state, a_job("older", queue="poor", gpus=2, created=1))
    assert bound(engine.run(state, NOW + 1)) == {"want-0": "n"}


def test_what_is_bound_and_evicted_in_one_cycle_is_neither() -> None:
    """Whoever takes the place begins at once; the other one is as it was, and says why it waits."""
    engine, state = _promised()
    add(state, a_job("urgent", queue="poor", gpus=2, created=3, priority="build-preemptible"))
    result = engine.run(state, NOW + 1)
    state.check()
    assert bound(result) == {"urgent-0": "n"}
    assert not result.evictions
    assert not result.nominations
    want = state.jobs["default/want"]
    assert (want.pending, want.last_start, want.last_eviction) == (1, 0, 0)
    outcomes = {each.pod_group: each for each in result.outcomes}
    assert outcomes["default/urgent"].outcome is Outcome.PLACED
    assert outcomes["default/want"].outcome is Outcome.UNSCHEDULABLE
    assert "default/urgent" in outcomes["default/want"].message


def test_what_is_bound_and_evicted_in_one_cycle_waits_beside_what_others_release() -> None:
    """The gang needs what one pod was just given and what another one still holds: it waits for both."""
    state = a_state(
        [
            (Kind.NODE, a_node("n", gpus=2)),
            *a_job("runs", gpus=1, on="n"),
            *a_job("small", gpus=1, created=1),
            *a_job("large", gpus=2, created=2, priority="build-preemptible"),
        ]
    )
    result = Engine().run(state, NOW)
    state.check()
    assert not result.binds
    assert [each.pod.name for each in result.evictions] == ["runs-0"]
    assert [each.pod.name for each in result.nominations] == ["large-0"]
    assert state.tasks["default-small-0"].status is Status.PENDING


def test_q28_equal_values_below_different_parents_are_different_domains() -> None:
    levels = TopologySpec(levels=[TopologyLevel(node_label="zone"), TopologyLevel(node_label="rack")])
    topology = Topology(metadata=a_node("t").metadata, spec=levels)
    nodes = [
        (Kind.NODE, a_node("n0", gpus=2, labels={"zone": "a.b", "rack": "c"})),
        (Kind.NODE, a_node("n1", gpus=2, labels={"zone": "a", "rack": "b.c"})),
    ]
    constraint = TopologyConstraint(topology="t", required_topology_level="rack")
    group = a_group("job", queue="team", min_member=2, topology=constraint)
    pods = [(Kind.POD, a_pod(f"job-{i}", group="job", gpus=2)) for i in range(2)]
    state = a_state([(Kind.TOPOLOGY, topology), *nodes, (Kind.POD_GROUP, group), *pods])
    assert not Engine().run(state, NOW).binds


def _budget(name: str, *, app: str, allowed: int) -> tuple[Kind, object]:
    return (
        Kind.POD_DISRUPTION_BUDGET,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        },
    )


@pytest.mark.parametrize(
    ("budgets", "wanted", "victims"),
    [
        # Without a budget the youngest goes first.
        ([], 1, ["young-0"]),
        ([_budget("b", app="young", allowed=0)], 1, ["old-0"]),
        ([_budget("b", app="young", allowed=1)], 1, ["young-0"]),
        ([_budget("b", app="other", allowed=0)], 1, ["young-0"]),
        # Nobody is spared where there is no other.
        ([_budget("b", app="young", allowed=0)], 2, ["old-0", "young-0"]),
        ([_budget("a", app="young", allowed=0), _budget("b", app="old", allowed=0)], 1, ["young-0"]),
    ],
)
def test_q35_victims_that_a_disruption_budget_protects_come_last_among_equals(
    budgets: list[tuple[Kind, object]], wanted: int, victims: list[str]
) -> None:
    state = a_state(
        [
            (Kind.NODE, a_node("n", gpus=2)),
            *budgets,
            *a_job("old", gpus=1, on="n", labels={"app": "old"}, created=1),
            *a_job("young", gpus=1, on="n", labels={"app": "young"}, created=2),
            *a_job("urgent", gpus=wanted, priority="build-preemptible", created=3),
        ]
    )
    result = Engine().run(state, NOW)
    assert sorted(each.pod.name for each in result.evictions) == victims


def test_q41_a_job_that_an_early_gate_turns_away_says_nothing_about_the_next() -> None:
    taken = a_job("run", gpus=1, on="n")
    fixed = a_job("fixed", gpus=1, priority="build")
    movable = a_group("movable", queue="team", priority="build", preemptibility="preemptible", created=1)
    state = a_state(
        [
            (Kind.NODE, a_node("n", gpus=1)),
            *taken,
            *fixed,
            (Kind.POD_GROUP, movable),
            (Kind.POD, a_pod("movable-0", group="movable", gpus=1)),
        ],
        [a_queue("team", parent="top", gpu=0)],
    )
    result = Engine(SchedulerConfig(actions=("preempt",))).run(state, NOW)
    assert [each.pod.name for each in result.nominations] == ["movable-0"]


def test_a_promise_taken_back_deletes_no_pod() -> None:
    queues = [a_queue("rich", parent="top", gpu=0, weight=0), a_queue("poor", parent="top", gpu=4)]
    running = [each for i in range(2) for each in a_job(f"run-{i}", queue="rich", gpus=2, on="n")]
    state = a_state(
        [(Kind.NODE, a_node("n", gpus=4)), *running, *a_job("want", queue="poor", gpus=4)], queues
    )
    result = Engine().run(state, NOW)
    assert {each.pod.name for each in result.evictions} == {"run-0-0", "run-1-0"}
    assert state.tasks["default-want-0"].status is Status.PENDING


def test_a_gang_that_goes_is_as_large_as_the_pods_that_are_deleted() -> None:
    """The third pod only waits for a place that will be free: it loses that, and is not deleted."""
    queues = [a_queue("rich", parent="top", gpu=1, weight=9), a_queue("poor", parent="top", gpu=3, weight=0)]
    state = a_state(
        [
            (Kind.NODE, a_node("n", gpus=4)),
            *a_job("goes", queue="rich", gpus=2, on="n", deleted=NOW - 5),
            *a_job("gang", queue="rich", gpus=1, on=["n", "n"], pods=3, min_member=2),
            *a_job("want", queue="poor", gpus=3, created=5),
        ],
        queues,
    )
    result = Engine().run(state, NOW)
    assert [(each.pod.name, each.gang_size) for each in result.evictions] == [("gang-0", 2), ("gang-1", 2)]
    assert [each.pod.name for each in result.nominations] == ["want-0"]


def test_who_takes_over_a_promise_is_named_to_those_who_were_evicted_for_it() -> None:
    queues = [
        a_queue("rich", parent="top", gpu=0, weight=0),
        a_queue("poor", parent="top", gpu=2, weight=0),
    ]
    state = a_state(
        [
            (Kind.NODE, a_node("n", gpus=3)),
            *a_job("run", queue="rich", gpus=2, on="n"),
            *a_job("want", queue="poor", gpus=2),
            *a_job("urgent", queue="poor", gpus=3, priority="build-preemptible"),
        ],
        queues,
    )
    result = Engine().run(state, NOW)
    assert [each.pod.name for each in result.nominations] == ["urgent-0"]
    [eviction] = result.evictions
    assert (eviction.pod.name, eviction.action, eviction.evictor) == ("run-0", "reclaim", "default/urgent")
    assert "default/urgent" in eviction.message
    assert "default/want" not in eviction.message


@pytest.mark.parametrize("somebody_waits", [False, True])
def test_nothing_is_reclaimed_that_would_be_taken_back_at_once(somebody_waits: bool) -> None:
    """The small queue would be left with nothing of what it deserves, and one of its jobs fits into that."""
    queues = [
        a_queue("small", parent="top", gpu=1, weight=0),
        a_queue("large", parent="top", gpu=4, weight=1),
    ]
    no_cpu = a_node("idle", gpus=1, cpu="1m")
    nodes = [(Kind.NODE, each) for each in (a_node("n", gpus=2), a_node("m", gpus=4), no_cpu)]
    running = [
        *a_job("whole", queue="small", gpus=2, on="n"),
        *a_job("mine", queue="large", gpus=4, on="m"),
    ]
    waiting = list(a_job("more", queue="large", gpus=2, cpu="250m"))
    if somebody_waits:
        waiting += a_job("little", queue="small", gpus=1, cpu="250m")
    result = Engine().run(a_state([*nodes, *running, *waiting], queues), NOW)
    evicted = [(each.pod.name, each.evictor) for each in result.evictions]
    assert evicted == ([] if somebody_waits else [("whole-0", "default/more")])


@pytest.mark.parametrize("little_gpus", [0, 1])
def test_nothing_is_reclaimed_that_comes_back_since_its_queue_deserves_it(little_gpus: int) -> None:
    """Its queue holds too much by the large job only, and the taker needs the CPU of both."""
    queues = [
        a_queue("owner", parent="top", gpu=2, weight=0),
        a_queue("taker", parent="top", gpu=0, weight=1),
    ]
    node = (Kind.NODE, a_node("n", gpus=8, cpu="1250m"))
    running = [
        *a_job("large", queue="owner", gpus=4, on="n", cpu="250m", created=1),
        *a_job("little", queue="owner", gpus=little_gpus, on=["n"] * 4, cpu="250m", created=2),
    ]
    waiting = a_job("more", queue="taker", pods=3, gpus=2, cpu="250m", created=3)
    state = a_state([node, *running, *waiting], queues)
    evicted = Counter(each.pod.pod_group for each in Engine().run(state, NOW).evictions)
    # With GPUs the little job is more than the queue deserves as well, so it would not be back.
    assert evicted == ({"default/little": 4, "default/large": 1} if little_gpus else {})


def test_every_pod_that_is_reclaimed_is_told_for_whom() -> None:
    queues = [a_queue("rich", parent="top", gpu=0, weight=0), a_queue("poor", parent="top", gpu=4)]
    running = [each for i in range(4) for each in a_job(f"run-{i}", queue="rich", gpus=1, on="n")]
    state = a_state(
        [(Kind.NODE, a_node("n", gpus=4)), *running, *a_job("want", queue="poor", gpus=4)], queues
    )
    evictions = Engine().run(state, NOW).evictions
    first_lines = sorted(each.message.partition("\n")[0] for each in evictions)
    assert first_lines == [f"pod default/run-{i}-0 was reclaimed by workload default/want." for i in range(4)]


def _reservation(node: str, group: str, *, deleted: float = 0) -> tuple[Kind, object]:
    pod = a_pod(
        f"gpu-reservation-{group}", node=node, gpus=1, groups=(group,), scheduler="", deleted=deleted,
        namespace=names.RESERVATION_NAMESPACE, labels={names.APP_LABEL: names.RESERVATION_APP},
    )  # fmt: skip
    return Kind.POD, pod


def test_a_device_that_a_reservation_holds_for_nobody_is_not_given_as_a_whole() -> None:
    state = a_state([(Kind.NODE, a_node("n", gpus=2)), _reservation("n", "left")])
    add(state, a_job("a", gpus=1))
    add(state, a_job("b", gpus=1, created=1))
    state.check()
    result = Engine().run(state, NOW)
    assert bound(result) == {"a-0": "n"}
    # The other one waits until the device is free, and nobody is evicted for it.
    assert [each.pod.name for each in result.nominations] == ["b-0"]
    assert not result.evictions
    state.remove(Kind.POD, f"{names.RESERVATION_NAMESPACE}/gpu-reservation-left")
    for name in ("a-0",):
        state.apply(Kind.POD, a_pod(name, group="a", gpus=1, node="n"))
    assert bound(Engine().run(state, NOW)) == {"b-0": "n"}


def test_a_shared_pod_takes_over_a_reservation_that_is_there_for_nobody() -> None:
    state = a_state([(Kind.NODE, a_node("n", gpus=1)), _reservation("n", "left")])
    for name in ("a", "b"):
        add(state, a_job(name, fraction=0.5))
    result = Engine().run(state, NOW)
    assert {bind.pod.name: bind.gpu_groups for bind in result.binds} == {"a-0": ("left",), "b-0": ("left",)}
    state.check()


def test_of_two_devices_for_a_pod_one_may_be_reserved_already() -> None:
    state = a_state([(Kind.NODE, a_node("n", gpus=2)), _reservation("n", "left")])
    add(state, a_job("wide", fraction=0.5, devices=2))
    [bind] = Engine().run(state, NOW).binds
    assert "left" in bind.gpu_groups
    assert len(set(bind.gpu_groups)) == 2


def test_consolidation_moves_nobody_for_a_job_that_fits_as_it_is() -> None:
    """A pod on an emptier node stays there, though it could be packed better."""
    state = a_state(
        [
            (Kind.NODE, a_node("a", gpus=2)),
            (Kind.NODE, a_node("b", gpus=4)),
            *a_job("fixed", gpus=1, on="a", priority="build"),
            *a_job("runs", gpus=1, on="b"),
            *a_job("wants", gpus=1, created=1),
        ]
    )
    result = Engine(SchedulerConfig(actions=("consolidation",))).run(state, NOW)
    assert [(each.pod.name, each.node) for each in result.nominations] == [("wants-0", "a")]
    assert not result.evictions
    state.check()


def test_a_flat_hierarchy_knows_every_leaf() -> None:
    params = StateParams(full_hierarchy_fairness=False)
    queues = [a_queue("department"), a_queue("team", parent="department"), a_queue("alone")]
    jobs = [each for queue in ("department", "team", "alone") for each in a_job(queue, gpus=1, queue=queue)]
    state = a_state(
        [(Kind.NODE, a_node("n", gpus=3)), *((Kind.QUEUE, each) for each in queues), *jobs], params=params
    )
    assert sorted(bound(Engine().run(state, NOW))) == ["alone-0", "team-0"]
    state.check()
