"""Which plugins take part, and what their pure parts decide."""

import json

import pytest

from kai.model.objects import ObjectMeta, Pod, PodResourceClaim, PodSpec, PodStatus, ResourceClaimStatus
from kai.runtime import SettingsError
from kai.wire.decisions import BIND_SECONDS
from kai_binder.errors import BindFailed
from kai_binder.plugins import PluginError, build, configure
from kai_binder.plugins.device_conditions import awaited
from kai_binder.plugins.dynamicresources import claim_name
from kai_binder.plugins.volumebinding import could_be, reachable
from kai_binder.settings import BinderSettings


# --- configuration -----------------------------------------------------------------------------
def names_of(text):
    return [plugin.name for plugin in build(configure(text), client=None)]


def test_by_default_volumes_come_before_claims_and_claims_before_sharing():
    assert names_of("") == ["volumebinding", "dynamicresources", "gpusharing"]


def test_priority_and_use_are_overridden_one_by_one():
    text = json.dumps({"gpusharing": {"priority": 400}, "volumebinding": {"enabled": False}})
    assert names_of(text) == ["gpusharing", "dynamicresources"]


def test_arguments_are_replaced_as_a_whole():
    with pytest.raises(PluginError, match=r"volumebinding\.bindTimeoutSeconds"):
        names_of(json.dumps({"volumebinding": {"arguments": {}}}))


def test_an_argument_that_a_plugin_does_not_have_is_refused_with_the_nearest_it_has():
    with pytest.raises(PluginError) as caught:
        configure(json.dumps({"volumebinding": {"arguments": {"bindTimeoutSecs": "60"}}}))
    assert "unknown argument 'bindTimeoutSecs'; did you mean 'bindTimeoutSeconds'?" in str(caught.value)


def test_a_field_that_a_plugin_does_not_have_is_refused_with_the_nearest_it_has():
    with pytest.raises(PluginError) as caught:
        configure(json.dumps({"gpusharing": {"enabld": True}}))
    assert "--plugins: gpusharing: unknown field 'enabld'; did you mean 'enabled'?" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"enabled": "yes"}, "Expected `bool | null`, got `str` - at `$.enabled`"),
        ({"arguments": {"cdiEnabled": True}}, "Expected `str`, got `bool` - at `$.arguments[...]`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_a_value_that_cannot_be_read_is_refused_with_its_plugin(change, told):
    with pytest.raises(PluginError) as caught:
        configure(json.dumps({"gpusharing": change}))
    assert str(caught.value) == f"--plugins: gpusharing: {told}"


@pytest.mark.parametrize(
    ("plugins", "longest"),
    [
        ({}, BIND_SECONDS),
        ({"volumebinding": {"arguments": {"bindTimeoutSeconds": "5"}}}, BIND_SECONDS),
        ({"volumebinding": {"arguments": {"bindTimeoutSeconds": "600"}}}, 760),
        ({"volumebinding": {"enabled": False, "arguments": {"bindTimeoutSeconds": "600"}}}, BIND_SECONDS),
    ],
    ids=["by default", "short ones", "a long one", "one that is off"],
)
def test_a_bind_may_take_what_its_time_limits_add_up_to_and_as_ever_at_least(plugins, longest):
    assert BinderSettings.parse([f"--plugins={json.dumps(plugins)}"]).longest_bind == longest


def test_the_time_for_a_device_counts_among_the_limits_of_a_bind():
    flag = "--resource-reservation-allocation-timeout=10m"
    assert BinderSettings.parse([flag]).longest_bind == 840


@pytest.mark.parametrize("value", ["0", "-1", "soon", "1.5"])
def test_a_timeout_must_be_whole_seconds(value):
    with pytest.raises(PluginError, match="bindTimeoutSeconds"):
        names_of(json.dumps({"dynamicresources": {"arguments": {"bindTimeoutSeconds": value}}}))


@pytest.mark.parametrize("how", ["{}", '{"enabled": false}'])
def test_an_unknown_plugin_is_refused_with_the_nearest_known_one(how):
    with pytest.raises(PluginError, match=r"unknown plugin 'gpushring'; did you mean 'gpusharing'\?"):
        configure(f'{{"gpushring": {how}}}')


def test_a_plugin_that_only_the_original_has_may_be_turned_off():
    assert configure('{"nvfractions": {"enabled": false}}') == configure("")
    with pytest.raises(PluginError, match="nvfractions"):
        configure('{"nvfractions": {}}')


@pytest.mark.parametrize(
    "others",
    [{"gpusharing": {"enabled": False}}, {"gpusharing": {"priority": 50}}, {"gpusharing": {"priority": 10}}],
)
def test_hamicore_needs_gpusharing_before_it(others):
    with pytest.raises(PluginError, match="hamicore needs gpusharing"):
        configure(json.dumps({"hamicore": {"enabled": True}, **others}))
    assert names_of(json.dumps({"hamicore": {"enabled": True}}))[-1] == "hamicore"


@pytest.mark.parametrize("text", ["[]", "{", '{"gpusharing": {"enable": true}}'])
def test_what_is_no_map_of_plugins_ends_the_binder_at_its_start(text):
    with pytest.raises(SettingsError, match="--plugins"):
        BinderSettings.parse([f"--plugins={text}"]).plugin_configs()


@pytest.mark.parametrize(
    "plugins",
    [
        {"gpushring": {}},
        {"volumebinding": {"arguments": {"bindTimeoutSeconds": "soon"}}},
        {"dynamicresources": {"arguments": {"bindTimeoutSeconds": "9" * 5000}}},
        {"gpusharing": {"arguments": {"cdiEnabled": "maybe"}}},
    ],
)
def test_plugins_that_cannot_be_used_end_the_binder_in_one_line(capsys, plugins):
    with pytest.raises(SystemExit) as ended:
        BinderSettings.load([f"--plugins={json.dumps(plugins)}"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: --plugins: ")


def test_json_flags_are_read():
    settings = BinderSettings.parse(
        [
            '--resource-reservation-pod-resources={"requests": {"cpu": "10m", "nvidia.com/gpu": "9"}}',
            "--resource-reservation-allocation-timeout=7",
            "--runtime-class-name=nvidia",
            "--resource-reservation-pod-image-pull-policy=Always",
            "--fake-gpu-nodes=true",
            "--qps=50",
        ]
    )
    manifest = settings.template.manifest(node="n", group="g", annotations={})
    container = manifest["spec"]["containers"][0]
    assert container["resources"] == {
        "requests": {"cpu": "10m", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }
    assert (container["image"], container["args"]) == ("ubuntu", ["sleep", "infinity"])
    assert container["imagePullPolicy"] == "Always"
    assert manifest["spec"]["runtimeClassName"] == "nvidia"
    assert manifest["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"request": {"memory": "64Mi"}}, "unknown field 'request'; did you mean 'requests'?"),
        ({"requests": "64Mi"}, "requests must be a map of amounts"),
        ({"limits": {"memory": "64Mb"}}, "limits.memory: '64Mb' is not a Kubernetes quantity"),
        (
            {"requests": {"memory": "1Gi"}, "limits": {"memory": "64Mi"}},
            "requests.memory, 1Gi, is above limits.memory, 64Mi",
        ),
        ({"limits": {"cpu": True}}, "limits.cpu: 'True' is not a Kubernetes quantity"),
    ],
)
def test_resources_of_reservation_pods_that_cannot_be_meant_end_the_binder_in_one_line(
    capsys, resources, said
):
    with pytest.raises(SystemExit) as ended:
        BinderSettings.load([f"--resource-reservation-pod-resources={json.dumps(resources)}"])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_resources_of_reservation_pods_may_be_numbers_and_left_open():
    told = {"requests": {"cpu": 1}, "limits": None}
    settings = BinderSettings.load([f"--resource-reservation-pod-resources={json.dumps(told)}"])
    manifest = settings.template.manifest(node="n", group="g", annotations={})
    assert manifest["spec"]["containers"][0]["resources"]["requests"] == {"cpu": 1, "nvidia.com/gpu": "1"}


def test_reservation_pods_may_do_no_more_than_look_at_their_device():
    """Objects of tenants bring them about, so they are held as our own pods are, unless told otherwise."""
    spec = BinderSettings.parse([]).template.manifest(node="n", group="g", annotations={})["spec"]
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    told = ['--resource-reservation-container-security-context={"readOnlyRootFilesystem": true}']
    changed = BinderSettings.parse(told).template.manifest(node="n", group="g", annotations={})
    assert changed["spec"]["containers"][0]["securityContext"] == {"readOnlyRootFilesystem": True}


# --- volumes -----------------------------------------------------------------------------------
def a_claim(*, size="10Gi", cls="fast", modes=("ReadWriteOnce",), **spec):
    return {
        "metadata": {"namespace": "ns", "name": "c", "uid": "u"},
        "spec": {
            "storageClassName": cls,
            "accessModes": list(modes),
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }


def a_volume(*, size="10Gi", cls="fast", modes=("ReadWriteOnce",), labels=None, phase="Available", **spec):
    return {
        "metadata": {"name": "v", "labels": labels or {}},
        "spec": {
            "storageClassName": cls,
            "accessModes": list(modes),
            "capacity": {"storage": size},
            **spec,
        },
        "status": {"phase": phase},
    }


def test_only_a_volume_that_is_free_and_has_what_is_asked_could_be_a_claims():
    assert could_be(a_volume(size="20Gi"), a_claim())
    assert not could_be(a_volume(size="9Gi"), a_claim())
    assert not could_be(a_volume(phase="Released"), a_claim())
    assert could_be(a_volume(labels={"tier": "a"}), a_claim(selector={"matchLabels": {"tier": "a"}}))


def in_zone(*zones):
    expression = {"key": "zone", "operator": "In", "values": list(zones)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def test_a_volume_is_reached_only_from_where_it_says():
    node = {"metadata": {"name": "n1", "labels": {"zone": "a"}}}
    assert reachable(a_volume(), node)
    assert reachable(a_volume(nodeAffinity=in_zone("a", "b")), node)
    assert not reachable(a_volume(nodeAffinity=in_zone("c")), node)


# --- devices -----------------------------------------------------------------------------------
def test_a_claim_is_found_by_its_name_in_the_pod():
    pod = Pod(
        metadata=ObjectMeta(name="p", namespace="ns"),
        spec=PodSpec(
            resource_claims=[
                PodResourceClaim(name="direct", resource_claim_name="shared"),
                PodResourceClaim(name="made", resource_claim_template_name="t"),
                PodResourceClaim(name="late", resource_claim_template_name="t"),
            ]
        ),
        status=PodStatus(
            resource_claim_statuses=[ResourceClaimStatus(name="made", resource_claim_name="p-made-x")]
        ),
    )
    assert claim_name(pod, "direct") == "shared"
    assert claim_name(pod, "made") == "p-made-x"
    with pytest.raises(BindFailed, match="not been made"):
        claim_name(pod, "late")
    with pytest.raises(BindFailed, match="no claim 'other'"):
        claim_name(pod, "other")


def test_devices_that_are_brought_to_the_node_are_awaited_by_name():
    def entry(device, **more):
        return {"driver": "gpu.example.com", "pool": "rack", "device": device, **more}

    def condition(kind, status):
        return {"type": kind, "status": status}

    conditions = {"bindingConditions": ["Attached", "Powered"]}
    results = [entry("a", **conditions), entry("b", **conditions), entry("c")]
    told = [
        entry("a", conditions=[{"type": each, "status": "True"} for each in ("Attached", "Powered")]),
        entry(
            "b", conditions=[{"type": "Attached", "status": "True"}, {"type": "Powered", "status": "False"}]
        ),
    ]
    claim = {"metadata": {"name": "gpus"}, "status": {"allocation": {"devices": {"results": results}}}}
    assert awaited(claim) == (
        "device gpu.example.com/rack/a of resourceclaim gpus has not the conditions Attached, Powered; "
        "device gpu.example.com/rack/b of resourceclaim gpus has not the conditions Attached, Powered"
    )
    claim["status"]["devices"] = told
    assert awaited(claim) == (
        "device gpu.example.com/rack/b of resourceclaim gpus has not the condition Powered"
    )
    told[1]["conditions"][1]["status"] = "True"
    assert awaited(claim) == ""
