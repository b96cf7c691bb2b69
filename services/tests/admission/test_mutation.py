import json
import re
from copy import deepcopy

import jsonpatch
import msgspec
import pytest

from kai.model import sharing
from kai.model.objects import Pod
from kai.runtime.webhook import AdmissionRequest
from kai.validation.registration import MUTATE_POD, VALIDATE_POD
from kai_admission.handlers import handlers
from kai_admission.mutation.draft import PodDraft
from kai_admission.mutation.gpu_sharing import mutate
from kai_admission.settings import AdmissionSettings
from services.tests.admission.builders import a_pod

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
SHARING = ("--gpu-sharing-enabled",)


def a_fraction(*containers, extra=None, **more):
    return a_pod(*containers, annotations={"gpu-fraction": "0.5", **(extra or {})}, **more)


def review(pod, *flags, namespace="team"):
    settings = AdmissionSettings.parse(list(flags))
    request = AdmissionRequest(uid="u", operation="CREATE", namespace=namespace, object=deepcopy(pod))
    response = handlers(settings)[MUTATE_POD](request)
    assert request.object == pod  # a patch says what is to change
    return response


def mutated(pod, *flags, **request):
    """The pod as the API server would store it."""
    response = review(pod, *flags, **request)
    assert response.allowed, response.message
    return jsonpatch.apply_patch(pod, response.patch)


def env_of(container):
    return {variable["name"]: variable for variable in container["env"]}


# --- sharing -----------------------------------------------------------------------------------
def test_the_container_that_shares_a_gpu_is_connected_with_its_config_maps():
    draft = PodDraft(
        a_fraction({"name": "main", "env": [{"name": "A", "value": "1"}]}), random=lambda: "abc1234"
    )
    mutate(draft)
    pod = draft.json
    assert pod["metadata"]["annotations"]["runai/shared-gpu-configmap"] == "demo-abc1234-shared-gpu"
    (container,) = pod["spec"]["containers"]
    capabilities = "demo-abc1234-shared-gpu-0"
    assert container["env"] == [
        {"name": "A", "value": "1"},
        *(
            {
                "name": name,
                "valueFrom": {"configMapKeyRef": {"name": capabilities, "key": name, "optional": False}},
            }
            for name in (VISIBLE, "RUNAI_NUM_OF_GPUS", "GPU_PORTION")
        ),
    ]
    assert container["envFrom"] == [{"configMapRef": {"name": f"{capabilities}-evar", "optional": False}}]
    assert pod["spec"]["volumes"] == [{"name": f"{capabilities}-vol", "configMap": {"name": capabilities}}]
    assert "volumeMounts" not in container


def test_every_pod_of_an_owner_gets_names_of_its_own():
    pods = [mutated(a_fraction(), *SHARING) for _ in range(20)]
    prefixes = {pod["metadata"]["annotations"]["runai/shared-gpu-configmap"] for pod in pods}
    assert len(prefixes) == 20


def test_gpu_memory_is_a_share_too():
    pod = mutated(a_pod(annotations={"gpu-memory": "4096"}), *SHARING)
    assert VISIBLE in env_of(pod["spec"]["containers"][0])


def test_a_name_that_the_user_chose_is_kept():
    pod = mutated(a_fraction(extra={"runai/shared-gpu-configmap": "mine"}), *SHARING)
    assert pod["metadata"]["annotations"]["runai/shared-gpu-configmap"] == "mine"
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == "mine-0"


def test_a_named_init_container_gets_the_share_instead():
    pod = mutated(
        a_fraction(init=[{"name": "a"}, {"name": "b"}], extra={"gpu-fraction-container-name": "b"}), *SHARING
    )
    assert VISIBLE in env_of(pod["spec"]["initContainers"][1])
    assert "env" not in pod["spec"]["initContainers"][0]
    assert "env" not in pod["spec"]["containers"][0]
    assert pod["spec"]["volumes"][0]["configMap"]["name"].endswith("-shared-gpu-i1")


def test_variables_that_the_user_set_are_replaced_and_come_last():
    container = {"name": "main", "env": [{"name": VISIBLE, "value": "all"}, {"name": "Z", "value": "1"}]}
    names = [
        variable["name"]
        for variable in mutated(a_fraction(container), *SHARING)["spec"]["containers"][0]["env"]
    ]
    assert names == ["Z", VISIBLE, "RUNAI_NUM_OF_GPUS", "GPU_PORTION"]


def test_other_volumes_and_sources_stay():
    container = {"name": "main", "envFrom": [{"secretRef": {"name": "s"}}]}
    pod = mutated(a_fraction(container, volumes=[{"name": "data", "emptyDir": {}}]), *SHARING)
    assert pod["spec"]["volumes"][0]["name"] == "data"
    assert pod["spec"]["containers"][0]["envFrom"][0] == {"secretRef": {"name": "s"}}


@pytest.mark.parametrize(
    "flags",
    [SHARING, (*SHARING, "--hami-core-enabled", "--block-nvidia-visible-devices")],
    ids=["sharing", "everything"],
)
def test_a_second_call_changes_nothing(flags):
    once = mutated(
        a_fraction({"name": "main"}, {"name": "side"}, volumes=[{"name": "v", "emptyDir": {}}]), *flags
    )
    assert mutated(once, *flags) == once


def config_maps_of(pod):
    """All that a pod names of its ConfigMaps, and those that the binder would write."""
    prefix = pod["metadata"]["annotations"]["runai/shared-gpu-configmap"]
    position = sharing.fraction_container(msgspec.convert(pod, Pod))
    named = re.findall(rf'"name": "({prefix}-[^"]*?)"', json.dumps(pod))
    return {name.removesuffix("-vol").removesuffix("-evar") for name in named}, {
        sharing.capabilities_config_map(prefix, position)
    }


EVERYTHING = (*SHARING, "--hami-core-enabled", "--block-nvidia-visible-devices")


@pytest.mark.parametrize("flags", [SHARING, EVERYTHING], ids=["sharing", "everything"])
def test_a_container_that_another_webhook_puts_first_does_not_get_the_share(flags):
    """Else containers would wait for ConfigMaps that nobody makes."""
    pod = mutated(a_fraction({"name": "main"}, {"name": "side"}), *flags)
    pod["spec"]["containers"].insert(0, {"name": "proxy"})
    pod = mutated(pod, *flags)
    proxy, main, side = pod["spec"]["containers"]
    assert "valueFrom" in env_of(main)[VISIBLE]
    assert not any("valueFrom" in each for other in (proxy, side) for each in other.get("env", []))
    assert not any("envFrom" in other for other in (proxy, side))
    named, written = config_maps_of(pod)
    assert named == written
    assert pod["metadata"]["annotations"]["gpu-fraction-container-name"] == "main"
    request = AdmissionRequest(uid="u", operation="CREATE", namespace="team", object=pod)
    response = handlers(AdmissionSettings.parse(list(flags)))[VALIDATE_POD](request)
    assert response.allowed, response.message
    assert mutated(pod, *flags) == pod


def test_a_named_init_container_that_is_moved_keeps_the_share():
    named = {"gpu-fraction-container-name": "load"}
    pod = mutated(a_fraction(init=[{"name": "load"}], extra=named), *SHARING)
    pod["spec"]["initContainers"].insert(0, {"name": "proxy"})
    pod = mutated(pod, *SHARING)
    assert "env" not in pod["spec"]["initContainers"][0]
    named, written = config_maps_of(pod)
    assert named == written


def test_another_that_reads_what_the_first_container_will_get_does_not_get_it_instead():
    side = {"name": "side", "envFrom": [{"configMapRef": {"name": "mine-0-evar"}}]}
    pod = mutated(a_fraction({"name": "main"}, side, extra={"runai/shared-gpu-configmap": "mine"}), *SHARING)
    assert VISIBLE in env_of(pod["spec"]["containers"][0])
    assert "env" not in pod["spec"]["containers"][1]
    assert "gpu-fraction-container-name" not in pod["metadata"]["annotations"]


def test_others_that_read_what_a_moved_container_got_read_it_still():
    reads = {"name": "PART", "valueFrom": {"configMapKeyRef": {"name": "mine-0", "key": "GPU_PORTION"}}}
    own = {"configMapRef": {"name": "mine-2"}}
    side = {"name": "side", "env": [reads], "envFrom": [own]}
    pod = mutated(a_fraction({"name": "main"}, side, extra={"runai/shared-gpu-configmap": "mine"}), *SHARING)
    pod["spec"]["containers"].insert(0, {"name": "proxy"})
    side = mutated(pod, *SHARING)["spec"]["containers"][2]
    assert side["env"][0]["valueFrom"]["configMapKeyRef"] == {"name": "mine-1", "key": "GPU_PORTION"}
    assert side["envFrom"] == [own]


def test_a_pod_without_a_share_is_left_alone():
    pod = a_pod({"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}})
    assert not review(pod, *SHARING).patch


@pytest.mark.parametrize("empty", [None, {}], ids=["null", "empty"])
def test_absent_and_null_lists_are_the_same(empty):
    pod = a_fraction({"name": "main", "env": None, "envFrom": None}, volumes=None)
    pod["metadata"]["labels"] = empty
    assert mutated(pod, *SHARING)["spec"]["volumes"]


def test_a_missing_container_is_refused_by_name():
    response = review(a_fraction(extra={"gpu-fraction-container-name": "gone"}), *SHARING)
    assert not response.allowed
    assert 'pod team/demo: annotation gpu-fraction-container-name names container "gone"' in response.message


# --- memory limits -----------------------------------------------------------------------------
def test_a_memory_limit_is_offered_to_hami_core_on_demand():
    limit = env_of(mutated(a_fraction(), *SHARING, "--hami-core-enabled")["spec"]["containers"][0])[
        "CUDA_DEVICE_MEMORY_LIMIT"
    ]
    reference = limit["valueFrom"]["configMapKeyRef"]
    assert reference["optional"] is True
    assert reference["key"] == "CUDA_DEVICE_MEMORY_LIMIT"
    assert "CUDA_DEVICE_MEMORY_LIMIT" not in env_of(mutated(a_fraction(), *SHARING)["spec"]["containers"][0])


# --- device access -----------------------------------------------------------------------------
BLOCK = (*SHARING, "--block-nvidia-visible-devices")


def visible(container):
    return [v for v in container.get("env", []) if v["name"] == VISIBLE]


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"name": "cpu"}, [{"name": VISIBLE, "value": "void"}]),
        ({"name": "asks", "env": [{"name": VISIBLE, "value": "all"}]}, [{"name": VISIBLE, "value": "void"}]),
        (
            {"name": "zero", "resources": {"requests": {"nvidia.com/gpu": "0"}}},
            [{"name": VISIBLE, "value": "void"}],
        ),
        ({"name": "whole", "resources": {"requests": {"nvidia.com/gpu": "1"}}}, []),
        ({"name": "mig", "resources": {"requests": {"nvidia.com/mig-1g.5gb": "1"}}}, []),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("init", [False, True], ids=["regular", "init"])
def test_containers_without_a_gpu_see_none(container, expected, init):
    pod = a_pod(init=[container]) if init else a_pod(container)
    field = "initContainers" if init else "containers"
    assert visible(mutated(pod, *BLOCK)["spec"][field][0]) == expected


def test_the_sharing_container_keeps_what_it_shares_while_its_neighbour_sees_none():
    pod = mutated(a_fraction({"name": "main"}, {"name": "side"}), *BLOCK)
    main, side = pod["spec"]["containers"]
    assert "valueFrom" in visible(main)[0]
    assert visible(side) == [{"name": VISIBLE, "value": "void"}]


def test_a_reference_is_left_for_validation_to_refuse():
    reference = {"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert visible(mutated(a_pod({"name": "main", "env": [reference]}), *BLOCK)["spec"]["containers"][0]) == [
        reference
    ]


def test_devices_are_not_hidden_unless_asked_for():
    assert not review(a_pod(), *SHARING).patch


# --- runtime class -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), "nvidia"),
        (("--gpu-fraction-runtime-class-name=custom",), "custom"),
        (("--gpu-pod-runtime-class-name=old",), "old"),
        (("--gpu-pod-runtime-class-name=old", "--gpu-fraction-runtime-class-name=new"), "new"),
        (("--gpu-pod-runtime-class-name=old", "--gpu-fraction-runtime-class-name="), None),
        (("--gpu-fraction-runtime-class-name=",), None),
    ],
)
def test_pods_that_share_run_with_the_class_of_the_installation(flags, expected):
    assert mutated(a_fraction(), *SHARING, *flags)["spec"].get("runtimeClassName") == expected


def test_a_pods_own_runtime_class_is_respected():
    assert mutated(a_fraction(runtimeClassName="own"), *SHARING)["spec"]["runtimeClassName"] == "own"
    assert mutated(a_fraction(runtimeClassName=""), *SHARING)["spec"]["runtimeClassName"] == "nvidia"


def test_pods_with_whole_gpus_get_no_runtime_class():
    pod = a_pod({"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}})
    assert "runtimeClassName" not in mutated(pod, *SHARING)["spec"]


# --- whose pods --------------------------------------------------------------------------------
def test_pods_of_other_schedulers_are_untouched():
    pod = a_fraction()
    pod["spec"]["schedulerName"] = "default-scheduler"
    assert not review(pod, *BLOCK).patch
    assert review(pod, *BLOCK, "--scheduler-name=default-scheduler").patch


def test_a_pod_without_a_namespace_gets_that_of_the_request():
    pod = a_pod()
    del pod["metadata"]["namespace"]
    assert mutated(pod, namespace="team")["metadata"]["namespace"] == "team"


def test_a_pod_of_another_namespace_than_the_request_is_refused():
    response = review(a_pod(), namespace="elsewhere")
    assert not response.allowed
    assert "metadata.namespace is team but the request is for elsewhere" in response.message


def test_a_generated_name_is_the_base_while_there_is_no_other():
    pod = a_fraction(name="")
    pod["metadata"]["generateName"] = "web-"
    prefix = mutated(pod, *SHARING)["metadata"]["annotations"]["runai/shared-gpu-configmap"]
    assert prefix.startswith("web-")
    assert prefix.endswith("-shared-gpu")


# --- containers that are added to a pod that runs ----------------------------------------------------
HIDDEN = [{"name": VISIBLE, "value": "void"}]


def adding(*containers, before=(), flags=BLOCK):
    """What becomes of ephemeral containers that are added to a pod with ``before``."""
    pod, old = a_pod({"name": "main"}), a_pod({"name": "main"})
    old["spec"]["ephemeralContainers"] = list(before)
    pod["spec"]["ephemeralContainers"] = [*before, *containers]
    parts = {"operation": "UPDATE", "sub_resource": "ephemeralcontainers", "namespace": "team"}
    request = AdmissionRequest(uid="u", object=pod, old_object=old, **parts)
    answers = handlers(AdmissionSettings.parse(list(flags)))
    completed = answers[MUTATE_POD](request)
    for operation in completed.patch or ():
        assert operation["path"].startswith("/spec/ephemeralContainers/")
    request.object = jsonpatch.apply_patch(pod, completed.patch or [])
    return request.object["spec"]["ephemeralContainers"], answers[VALIDATE_POD](request)


def test_a_container_that_is_added_to_a_pod_sees_no_device():
    for env in (None, [], [{"name": VISIBLE, "value": "all"}]):
        (debugger,), verdict = adding({"name": "debugger", "env": env})
        assert visible(debugger) == HIDDEN
        assert verdict.allowed


def test_an_added_container_that_gets_the_variable_from_elsewhere_is_refused():
    reference = {"configMapKeyRef": {"name": "mine", "key": "devices"}}
    env = [{"name": VISIBLE, "valueFrom": reference}]
    _, verdict = adding({"name": "debugger", "env": env})
    assert not verdict.allowed
    assert 'container "debugger" sets NVIDIA_VISIBLE_DEVICES' in verdict.message
    twice = [{"name": VISIBLE, "value": "void"}, {"name": VISIBLE, "value": "all"}]
    assert not adding({"name": "debugger", "env": twice})[1].allowed


def test_ephemeral_containers_that_are_there_stay_as_they_are():
    """The API server would refuse any change of them, and nobody could debug that pod any more."""
    known = {"name": "first", "env": [{"name": VISIBLE, "value": "all"}]}
    (first, second), verdict = adding({"name": "second"}, before=[known])
    assert (first, visible(second)) == (known, HIDDEN)
    assert verdict.allowed


def test_added_containers_are_left_alone_unless_devices_are_blocked():
    debugger = {"name": "debugger", "env": [{"name": VISIBLE, "value": "all"}]}
    (left,), verdict = adding(debugger, flags=SHARING)
    assert left == debugger
    assert verdict.allowed
