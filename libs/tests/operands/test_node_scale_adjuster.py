"""What there is of the node-scale-adjuster, and what its process is told."""

import pytest

from kai.operands import Facts, InvalidSpec, operands_of_config, read_config
from kai_node_scale_adjuster.settings import NodeScaleAdjusterSettings

ON = {"service": {"enabled": True}}


def objects_of(adjuster, **spec):
    config = read_config({"spec": {"nodeScaleAdjuster": adjuster, **spec}})
    facts = Facts(repository="example.com/kai", tag="v1")
    return {(o["kind"], o["metadata"]["name"]): o for o in operands_of_config(config, facts, ())}


def container_of(objects):
    deployment = objects["Deployment", "node-scale-adjuster"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


def test_there_is_none_unless_it_is_switched_on():
    assert not any("scal" in name for _, name in objects_of({}))


def test_it_comes_with_its_account_and_that_of_the_pods_that_it_makes():
    objects = objects_of(ON, **{"global": {"imagesPullSecret": "puller"}})
    own, theirs = (objects["ServiceAccount", name] for name in ("node-scale-adjuster", "kai-scale-adjust"))
    assert own["metadata"]["namespace"] == "kai-scheduler"
    assert theirs["metadata"]["namespace"] == "kai-scale-adjust"
    assert theirs["imagePullSecrets"] == [{"name": "puller"}]
    assert objects["Service", "node-scale-adjuster"]["spec"]["ports"][0]["name"] == "http-metrics"


def test_its_process_takes_what_it_is_told():
    args = {
        "scalingPodImage": {"repository": "mirror.example.com", "name": "scalingpod", "tag": "v2"},
        "nodeScaleNamespace": "scale",
        "nodeScaleServiceAccount": "scaler",
        "gpuMemoryToFractionRatio": 0.25,
    }
    told = {"args": args, "service": {"enabled": True, "extraArgs": {"cool-down": "5m"}}, "replicas": 2}
    settings = NodeScaleAdjusterSettings.parse(container_of(objects_of(told))["args"])
    assert settings.scaling_pod_image == "mirror.example.com/scalingpod:v2"
    assert (settings.scale_adjust_namespace, settings.scaling_pod_service_account) == ("scale", "scaler")
    assert float(settings.gpu_memory_to_fraction_ratio) == 0.25
    assert settings.leader_elect
    assert settings.cool_down == 300


def test_scaling_pods_are_of_the_same_image_unless_another_is_named():
    container = container_of(objects_of(ON))
    assert container["image"] == "example.com/kai/kai-scheduler:v1"
    assert f"--scaling-pod-image={container['image']}" in container["args"]


def test_scaling_pods_connect_to_nobody():
    policy = objects_of(ON)["NetworkPolicy", "scaling-pod"]
    assert policy["metadata"]["namespace"] == "kai-scale-adjust"
    assert policy["spec"] == {
        "podSelector": {"matchLabels": {"app": "scaling-pod"}},
        "ingress": [],
        "egress": [],
        "policyTypes": ["Ingress", "Egress"],
    }
    assert ("NetworkPolicy", "node-scale-adjuster") in objects_of(ON)


@pytest.mark.parametrize(
    ("adjuster", "field"),
    [
        ({"args": {"gpuMemoryToFractionRatio": 0}}, "args.gpuMemoryToFractionRatio"),
        ({"args": {"gpuMemoryToFractionRatio": 1.5}}, "args.gpuMemoryToFractionRatio"),
        ({"service": {"extraArgs": {"cooldown": "5m"}}}, "service.extraArgs.cooldown"),
    ],
)
def test_what_its_process_would_not_take_is_refused(adjuster, field):
    with pytest.raises(InvalidSpec) as refused:
        read_config({"spec": {"nodeScaleAdjuster": adjuster}})
    assert [problem.field for problem in refused.value.problems] == [f"spec.nodeScaleAdjuster.{field}"]
