import msgspec
import pytest

from kai.model.faults import OutOfBounds
from kai.model.objects import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kai.snapshot import pod_bounds
from kai.snapshot.kinds import Kind
from kai.validation import pods
from kai.validation.pods import PodRules
from kai.validation.registration import PodScope, of_admission
from kai_local.apiserver.schemas import cel
from libs.tests.snapshot.hostile import HOSTILE, a_hostile_pod

SHARING = PodRules(gpu_sharing=True)
GUARDED = PodRules(gpu_sharing=True, block_visible_devices=True)
_LONG = "9" * 5000
VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def a_container(name="main", *, limits=None, requests=None, env=None):
    return Container(name=name, resources=ResourceRequirements(limits=limits, requests=requests), env=env)


def a_pod(*containers, init=None, labels=None, **annotations):
    """A pod; underscores in annotation keywords stand for dashes."""
    return Pod(
        metadata=ObjectMeta(
            name="demo",
            namespace="team",
            labels=labels,
            annotations={key.replace("_", "-"): value for key, value in annotations.items()} or None,
        ),
        spec=PodSpec(
            scheduler_name="kai-scheduler",
            containers=list(containers) or [a_container()],
            init_containers=init,
        ),
    )


def annotated(annotations, labels=None):
    pod = a_pod()
    pod.metadata.annotations, pod.metadata.labels = annotations, labels
    return pod


GPU = {"nvidia.com/gpu": "1"}

REFUSED = {
    "a fraction while sharing is off": (PodRules(), a_pod(gpu_fraction="0.5"), "GPU sharing is disabled"),
    "gpu memory while sharing is off": (PodRules(), a_pod(gpu_memory="1024"), "GPU sharing is disabled"),
    "mps without a share": (SHARING, a_pod(mps="true"), "annotation mps"),
    "a fraction and a whole gpu": (SHARING, a_pod(a_container(limits=GPU), gpu_fraction="0.5"), '"main"'),
    "a fraction and a whole gpu of an init container": (
        SHARING,
        a_pod(init=[a_container("setup", limits=GPU)], gpu_fraction="0.5"),
        '"setup"',
    ),
    "gpu memory and a fraction": (SHARING, a_pod(gpu_memory="1024", gpu_fraction="0.5"), "keep one"),
    "gpu memory and a whole gpu": (SHARING, a_pod(a_container(limits=GPU), gpu_memory="1024"), "gpu-memory"),
    "a number of devices without a share": (SHARING, a_pod(gpu_fraction_num_devices="2"), "how much of each"),
    **{
        f"gpu memory {text!r}": (SHARING, a_pod(gpu_memory=text), "positive number of MiB")
        for text in ("0", "-1", "1.5", "4Gi", "", "+4", "١", str(2**31 + 1), _LONG)
    },
    **{
        f"fraction {text!r}": (SHARING, a_pod(gpu_fraction=text), "above 0 and below 1")
        for text in (
            "0",
            "1",
            "1.5",
            "-0.5",
            "NaN",
            "inf",
            "half",
            "",
            "0x1p-2",
            "500m",
            "0,5",
            "1e1",
            "0_5",
            _LONG,
        )
    },
    **{
        f"{text!r} devices": (
            SHARING,
            a_pod(gpu_fraction="0.5", gpu_fraction_num_devices=text),
            "num-devices",
        )
        for text in ("0", "-2", "two", "1.0", "", "1025", _LONG)
    },
    "devices by a literal": (
        GUARDED,
        a_pod(a_container(env=[{"name": VISIBLE, "value": "all"}])),
        "does not allow",
    ),
    "devices by a reference": (
        GUARDED,
        a_pod(
            a_container(env=[{"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])
        ),
        "does not allow",
    ),
    "devices of a container beside the sharing one": (
        GUARDED,
        a_pod(a_container(), a_container("side", env=[{"name": VISIBLE, "value": "0"}]), gpu_fraction="0.5"),
        '"side"',
    ),
    "a missing fraction container": (
        SHARING,
        a_pod(gpu_fraction="0.5", gpu_fraction_container_name="worker"),
        '"worker"',
    ),
}


@pytest.mark.parametrize(("rules", "pod", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_object_field_and_remedy(rules, pod, said):
    verdict = pods.check(pod, rules)
    assert not verdict.allowed
    assert verdict.message.startswith("pod team/demo: ")
    assert said in verdict.message


ACCEPTED = {
    "a plain pod": (PodRules(), a_pod()),
    "a whole gpu": (PodRules(), a_pod(a_container(limits=GPU))),
    "a fraction": (SHARING, a_pod(gpu_fraction="0.5")),
    "a fraction in scientific notation": (SHARING, a_pod(gpu_fraction="5e-1")),
    "a fraction with a sign": (SHARING, a_pod(gpu_fraction="+.25")),
    "gpu memory": (SHARING, a_pod(gpu_memory="4096")),
    "parts of two devices": (SHARING, a_pod(gpu_fraction="0.5", gpu_fraction_num_devices="2")),
    "memory of two devices": (SHARING, a_pod(gpu_memory="512", gpu_fraction_num_devices="2")),
    "mps with a fraction": (SHARING, a_pod(gpu_fraction="0.5", mps="true")),
    "mps switched off": (PodRules(), a_pod(mps="false")),
    "a whole gpu in requests only": (SHARING, a_pod(a_container(requests=GPU), gpu_fraction="0.5")),
    "visible devices where nobody minds": (
        SHARING,
        a_pod(a_container(env=[{"name": VISIBLE, "value": "all"}])),
    ),
    **{
        f"harmless visible devices {text!r}": (
            GUARDED,
            a_pod(a_container(env=[{"name": VISIBLE, "value": text}])),
        )
        for text in ("void", "none", "")
    },
    "visible devices without a value": (GUARDED, a_pod(a_container(env=[{"name": VISIBLE}]))),
    "visible devices of the sharing container": (
        GUARDED,
        a_pod(
            a_container(
                env=[{"name": VISIBLE, "valueFrom": {"configMapKeyRef": {"name": "x", "key": VISIBLE}}}]
            ),
            gpu_fraction="0.5",
        ),
    ),
    "a fraction for an init container": (
        GUARDED,
        a_pod(
            init=[a_container("setup", env=[{"name": VISIBLE, "value": "0"}])],
            gpu_fraction="0.5",
            gpu_fraction_container_name="setup",
        ),
    ),
}


@pytest.mark.parametrize(("rules", "pod"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(rules, pod):
    verdict = pods.check(pod, rules)
    assert verdict.allowed, verdict.message


def test_a_text_as_long_as_annotations_may_be_that_is_no_fraction_is_refused():
    """While others wait for their pods: by the square of its length that would take half an hour."""
    assert not pods.check(a_pod(gpu_fraction="9" * 250_000 + "x"), SHARING).allowed


def test_the_first_row_that_applies_is_the_one_reported():
    pod = a_pod(a_container(limits=GPU), gpu_fraction="7", gpu_fraction_num_devices="none")
    assert len(pods.check(pod, SHARING).errors) == 1
    assert "excludes limits" in pods.check(pod, SHARING).message
    assert "disabled" in pods.check(pod, PodRules()).message


def test_a_pod_without_a_name_yet_is_called_by_its_generated_one():
    pod = a_pod(gpu_fraction="2")
    pod.metadata.name, pod.metadata.generate_name = "", "web-"
    assert pods.check(pod, SHARING).message.startswith("pod team/web-*: ")


class Asked(dict):
    """Annotations or labels that remember what was looked for."""

    def __init__(self, *args):
        super().__init__(*args)
        self.keys_asked = set()

    def __bool__(self):
        return True  # empty, but not nothing

    def get(self, key, default=None):
        self.keys_asked.add(key)
        return super().get(key, default)

    def __contains__(self, key):
        self.keys_asked.add(key)
        return super().__contains__(key)


@pytest.mark.parametrize("given", [{}, {"gpu-fraction": "0.5"}, {"gpu-memory": "1024"}])
def test_the_api_server_is_told_all_keys_that_the_rules_go_by(given):
    pod = a_pod()
    annotations, labels = Asked(given), Asked()
    pod.metadata.annotations, pod.metadata.labels = annotations, labels
    pods.check(pod, SHARING)
    assert annotations.keys_asked - {"gpu-fraction-container-name"} == set(pods.ANNOTATIONS)
    assert not labels.keys_asked


CONTAINER = {"name": "main", "image": "x", "env": [{"name": "A", "value": "b"}]}
OTHER_CONTAINER = {"name": "main", "image": "x", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
SHARES = {"gpu-fraction": "0.5"}


def stored(annotations=SHARES, *, labels=None, node="", containers=(CONTAINER,), **spec):
    """A pod of ours as the API server knows it."""
    meta = {"annotations": annotations, **({"labels": labels} if labels else {})}
    where = {"nodeName": node} if node else {}
    spec = {"schedulerName": "kai-scheduler", "containers": list(containers), **where, **spec}
    return {"metadata": meta, "spec": spec}


GROUPED, MANY = {"runai-gpu-group": "g"}, {"runai-gpu-group/g": "g", "runai-gpu-group/h": "h"}
CHANGES = {
    "a new pod": (None, stored(), True),
    "nothing": (stored(), stored(), False),
    "the label of its device": (stored(), stored(labels=GROUPED), False),
    "the labels of its devices": (stored(), stored(labels=MANY), False),
    "a label taken off before it has a node": (stored(labels=GROUPED), stored(), False),
    "its finalizers": (stored() | {"metadata": {"annotations": SHARES, "finalizers": []}}, stored(), False),
    "its group": (stored(), stored({**SHARES, "pod-group-name": "g"}), False),
    "a gate taken off": (stored(schedulingGates=[{"name": "x"}]), stored(), False),
    **{
        f"annotation {key}": (stored(), stored({**SHARES, key: "1"}), True)
        for key in (*pods.ANNOTATIONS, "gpu-fraction-container-name", "received-resource-type")
    },
    "what it asks for taken off": (stored(), stored({"a": "b"}), True),
    "a container": (stored(), stored(containers=[OTHER_CONTAINER]), True),
    "an init container": (stored(), stored(initContainers=[OTHER_CONTAINER]), True),
    "an added container": (stored(), stored(ephemeralContainers=[OTHER_CONTAINER]), True),
    "the device of one with a node": (
        stored(labels=GROUPED, node="n"),
        stored(labels={"runai-gpu-group": "h"}, node="n"),
        True,
    ),
    "one device more with a node": (
        stored(labels=GROUPED, node="n"),
        stored(labels=GROUPED | MANY, node="n"),
        True,
    ),
    "no device any more with a node": (stored(labels=MANY, node="n"), stored(node="n"), True),
    "another label with a node": (
        stored(labels=GROUPED, node="n"),
        stored(labels=GROUPED | {"app": "x", "runai-gpu-groups": "x"}, node="n"),
        False,
    ),
}


@pytest.mark.parametrize("all_pods", [False, True])
@pytest.mark.parametrize(("before", "after", "asked"), CHANGES.values(), ids=CHANGES.keys())
def test_the_api_server_asks_about_a_change_only_where_the_rules_look(before, after, asked, all_pods):
    webhook = of_admission(lambda service, path: {}, PodScope(all_pods=all_pods))[1]["webhooks"][0]
    holds = [
        cel.evaluate(condition["expression"], object=after, oldObject=before)
        for condition in webhook["matchConditions"]
    ]
    assert all(holds) is asked


# --- bounds --------------------------------------------------------------------------------------
HOSTILE_PODS = [hostile for hostile in HOSTILE if hostile.kind is Kind.POD]
LARGE = next(
    webhook
    for webhook in of_admission(lambda service, path: {}, PodScope())[1]["webhooks"]
    if webhook["name"].startswith("bounds.")
)


def is_asked_about(pod, webhook):
    """Whether the API server asks the webhook about a pod that is created."""
    obj = msgspec.json.decode(msgspec.json.encode(pod))
    obj["spec"]["schedulerName"] = "kai-scheduler"
    return all(
        cel.evaluate(condition["expression"], object=obj, oldObject=None)
        for condition in webhook["matchConditions"]
    )


@pytest.mark.parametrize("hostile", HOSTILE_PODS, ids=lambda hostile: hostile.name)
def test_a_new_pod_that_cannot_be_taken_in_is_refused_with_field_and_bound(hostile):
    assert not pods.check_new(hostile.obj, SHARING).allowed
    with pytest.raises(OutOfBounds) as raised:
        pod_bounds.check(hostile.obj)
    assert hostile.field in str(raised.value)
    assert hostile.bound in str(raised.value)


def test_what_cannot_be_taken_in_is_told_with_the_pod():
    verdict = pods.check_new(a_hostile_pod("large", tolerations=[{"key": "k"}] * 513), PodRules())
    assert verdict.message == "pod default/large: spec.tolerations is '513'; it must be at most 512"


@pytest.mark.parametrize(("rules", "pod"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_new_pod_within_bounds_is_accepted(rules, pod):
    verdict = pods.check_new(pod, rules)
    assert verdict.allowed, verdict.message


#: Integers of which the API server itself takes no more than 32 bits; nor does it take other types.
SHORT = {"priority", "a priority of 200 bits", "weight", "skew"}


@pytest.mark.parametrize(
    "hostile",
    [
        each
        for each in HOSTILE_PODS
        if each.name.removeprefix("pod: ") not in SHORT and not each.bound.startswith("type")
    ],
    ids=lambda hostile: hostile.name,
)
def test_the_api_server_asks_about_every_pod_that_may_be_beyond_its_bounds(hostile):
    says_something = of_admission(lambda service, path: {}, PodScope())[1]["webhooks"][0]
    assert is_asked_about(hostile.obj, LARGE) is not is_asked_about(hostile.obj, says_something)


def as_much_as_nobody_is_asked_about(amount):
    """Containers of both kinds, each with other names."""
    containers = [
        {
            "name": f"c{number}",
            "restartPolicy": "Always",
            "resources": {
                of: {f"example.com/{of}-{number}-{each}": amount for each in range(4)}
                for of in ("requests", "limits")
            },
        }
        for number in range(8)
    ]
    return a_hostile_pod("much", containers=containers[:4], initContainers=containers[4:])


@pytest.mark.parametrize("amount", ["99999", "99999m"])
def test_a_pod_that_nobody_is_asked_about_is_within_its_bounds(amount):
    much = as_much_as_nobody_is_asked_about(amount)
    assert not is_asked_about(much, LARGE)
    pod_bounds.check(much)


@pytest.mark.parametrize(
    ("resource", "amount"),
    [("memory", "99999Gi"), ("ephemeral-storage", "99999Gi"), ("cpu", "99999"), ("nvidia.com/gpu", "99999")],
)
def test_a_pod_that_nobody_is_asked_about_is_within_its_bounds_in_all(resource, amount):
    containers = [
        {"name": f"c{number}", "restartPolicy": "Always", "resources": {"requests": {resource: amount}}}
        for number in range(8)
    ]
    much = a_hostile_pod("much", containers=containers[:4], initContainers=containers[4:])
    assert not is_asked_about(much, LARGE)
    pod_bounds.check(much)


def test_a_pod_that_lists_as_much_as_nobody_is_asked_about_is_within_its_bounds():
    """Ports of its host, and config maps in its containers and volumes."""
    containers = [
        {
            "name": f"c{number}",
            "restartPolicy": "Always",
            "ports": [{"containerPort": 1, "hostPort": 1000 * number + port} for port in range(1, 129)],
            "env": [{"valueFrom": {"configMapKeyRef": {"name": f"m{number}-{i}"}}} for i in range(48)],
            "envFrom": [{"configMapRef": {"name": f"n{number}-{i}"}} for i in range(16)],
        }
        for number in range(8)
    ]
    volumes = [{"name": f"v{i}", "configMap": {"name": f"v{i}"}} for i in range(512)]
    much = a_hostile_pod("much", volumes=volumes, containers=containers[:4], initContainers=containers[4:])
    assert not is_asked_about(much, LARGE)
    pod_bounds.check(much)


def test_the_api_server_need_not_ask_about_usual_pods():
    resources = {"cpu": "8", "memory": "512Gi", "nvidia.com/gpu": "8", "rdma/hca": "1"}
    container = {"name": "main", "resources": {"requests": resources, "limits": resources}}
    assert not is_asked_about(a_hostile_pod("usual", group="gang", containers=[container]), LARGE)


def test_where_admission_is_asked_about_all_pods_it_is_asked_once():
    webhooks = of_admission(lambda service, path: {}, PodScope(all_pods=True))[1]["webhooks"]
    assert not [each for each in webhooks if each["name"].startswith("bounds.")]
