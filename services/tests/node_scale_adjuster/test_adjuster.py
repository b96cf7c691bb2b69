"""How decisions are carried out over time, with clocks and an API server of the test."""

from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kai.kube.errors import Forbidden
from kai.kube.reflector import Removed, Upserted
from kai.model import names
from kai_node_scale_adjuster.adjuster import Adjuster, AdjusterMetrics
from kai_node_scale_adjuster.adjustment import Rules
from kai_node_scale_adjuster.cluster import Cluster
from kai_node_scale_adjuster.scaling_pods import ScalingTemplate


class Server:
    """Does all that it is asked for, but makes no pods of the names that it ``refuses``."""

    def __init__(self):
        self.made = []
        self.refuses = set()

    async def create(self, resource, body, *, namespace, type):  # noqa: A002 (as the client calls it)
        if body["metadata"]["name"] in self.refuses:
            raise Forbidden("exceeded quota")
        self.made.append(body["metadata"]["name"])
        return msgspec.convert(
            {**body, "metadata": {**body["metadata"], "uid": body["metadata"]["name"]}}, type
        )

    async def delete(self, resource, name, **options):
        pass

    async def patch(self, resource, name, patch, **options):
        pass


@pytest.fixture
def clock(build):
    """``now``: what the machine says that it is. ``passed``: seconds that have passed."""
    return SimpleNamespace(now=build.now, passed=0.0)


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def cluster():
    return Cluster(app_label=names.SCALING_POD_APP, concern=lambda: None)


@pytest.fixture
def adjuster(clock, server, cluster):
    return Adjuster(
        server,
        cluster,
        rules=Rules(),
        template=ScalingTemplate(),
        events=SimpleNamespace(emit=lambda *args, **options: None),
        metrics=AdjusterMetrics(CollectorRegistry()),
        now=lambda: clock.now,
        passed=lambda: clock.passed,
    )


@pytest.mark.parametrize("jump", [-3600.0, 3600.0], ids=["back", "forth"])
async def test_the_pause_after_a_removal_is_as_long_whatever_time_a_clock_is_set_to(
    build, clock, server, cluster, adjuster, jump
):
    ended = build.scaling(build.waiting("old"), phase="Succeeded", node="n1")
    cluster.scaling_sink(Upserted(ended, old_known=False))
    await adjuster.adjust()
    cluster.pod_sink(Upserted(build.pod("p"), old_known=False))
    clock.now += jump
    clock.passed = 59.0
    assert (await adjuster.adjust(), server.made) == (pytest.approx(1.0), [])
    clock.passed = 60.0
    await adjuster.adjust()
    assert server.made == ["team-p"]


async def test_who_is_refused_a_scaling_pod_keeps_none_from_who_is_not(build, server, cluster, adjuster):
    server.refuses = {"team-first"}
    for name in ("first", "second"):
        cluster.pod_sink(Upserted(build.pod(name), old_known=False))
    assert (await adjuster.adjust(), server.made) == (30.0, [])
    await adjuster.adjust()
    assert server.made == ["team-second"]


async def test_who_was_refused_a_scaling_pod_is_known_after_a_pause_in_which_others_got_some(
    build, clock, server, cluster, adjuster
):
    server.refuses = {"team-first"}
    for name in ("first", "second"):
        cluster.pod_sink(Upserted(build.pod(name), old_known=False))
    await adjuster.adjust()
    ended = build.scaling(build.waiting("old"), phase="Succeeded", node="n1")
    cluster.scaling_sink(Upserted(ended, old_known=False))
    cluster.pod_sink(Upserted(build.pod("p", namespace="other"), old_known=False))
    await adjuster.adjust()
    assert server.made == ["other-p"]
    clock.passed = 60.0
    await adjuster.adjust()
    assert server.made == ["other-p", "team-second"]


async def test_of_pods_that_wait_no_more_it_is_forgotten_that_they_were_refused(
    build, server, cluster, adjuster
):
    server.refuses = {"team-p"}
    cluster.pod_sink(Upserted(build.pod("p"), old_known=False))
    await adjuster.adjust()
    assert adjuster._refused
    cluster.pod_sink(Removed("team/p", "uid-p", None))
    await adjuster.adjust()
    assert not adjuster._refused
