"""Which queue labels name: the same rule for whoever groups pods and for whoever warns of a slip."""

from collections.abc import Mapping

from kai.model import names


def queue_named(
    owner_labels: Mapping[str, str],
    pod_labels: Mapping[str, str],
    *,
    queue_label_key: str = names.QUEUE_LABEL,
    node_pool_label_key: str = names.NODE_POOL_LABEL,
) -> str:
    """Queue label of the owner, of the pod, then the project's queue, then ``default-queue``.

    A label that is present counts even if it is empty.
    """
    for labels in (owner_labels, pod_labels):
        if queue_label_key in labels:
            return labels[queue_label_key]
    project = owner_labels.get(names.PROJECT_LABEL, pod_labels.get(names.PROJECT_LABEL, ""))
    if not project:
        return names.DEFAULT_QUEUE
    pool = pod_labels.get(node_pool_label_key)
    return project if pool is None else f"{project}-{pool}"
