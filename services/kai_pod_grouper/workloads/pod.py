"""Pods without owners, Spark applications, and Deployments: a group for each pod or application."""

from kai_pod_grouper.grouping.default_rule import INFERENCE, group_name
from kai_pod_grouper.grouping.draft import GroupDraft
from kai_pod_grouper.grouping.workload import Kind, Workload
from kai_pod_grouper.objects.pods import pod_document

SPARK_NAME, SPARK_SELECTOR = "spark-app-name", "spark-app-selector"


async def group_pod(workload: Workload) -> GroupDraft:
    """The pod at the top; pods of one Spark application share the group that is named by its selector."""
    draft = workload.draft()
    labels = workload.pod.labels
    if SPARK_NAME in labels and SPARK_SELECTOR in labels:
        draft.name = labels[SPARK_SELECTOR]
    return draft


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
