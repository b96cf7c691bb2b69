"""Which pods are there for the product's own sake."""

import pytest

from kai.model.objects import ObjectMeta
from kai.model.rules.reservations import asks_for_nodes, holds_device

RESERVATION, SCALING = {"app": "kai-resource-reservation"}, {"app": "scaling-pod"}


@pytest.mark.parametrize(
    ("labels", "namespace", "holds", "asks"),
    [
        (RESERVATION, "kai-resource-reservation", True, False),
        (RESERVATION, "team", False, False),
        (SCALING, "kai-scale-adjust", False, True),
        (SCALING, "kai-resource-reservation", False, False),
        ({}, "kai-resource-reservation", False, False),
        (None, "kai-scale-adjust", False, False),
    ],
)
def test_label_and_namespace_tell_together(labels, namespace, holds, asks):
    meta = ObjectMeta(namespace=namespace, labels=labels)
    assert (holds_device(meta), asks_for_nodes(meta)) == (holds, asks)


def test_where_the_namespace_is_not_known_the_label_tells():
    meta = ObjectMeta(namespace="anywhere", labels={"app": "mine"})
    assert holds_device(meta, app="mine", namespace="")
    assert not holds_device(meta, app="mine", namespace="elsewhere")
