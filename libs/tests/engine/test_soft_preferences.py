"""What a pod prefers decides among the nodes that can take it, with the configuration that everybody has."""

import pytest

from kai.bench.objects import a_group, a_node, a_pod, a_queue
from kai.engine import Engine
from kai.snapshot.state import ClusterState, Kind

NOW = 1_900_000_000.0
HOSTNAME = "kubernetes.io/hostname"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def a_cluster(*, nodes=4):
    state = ClusterState()
    state.apply(Kind.QUEUE, a_queue("top"))
    state.apply(Kind.QUEUE, a_queue("team", parent="top"))
    for number in range(nodes):
        name = f"node-{number}"
        state.apply(Kind.NODE, a_node(name, gpus=8, labels={HOSTNAME: name}))
    return state


def anti(app, *, weight=100, key=HOSTNAME):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {"podAntiAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}}}


@pytest.mark.parametrize("asked", [{"gpus": 0}, {"cpu": "1", "gpus": 0}, {"gpus": 1}])
def test_a_pod_keeps_away_from_those_it_prefers_not_to_meet(asked):
    state = a_cluster()
    state.apply(Kind.POD_GROUP, a_group("run", queue="team", started=NOW))
    state.apply(Kind.POD, a_pod("run", group="run", node="node-0", gpus=0, labels={"app": "x"}))
    state.apply(Kind.POD_GROUP, a_group("anti", queue="team", created=1))
    state.apply(Kind.POD, a_pod("anti", group="anti", spec=anti("x"), **asked))
    (bind,) = Engine().run(state, NOW).binds
    assert bind.node != "node-0"
