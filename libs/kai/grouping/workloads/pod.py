"""Pods without owners, Spark applications, and Deployments: a group for each pod or application."""

from kai.grouping.default_rule import INFERENCE, group_name
from kai.grouping.draft import GroupDraft
from kai.grouping.objects.pods import Pod, pod_document
from kai.grouping.workload import Kind, Workload

SPARK_NAME, SPARK_SELECTOR = "spark-app-name", "spark-app-selector"


async def group_pod(workload: Workload) -> GroupDraft:
    """The pod at the top; pods of one Spark application share the group that is named by its selector."""
    draft = workload.draft()
    draft.name = _application_of(workload.pod) or draft.name
    return draft


def group_of_its_own(pod: Pod) -> str:
    """The name of the group that is made for a pod without owners."""
    return _application_of(pod) or group_name(pod_document(pod))


def _application_of(pod: Pod) -> str:
    """The Spark application of a pod; empty if there is none."""
    return pod.labels.get(SPARK_SELECTOR, "") if SPARK_NAME in pod.labels else ""


async def group_deployment(workload: Workload) -> GroupDraft:
    """Replicas of a Deployment do not need each other: each is a group of its own."""
    draft = workload.draft(fallback_class=INFERENCE)
    pod = pod_document(workload.pod)
    draft.name, draft.owner = group_name(pod), pod.reference
    return draft


KINDS = (
    Kind(
        "v1", "Pod", "one group for the pod; pods with the same label spark-app-selector share one", group_pod
    ),
    Kind("apps/v1", "Deployment", "one group for each pod; priority class inference", group_deployment),
)
