"""What a tenant, who may create pods in a namespace of his own, must not get by it."""

from kai.engine import Engine
from kai.model import names
from libs.tests.engine.builders import NOW, a_pod, a_single, one_node

RESERVATION = {names.APP_LABEL: names.RESERVATION_APP}
JOB = a_single("job", gpus=8)


def test_pods_of_a_tenant_that_are_labelled_as_reservations_hold_no_devices():
    groups = tuple(f"4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a00{i}" for i in range(8))
    state = one_node(JOB, a_pod("hold", namespace="tenant", node="n", groups=groups, labels=RESERVATION))
    result = Engine().run(state, NOW)
    assert [bind.pod.name for bind in result.binds] == ["job"]
    state.check()


def test_a_pod_of_a_tenant_that_is_labelled_as_a_reservation_is_charged_what_it_holds():
    state = one_node(JOB, a_pod("hole", namespace="tenant", node="n", gpus=8, labels=RESERVATION))
    assert not Engine().run(state, NOW).binds
    state.check()


def test_a_reservation_in_its_namespace_keeps_its_device():
    held = a_pod(
        "reservation", namespace=names.RESERVATION_NAMESPACE, node="n", gpus=1, scheduler="",
        groups=("4f2c9c34-9c4b-4d8e-8a39-0a9c1de5a000",), labels=RESERVATION,
    )  # fmt: skip
    state = one_node(JOB, held)
    assert not Engine().run(state, NOW).binds
    state.check()
