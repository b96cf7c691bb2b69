"""What nobody was given rights for is refused, by the field that asks for it."""

import json

import pytest

from kai.operands import Grants, InvalidSpec, beyond, beyond_shard, read_config, read_grants, read_shard


def told(spec, **grants):
    """What is told of a Config, by field."""
    return {problem.field: problem.text for problem in beyond(read_config({"spec": spec}), Grants(**grants))}


def told_of_shard(args, *, config=None, **grants):
    """The same of a shard with these flags."""
    read = read_config({"spec": config or {}})
    shard = read_shard({"metadata": {"name": "default"}, "spec": {"args": args}}, read)
    return {problem.field: problem.text for problem in beyond_shard(shard, read, Grants(**grants))}


def test_what_asks_for_nothing_more_is_allowed():
    assert told({}, scheduler_name="kai-scheduler") == {}
    assert told_of_shard({}) == {}


@pytest.mark.parametrize(
    ("spec", "grants", "field", "part"),
    [
        (
            {"admission": {"mutatingWebhookConfigurationName": "mine"}},
            {},
            "spec.admission.mutatingWebhookConfigurationName",
            "is mine; it must be mutating-kai-admission",
        ),
        (
            {"admission": {"validatingWebhookConfigurationName": "mine"}},
            {},
            "spec.admission.validatingWebhookConfigurationName",
            "it must be validating-kai-admission",
        ),
        (
            {"queueController": {"webhooks": {"webhookConfigurationNamePrefix": "mine-"}}},
            {},
            "spec.queueController.webhooks.webhookConfigurationNamePrefix",
            "it must be kai-queue-validation-",
        ),
        (
            {"podGroupController": {"webhooks": {"webhookConfigurationNamePrefix": "mine-"}}},
            {},
            "spec.podGroupController.webhooks.webhookConfigurationNamePrefix",
            "it must be kai-podgroup-validation-",
        ),
        (
            {"binder": {"resourceReservation": {"namespace": "elsewhere"}}},
            {},
            "spec.binder.resourceReservation.namespace",
            "set global.resourceReservation.namespace of the chart",
        ),
        (
            {"binder": {"resourceReservation": {"serviceAccountName": "other"}}},
            {},
            "spec.binder.resourceReservation.serviceAccountName",
            "it has the rights",
        ),
        (
            {"nodeScaleAdjuster": {"service": {"enabled": True}}},
            {},
            "spec.nodeScaleAdjuster.service.enabled",
            "set global.clusterAutoscaling of the chart",
        ),
        (
            {"nodeScaleAdjuster": {"service": {"enabled": True}, "args": {"nodeScaleNamespace": "else"}}},
            {"node_scale_adjuster": True},
            "spec.nodeScaleAdjuster.args.nodeScaleNamespace",
            "it must be kai-scale-adjust",
        ),
        (
            {"binder": {"resourceReservation": {"appLabel": "mine"}}},
            {"reservation_label": "kai-resource-reservation"},
            "spec.binder.resourceReservation.appLabel",
            "set global.resourceReservation.appLabel of the chart",
        ),
        (
            {"binder": {"resourceReservation": {"image": {"repository": "mirror:5000", "tag": "1"}}}},
            {"reservation_images": ["registry/local/kai-scheduler:1", "mirror:5000/other:1"]},
            "spec.binder.resourceReservation.image",
            "is mirror:5000/kai-scheduler:1; policies know registry/local/kai-scheduler:1, mirror",
        ),
        (
            {"nodeScaleAdjuster": {"service": {"enabled": True}, "args": {"scalingPodImage": {"name": "y"}}}},
            {"node_scale_adjuster": True, "scaling_images": ["registry/local/kai-scheduler:1"]},
            "spec.nodeScaleAdjuster.args.scalingPodImage",
            "set nodescaleadjuster.scalingPodImage of the chart",
        ),
        (
            {"binder": {"service": {"extraArgs": {"resource-reservation-pod-image": "x/y:1"}}}},
            {"reservation_images": ["registry/local/kai-scheduler:1"]},
            "spec.binder.service.extraArgs.resource-reservation-pod-image",
            "is x/y:1; policies know registry/local/kai-scheduler:1",
        ),
        (
            {
                "nodeScaleAdjuster": {
                    "service": {"enabled": True, "extraArgs": {"scaling-pod-image": "x/y:1"}}
                }
            },
            {"node_scale_adjuster": True, "scaling_images": ["registry/local/kai-scheduler:1"]},
            "spec.nodeScaleAdjuster.service.extraArgs.scaling-pod-image",
            "is x/y:1; policies know registry/local/kai-scheduler:1",
        ),
        (
            {},
            {"numa_placement_exporter": False},
            "spec.numaPlacementExporter.service.enabled",
            "set numaPlacementExporter.enabled of the chart",
        ),
        ({}, {"binder": False}, "spec.binder.service.enabled", "set binder.enabled of the chart"),
        (
            {"insight": {"service": {"enabled": True}}},
            {},
            "spec.insight.service.enabled",
            "set insight.enabled of the chart",
        ),
        (
            {"insight": {"service": {"enabled": True}}},
            {"insight": True},
            "spec.insight.httpPort",
            "set insight.ports.httpPort of the chart",
        ),
        (
            {"prometheus": {"enabled": True}},
            {"prometheus": False},
            "spec.prometheus.enabled",
            "was given no rights",
        ),
        (
            {"prometheus": {"enabled": True, "instanceName": "usage"}},
            {},
            "spec.prometheus.instanceName",
            "is usage; it must be prometheus",
        ),
        (
            {"global": {"schedulerName": "mine"}},
            {"scheduler_name": "kai-scheduler"},
            "spec.global.schedulerName",
            "set global.schedulerName of the chart",
        ),
        (
            {"global": {"namespaceLabelSelector": {"team": "a"}}},
            {},
            "spec.global.namespaceLabelSelector",
            "may not look at namespaces",
        ),
        (
            {"podGrouper": {"service": {"extraArgs": {"namespace-label-selector": "team=a"}}}},
            {},
            "spec.podGrouper.service.extraArgs.namespace-label-selector",
            "may not look at namespaces",
        ),
        (
            {
                "podGrouper": {
                    "args": {
                        "defaultPrioritiesConfigMapName": "priorities",
                        "defaultPrioritiesConfigMapNamespace": "home",
                    }
                }
            },
            {"priorities": "home/others"},
            "spec.podGrouper.args.defaultPrioritiesConfigMapName",
            "means home/priorities, which the pod-grouper may not read",
        ),
    ],
)
def test_a_config_is_told_what_it_was_given_no_rights_for(spec, grants, field, part):
    found = told(spec, **grants)
    assert list(found) == [field]
    assert part in found[field]


@pytest.mark.parametrize(
    ("spec", "grants"),
    [
        ({"nodeScaleAdjuster": {"service": {"enabled": True}}}, {"node_scale_adjuster": True}),
        ({"binder": {"service": {"enabled": False}}}, {"binder": False}),
        ({"insight": {"service": {"enabled": True}}}, {"insight": True, "insight_reviews": True}),
        ({"insight": {"service": {"enabled": True}, "httpPort": 0}}, {"insight": True}),
        (
            {"numaPlacementExporter": {"service": {"enabled": False}}},
            {"numa_placement_exporter": False},
        ),
        ({"prometheus": {"enabled": True, "externalPrometheusUrl": "http://p:9090"}}, {"prometheus": False}),
        ({"global": {"schedulerName": "mine"}}, {}),
        ({"global": {"namespaceLabelSelector": {"team": "a"}}}, {"namespaces": True}),
        ({"binder": {"resourceReservation": {"namespace": "r"}}}, {"reservation_namespace": "r"}),
        ({"nodeScaleAdjuster": {"args": {"scalingPodImage": {"name": "y"}}}}, {"scaling_images": ["x/y:1"]}),
        (
            {"binder": {"resourceReservation": {"image": {"repository": "mirror:5000", "tag": "2"}}}},
            {"reservation_images": ["x/y:1", "mirror:5000/kai-scheduler@sha256:0123"]},
        ),
        (
            {"binder": {"service": {"extraArgs": {"resource-reservation-pod-image": "mirror/holder:2"}}}},
            {"reservation_images": ["mirror/holder:1"]},
        ),
    ],
)
def test_what_there_are_rights_for_is_allowed(spec, grants):
    assert told(spec, **grants) == {}


@pytest.mark.parametrize(
    ("args", "config", "grants", "field", "part"),
    [
        ({"eviction-api": "true"}, {}, {}, "eviction-api", "the right to delete pods, not to evict them"),
        (
            {},
            {},
            {"evictions": True},
            "eviction-api",
            "is false, and schedulers were given the right to evict",
        ),
        ({}, {"eviction-api": "yes"}, {}, "eviction-api", "is true"),
        ({"update-pod-eviction-condition": "true"}, {}, {}, "update-pod-eviction-condition", "is true"),
        ({}, {}, {"config_maps": False}, "wait-for-config-maps", "may not look for ConfigMaps"),
    ],
)
def test_a_shard_is_told_what_it_was_given_no_rights_for(args, config, grants, field, part):
    of_all = {"scheduler": {"service": {"extraArgs": config}}}
    found = told_of_shard(args, config=of_all, **grants)
    assert list(found) == [f"spec.args.{field}"]
    assert part in found[f"spec.args.{field}"]


def test_a_shard_may_take_back_what_a_config_asks_of_all():
    of_all = {"scheduler": {"service": {"extraArgs": {"eviction-api": "true"}}}}
    assert told_of_shard({"eviction-api": "false"}, config=of_all) == {}


def test_grants_are_read_from_json_and_slips_told():
    assert read_grants(json.dumps({"evictions": True})) == Grants(evictions=True)
    for text, part in (("{", "are no JSON"), ('{"eviction": true}', "eviction"), ('{"binder": 1}', "binder")):
        with pytest.raises(InvalidSpec, match=part):
            read_grants(text)
