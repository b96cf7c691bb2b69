"""Whether devices are given by CDI, as ClusterPolicies say, and who has the last word about it."""

import json

import pytest

from kai.operands import Facts, operands_of_config, read_config
from kai.operands.cdi import uses_cdi

LABEL = "app.kubernetes.io/version"


def policy(*, enabled=True, default=None, version="", name="cluster-policy"):
    cdi = {"enabled": enabled, **({} if default is None else {"default": default})}
    return {"metadata": {"name": name, "labels": {LABEL: version} if version else {}}, "spec": {"cdi": cdi}}


@pytest.mark.parametrize(
    ("policies", "found"),
    [
        ([], False),
        ([{}], False),
        ([policy(enabled=False, default=True, version="v25.10.0")], False),
        ([policy()], False),
        ([policy(default=True)], True),
        ([policy(default=False, version="v25.3.4")], False),
        ([policy(default=True, version="v25.3.4")], True),
        ([policy(version="v25.10.0")], True),
        ([policy(version="25.10.0")], True),
        ([policy(version="v25.10.1")], True),
        ([policy(version="v25.10")], True),
        ([policy(version="v26.3.0")], True),
        ([policy(version="v26.3.0-rc.1")], True),
        ([policy(version="v25.10.0-rc.1")], False),
        ([policy(version="v25.10.0+build")], True),
        ([policy(version="v25.9.9")], False),
        ([policy(version="latest")], False),
        ([policy(version="")], False),
        ([policy(default=False, version="v25.10.0")], True),
        ([policy(name="b", default=True), policy(name="a", enabled=False)], False),
        ([{"metadata": None, "spec": {"cdi": None}}], False),
        ([{"spec": {"cdi": {"enabled": "yes"}}}], False),
    ],
)
def test_a_cluster_policy_says_whether_cdi_is_used(policies, found):
    assert uses_cdi(policies) is found


def told(config, *, cdi):
    """What the binder is told of its plugin."""
    objects = operands_of_config(read_config({"spec": {"binder": config}}), Facts(cdi=cdi), ())
    (binder,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == ("Deployment", "binder")]
    (container,) = binder["spec"]["template"]["spec"]["containers"]
    plugins = [arg.partition("=")[2] for arg in container["args"] if arg.startswith("--plugins=")]
    said = json.loads(plugins[0]) if plugins else {}
    return said.get("gpusharing", {}).get("arguments", {}).get("cdiEnabled", "false")


def argument(said):
    return {"plugins": {"gpusharing": {"arguments": {"cdiEnabled": said}}}}


@pytest.mark.parametrize(
    ("config", "cdi", "expected"),
    [
        ({}, False, "false"),
        ({}, True, "true"),
        ({"cdiEnabled": False}, True, "false"),
        ({"cdiEnabled": True}, False, "true"),
        (argument("false"), True, "false"),
        ({"cdiEnabled": True, **argument("false")}, True, "false"),
        ({"cdiEnabled": False, **argument("true")}, False, "true"),
    ],
)
def test_the_plugin_says_most_then_the_config_then_the_cluster(config, cdi, expected):
    assert told(config, cdi=cdi) == expected
