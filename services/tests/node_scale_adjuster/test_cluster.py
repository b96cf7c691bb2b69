"""What the adjuster knows, when the answer to its write comes after what the watch tells."""

import pytest

from kai.kube.reflector import Removed, Upserted
from kai_node_scale_adjuster.cluster import Cluster


@pytest.fixture
def cluster():
    return Cluster(app_label="scaling-pod", concern=lambda: None)


@pytest.fixture
def made(build):
    return build.scaling(build.waiting("p"))


def test_a_scaling_pod_that_was_gone_before_the_answer_to_its_making_came_stands_for_nobody(cluster, made):
    with cluster.making(made.key):
        cluster.scaling_sink(Upserted(made, old_known=False))
        cluster.scaling_sink(Removed(made.key, made.metadata.uid, made))
        cluster.take_made(made)
    assert cluster.scaling == {}


def test_one_that_has_a_node_by_now_is_known_with_it(cluster, made, build):
    placed = build.scaling(build.waiting("p"), node="n")
    with cluster.making(made.key):
        cluster.scaling_sink(Upserted(placed, old_known=False))
        cluster.take_made(made)
    assert cluster.scaling[made.key].placed


def test_what_was_made_is_known_before_the_watch_tells(cluster, made):
    with cluster.making(made.key):
        cluster.take_made(made)
    assert list(cluster.scaling) == [made.key]
