import pytest

from kai.model.objects import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from kai.validation import pods
from kai.validation.pods import PodRules

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
