"""What the cluster is like."""

import msgspec
import pytest

from kai.kube.errors import Forbidden, NotFound
from kai.kube.reflector import Removed, Upserted
from kai.model.objects import ApiObject, ObjectMeta
from kai_operator.conversion import stop_conversion
from kai_operator.facts import Definition, EndpointSlice, Surroundings


def a_definition(name, kind="", *, established=True, conversion=None):
    group = name.partition(".")[2]
    body = {
        "metadata": {"name": name},
        "spec": {"group": group, "names": {"kind": kind}, "versions": [{"name": "v1", "served": True}]},
        "status": {"conditions": [{"type": "Established", "status": "True" if established else "False"}]},
    }
    if conversion:
        body["spec"]["conversion"] = {"strategy": conversion}
    return msgspec.convert(body, Definition)


@pytest.fixture
def changes():
    return []


@pytest.fixture
def around(changes):
    return Surroundings(lambda: changes.append(1))


def test_kinds_are_served_from_when_they_are_established_until_they_go(around, changes):
    name = "servicemonitors.monitoring.coreos.com"
    around.take_definition(Upserted(a_definition(name, "ServiceMonitor", established=False), False))
    assert not around.served
    assert not around.serves(name)
    around.take_definition(Upserted(a_definition(name, "ServiceMonitor"), True))
    assert around.served == {"monitoring.coreos.com/ServiceMonitor"}
    assert around.serves(name)
    around.take_definition(Removed(name, "", None))
    assert not around.served
    assert len(changes) == 3


def test_only_what_is_different_is_a_change(around, changes):
    for _ in range(3):
        around.take_definition(Upserted(a_definition("queues.scheduling.run.ai", "Queue"), True))
    assert len(changes) == 1


def test_a_cluster_that_gives_out_user_ids_is_known_by_a_kind(around):
    assert not around.openshift
    around.take_definition(Upserted(a_definition("clusterversions.config.openshift.io"), False))
    assert around.openshift


def test_ports_of_the_api_server_are_those_of_all_its_slices(around):
    for name, ports in (("kubernetes", [6443, 443]), ("kubernetes-2", [6443])):
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "ports": [{"port": port} for port in ports],
        }
        around.take_slice(Upserted(msgspec.convert(body, EndpointSlice), False))
    assert around.api_server_ports == (443, 6443)
    around.take_slice(Removed("default/kubernetes", "", None))
    assert around.api_server_ports == (6443,)


def test_devices_are_only_played_while_there_is_such_a_node(around, changes):
    for name in ("a", "b", "a"):
        around.take_fake(Upserted(ApiObject(metadata=ObjectMeta(name=name)), False))
    assert (around.fake_gpus, len(changes)) == (True, 1)
    around.take_fake(Removed("a", "", None))
    assert (around.fake_gpus, len(changes)) == (True, 1)
    around.take_fake(Removed("b", "", None))
    assert (around.fake_gpus, len(changes)) == (False, 2)


@pytest.mark.parametrize(("conversion", "expected"), [(None, False), ("None", False), ("Webhook", True)])
def test_whether_queues_are_converted(around, conversion, expected):
    around.take_definition(Upserted(a_definition("queues.scheduling.run.ai", conversion=conversion), False))
    assert around.converts_queues is expected


@pytest.mark.parametrize("error", [None, NotFound("gone"), Forbidden("not you")])
async def test_conversion_is_switched_off_and_what_fails_stops_nothing(error):
    sent = []

    class Client:
        async def patch(self, resource, name, patch):
            sent.append((resource.plural, name, patch))
            if error:
                raise error

    await stop_conversion(Client())
    assert sent == [("customresourcedefinitions", "queues.scheduling.run.ai", {"spec": {"conversion": None}})]
