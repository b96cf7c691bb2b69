"""Pods that their owner deletes and gives long to end: nobody waits for them, and their queue pays."""

import pytest

from kai.engine import Engine
from kai.snapshot.pods import LONG_GRACE_SECONDS
from kai.snapshot.state import Kind
from kai.snapshot.status import Status
from libs.tests.engine.builders import (
    NOW,
    a_job,
    a_pod,
    a_queue,
    a_running,
    a_single,
    a_state,
    add,
    decided,
    job_of,
    nodes,
    read,
    task_of,
)

DAY = NOW + 86_400
SHARES = [a_queue("top"), a_queue("team", parent="top", gpu=1), a_queue("other", parent="top", gpu=0)]


def charged_gpus(state, queue: str) -> float:
    [row] = [each for each in state.queue_rows if each.name == queue]
    return row.allocated.amounts().gpu_centi / 100


def beside(**leaves):
    """A pod of another queue leaves one node, one runs on the other, and a job has a right to one of them."""
    return [
        SHARES,
        nodes(2, gpus=1),
        a_job("leaves", gpus=1, on="n0", queue="other", **leaves),
        a_running("runs", on="n1", queue="other"),
        a_job("j", gpus=1, queue="team"),
    ]


@pytest.mark.parametrize(
    ("leaves", "node"),
    [
        pytest.param({"deleted": NOW + 30}, "n0", id="soon"),
        pytest.param({"deleted": NOW + LONG_GRACE_SECONDS}, "n0", id="in some minutes"),
        pytest.param({"deleted": DAY}, "n1", id="tomorrow"),
        pytest.param({"deleted": DAY, "phase": "Pending"}, "n1", id="tomorrow, before it began"),
        pytest.param({"deleted": NOW - 60}, "n0", id="a minute late"),
        pytest.param({"deleted": NOW - 300}, "n1", id="long ago"),
        pytest.param({"deleted": NOW - 300, "phase": "Pending"}, "n1", id="long ago, before it began"),
    ],
)
def test_a_job_takes_back_its_share_elsewhere_rather_than_wait_for_who_takes_long_to_end(
    leaves, node
) -> None:
    found = decided(a_state(beside(**leaves)))
    assert found.waits == {"j-0": node}
    assert found.evicts == ({"runs-0"} if node == "n1" else set())


@pytest.mark.parametrize("fraction", [0.6, 1.0])
def test_parts_of_devices_are_taken_back_elsewhere_too(fraction) -> None:
    state = a_state(
        SHARES,
        nodes(2, gpus=1),
        a_job("leaves", fraction=fraction, groups=("a",), on="n0", queue="other", deleted=DAY),
        a_job("runs", fraction=fraction, groups=("b",), on="n1", queue="other"),
        a_job("j", fraction=0.5, queue="team"),
    )
    assert decided(state).waits == {"j-0": "n1"}


def test_what_lingers_is_charged_until_it_has_to_end() -> None:
    state = a_state(beside(deleted=DAY))
    task = task_of(state, "leaves-0")
    told = {}
    for now in (NOW, DAY - LONG_GRACE_SECONDS, DAY + 121):
        state.settle(now)
        state.check()
        told[task.status] = charged_gpus(state, "other")
    assert told == {Status.LINGERING: 2, Status.RELEASING: 1, Status.STUCK_IN_RELEASING: 1}


def test_a_queue_gets_no_more_for_deleting_what_it_has() -> None:
    state = a_state(
        [a_queue("top"), *(a_queue(name, parent="top", gpu=3) for name in ("team", "other"))],
        nodes(6, gpus=1),
        [a_job(f"left{n}", gpus=1, on=f"n{n}", queue="other", deleted=DAY) for n in range(3)],
        [a_job(f"more{n}", gpus=1, queue="other", created=1) for n in range(3)],
        [a_job(f"t{n}", gpus=1, queue="team", created=2) for n in range(3)],
    )
    assert set(decided(state).binds) == {"t0-0", "t1-0", "t2-0"}


@pytest.mark.parametrize("priority", ["train", "build"])
def test_nor_does_it_get_beyond_its_limit(priority) -> None:
    state = a_state(
        [a_queue("top"), a_queue("other", parent="top", gpu=1, limit=1)],
        nodes(2, gpus=1),
        a_job("left", gpus=1, on="n0", queue="other", deleted=DAY, priority=priority),
        a_job("more", gpus=1, queue="other", priority=priority),
    )
    assert decided(state).binds == {}


def test_who_was_evicted_is_waited_for_however_long_it_takes() -> None:
    """Else another one would lose its place with each cycle."""
    state = a_state(
        SHARES,
        nodes(2, gpus=1),
        [a_running(f"r{n}", on=f"n{n}", queue="other") for n in range(2)],
        a_job("j", gpus=1, queue="team"),
    )
    engine = Engine()
    first = read(engine.run(state, NOW))
    [victim] = first.evicts
    task = task_of(state, victim)
    add(state, _lingering(victim, on=task.node.name))
    again = read(engine.run(state, NOW + 1))
    state.check()
    assert (task.status, again.evicts, again.waits) == (Status.RELEASING, set(), first.waits)


def test_time_alone_makes_it_one_to_wait_for() -> None:
    state = a_state(SHARES, nodes(1, gpus=1), a_job("leaves", gpus=1, on="n0", queue="other", deleted=DAY))
    session = Engine().open(state, NOW)
    assert session.due_time() == DAY - LONG_GRACE_SECONDS


def test_its_gang_does_not_count_on_it() -> None:
    state = a_state(nodes(3, gpus=1), a_job("gang", on=["n0", "n1"], gpus=1), _lingering("gang-0", on="n0"))
    assert job_of(state, "gang").active_allocated == 1
    state.check()


# --- where two must not be together ----------------------------------------------------------------
WEB, NEW = {"app": "web"}, {"app": "new"}
DATA = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
ONE_POD = {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"}


def away_from(labels):
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"labels": WEB}, {"spec": away_from(WEB)}, id="the new one repels"),
        pytest.param({"spec": away_from(NEW)}, {"labels": NEW}, id="the old one repels"),
        pytest.param({"spec": DATA}, {"spec": DATA}, id="one volume for one pod"),
    ],
)
@pytest.mark.parametrize(
    ("deleted", "waits"),
    [
        pytest.param(0, {}, id="stays"),
        pytest.param(NOW + 30, {"new": "n0"}, id="soon"),
        pytest.param(DAY, {}, id="tomorrow"),
        pytest.param(NOW - 300, {}, id="long ago"),
    ],
)
def test_pods_that_must_not_meet_do_not_however_long_one_takes_to_end(old, new, deleted, waits) -> None:
    state = a_state(
        nodes(1, gpus=2),
        a_single("old", on="n0", gpus=1, deleted=deleted, **old),
        a_single("new", gpus=1, created=1, **new),
        (Kind.PERSISTENT_VOLUME, {"metadata": {"name": "v"}, "spec": ONE_POD}),
        (
            Kind.PERSISTENT_VOLUME_CLAIM,
            {"metadata": {"name": "data", "namespace": "default"}, "spec": ONE_POD},
        ),
    )
    found = decided(state)
    assert (found.binds, found.waits) == ({}, waits)
    state.remove(Kind.POD, "default/old")
    assert decided(state, now=NOW + 1).binds == {"new": "n0"}


def rather(kind, labels):
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    wish = {"weight": 100, "podAffinityTerm": term}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}}


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [pytest.param("podAntiAffinity", "n1", id="apart"), pytest.param("podAffinity", "n0", id="together")],
)
@pytest.mark.parametrize("by", ["old", "new"])
@pytest.mark.parametrize("deleted", [0, DAY, NOW - 300], ids=["stays", "tomorrow", "long ago"])
def test_what_pods_prefer_counts_as_long_as_who_is_not_waited_for_is_there(kind, chosen, by, deleted) -> None:
    """As with kube-scheduler, to which a pod is there until it is gone; else it was the other node."""
    old, new = (rather(kind, WEB if by == "new" else NEW) if by == each else {} for each in ("old", "new"))
    full = "n1" if chosen == "n0" else "n0"
    state = a_state(
        nodes(2, gpus=4),
        a_single("old", on="n0", gpus=1, deleted=deleted, labels=WEB, spec=old),
        a_single("packed", on=full, gpus=2),
        a_single("new", gpus=1, created=1, labels=NEW, spec=new),
    )
    assert decided(state).binds == {"new": chosen}


def test_who_must_be_near_another_does_not_count_on_one_that_lingers() -> None:
    near = away_from(WEB)["affinity"]["podAntiAffinity"]
    state = a_state(
        nodes(1, gpus=2),
        a_single("old", on="n0", gpus=1, deleted=DAY, labels=WEB),
        a_single("new", gpus=1, created=1, spec={"affinity": {"podAffinity": near}}),
    )
    assert decided(state).binds == {}


def _lingering(name: str, *, on: str):
    return a_pod(name, group=name.partition("-")[0], gpus=1, node=on, deleted=DAY)
