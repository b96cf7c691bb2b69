"""Nodes whose devices are only played."""

import pytest

from kai.operands import Facts, operands_of_config, read_config


@pytest.mark.parametrize("fake", [True, False])
def test_where_devices_are_only_played_reservation_pods_ask_no_driver(fake):
    objects = operands_of_config(read_config({}), Facts(fake_gpus=fake), ())
    (binder,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == ("Deployment", "binder")]
    (container,) = binder["spec"]["template"]["spec"]["containers"]
    assert ("--fake-gpu-nodes=true" in container["args"]) is fake
