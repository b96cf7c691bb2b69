"""Plans of life: the same by seed, in order, about what is there."""

import pytest
import yaml

from e2e.soak.actions import Change, Drain, Put, Refuse, Remove, Signal, subject
from e2e.soak.plan import CALM_AFTER, PROCESSES, plan
from kai_local.services.suite import SERVICES

LONG = 1800.0


def test_the_same_seed_gives_the_same_plan_and_another_one_another():
    assert plan(seed=3, seconds=300) == plan(seed=3, seconds=300)
    assert plan(seed=3, seconds=300) != plan(seed=4, seconds=300)


def test_deeds_come_in_order_and_in_time():
    times = [action.at for action in plan(seed=1, seconds=300)]
    assert times == sorted(times)
    assert 0 <= times[0] <= times[-1] < 300


def test_nothing_is_killed_near_the_end_or_where_that_is_not_wanted():
    troubles = [a for a in plan(seed=1, seconds=LONG) if isinstance(a.deed, Signal | Refuse)]
    assert max(action.at for action in troubles) < LONG * CALM_AFTER
    quiet = plan(seed=1, seconds=LONG, kills=False)
    assert not [action for action in quiet if isinstance(action.deed, Signal | Refuse)]


def test_without_kills_life_is_the_same():
    wild, quiet = plan(seed=5, seconds=300), plan(seed=5, seconds=300, kills=False)
    assert [a for a in wild if not isinstance(a.deed, Signal | Refuse)] == quiet


def test_every_process_is_killed_and_every_deed_done_in_a_long_life():
    actions = plan(seed=1, seconds=LONG)
    signals = {action.deed.process for action in actions if isinstance(action.deed, Signal)}
    assert signals == set(PROCESSES)
    deeds = {action.what.partition(":")[0] for action in actions}
    assert {
        "new work",
        "wrong",
        "work deleted",
        "changed",
        "quota changed",
        "limit changed",
        "reclaimMinRuntime changed",
        "preemptMinRuntime changed",
        "new queue",
        "queue deleted",
        "cordoned",
        "uncordoned",
        "drained",
        "node lost",
        "node moved",
        "queue moved",
        "minimum changed",
        "group deleted",
        "devices changed",
        "node came back",
        "claim deleted",
        "node added",
        "node removed",
        "namespace deleted",
        "probe",
    } <= deeds


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_that_a_cluster_in_a_box_can_run_is_killed(service):
    assert any(process.rstrip("-12") == service for process in PROCESSES)


@pytest.mark.parametrize("resource", ["gpu", "cpu", "memory"])
def test_of_each_resource_queues_are_limited_and_their_limits_change(resource):
    actions = plan(seed=1, seconds=LONG)
    made = [m for a in actions if isinstance(a.deed, Put) for m in a.deed.manifests if m["kind"] == "Queue"]
    limits = {manifest["spec"]["resources"][resource]["limit"] for manifest in made}
    assert -1 in limits
    assert len(limits) > 1
    for key in ("quota", "limit"):
        assert any(action.what.startswith(f"{key} changed: {resource} ") for action in actions)


def test_every_form_of_work_comes_in_a_long_life():
    forms = {a.what.partition(": ")[2] for a in plan(seed=1, seconds=LONG) if a.what.startswith("new work")}
    assert {
        "mig",
        "numa",
        "volume",
        "gang",
        "parts",
        "elastic",
        "flow",
        "shared claim",
        "extended resource",
        "gpu memory",
    } <= forms
    assert len(forms) == 24


def test_only_what_was_put_before_is_changed_or_deleted():
    there = {f"Node {name}" for name in _lasting()}
    for action in plan(seed=2, seconds=LONG):
        match action.deed:
            case Put(manifests):
                there |= {subject(manifest) for manifest in manifests}
            case Remove(manifests):
                assert {subject(m) for m in manifests if m["kind"] in ("Node", "Queue", "Pod")} <= there
                there -= {subject(manifest) for manifest in manifests}
            case Change(manifest):
                assert subject(manifest) in there
            case Drain(node):
                assert f"Node {node}" in there


def test_a_queue_that_takes_work_is_there_and_is_a_leaf():
    queues: dict[str, str] = {}
    for action in plan(seed=6, seconds=LONG):
        if isinstance(action.deed, Put):
            for manifest in action.deed.manifests:
                if manifest["kind"] == "Queue":
                    queues[manifest["metadata"]["name"]] = manifest["spec"].get("parentQueue", "")
                elif manifest["kind"] == "Pod" and action.what.startswith("new work"):
                    assert queues[manifest["metadata"]["labels"]["kai.scheduler/queue"]]
        elif isinstance(action.deed, Remove):
            for manifest in action.deed.manifests:
                if manifest["kind"] == "Queue":
                    del queues[manifest["metadata"]["name"]]


def test_what_is_put_can_be_written_as_yaml():
    for action in plan(seed=1, seconds=300):
        if isinstance(action.deed, Put):
            assert list(yaml.safe_load_all(yaml.safe_dump_all(action.deed.manifests)))


def _lasting() -> list[str]:
    from e2e.soak import site

    return [node.name for node in site.lasting_nodes()]
