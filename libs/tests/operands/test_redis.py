"""The Redis of an installation is started with what its program understands."""

import pytest

from kai.operands import Facts, operands_of_config, read_config
from kai.session.__main__ import arguments


def told(**redis):
    """What the command line of the container comes to."""
    config = read_config({"metadata": {"name": "kai-config"}, "spec": {"redis": redis}})
    (deployment,) = (
        each
        for each in operands_of_config(config, Facts(served=frozenset()), [])
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "kai-redis"
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "kai.session"]
    return arguments().parse_args(container["args"])


def test_without_a_volume_nothing_is_kept():
    assert told(persistence={"enabled": False}).data is None


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_what_is_kept_is_on_the_volume(fsync):
    options = told(persistence={"enabled": True, "fsync": fsync})
    assert (str(options.data), options.fsync) == ("/data", fsync)
