"""Texts that mean something by themselves: they stay as they are, since decisions go by them."""

from __future__ import annotations

import re
from typing import Final

from kai.model import names
from kai.model.dra import ADMIN_NAMESPACE_LABEL, EXTENDED_CLAIM_ANNOTATION
from kai.model.rules.priorities import PREEMPTIBILITIES
from kai.model.rules.volumes import SELECTED_NODE

#: Labels and taints of Kubernetes and of the product; keys of others are names like any other.
KEYS: Final = frozenset(
    {
        *("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "metadata.name"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/instance-type"),
        *(
            f"node.kubernetes.io/{what}"
            for what in (
                *("not-ready", "unreachable", "unschedulable", "memory-pressure", "disk-pressure"),
                *("pid-pressure", "network-unavailable", "out-of-service"),
            )
        ),
        *("node-role.kubernetes.io/control-plane", "nvidia.com/gpu.present", "nvidia.com/gpu.product"),
        *(SELECTED_NODE, EXTENDED_CLAIM_ANNOTATION, ADMIN_NAMESPACE_LABEL),
        *(value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)),
    }
)
#: The same, of which the rest of the key is a name or an amount.
KEY_PREFIXES: Final = (names.MULTI_GPU_GROUP_PREFIX, names.RESERVATION_CLAIM_PREFIX)
#: Labels and annotations whose values are read as numbers or words.
READ: Final = frozenset(
    {
        *(names.GPU_MEMORY_LABEL, names.GPU_COUNT_LABEL, names.MIG_STRATEGY_LABEL, names.TASK_PRIORITY_LABEL),
        *(names.CPU_WORKER_LABEL, names.GPU_WORKER_LABEL, names.MIG_WORKER_LABEL),
        *(names.GPU_FRACTION, names.GPU_MEMORY, names.GPU_FRACTION_NUM_DEVICES, names.MPS),
        *(names.KUBEFLOW_JOB_ROLE_LABEL, names.RAY_NODE_TYPE_LABEL, names.RECEIVED_RESOURCE_TYPE),
        *(*names.GROUP_TIMESTAMPS, EXTENDED_CLAIM_ANNOTATION),
        *("kubernetes.io/arch", "kubernetes.io/os", names.PREEMPTIBILITY_LABEL),
    }
)
#: Annotations that decisions read; no other comes along.
ANNOTATIONS: Final = frozenset(
    {
        *(names.POD_GROUP_ANNOTATION, names.GPU_FRACTION, names.GPU_MEMORY, names.GPU_FRACTION_NUM_DEVICES),
        *(names.GPU_FRACTION_CONTAINER, names.RECEIVED_RESOURCE_TYPE, *names.GROUP_TIMESTAMPS),
        *(names.NUMA_OBSERVED, names.NUMA_PREDICTED, names.RESERVED_GPU),
        *(EXTENDED_CLAIM_ANNOTATION, SELECTED_NODE),
    }
)
#: Words in any place.
WORDS: Final = frozenset(
    {
        *("true", "false", *PREEMPTIBILITIES, "system-node-critical", "system-cluster-critical"),
        *(
            names.ALL_SERVICE_ACCOUNTS,
            "0.0.0.0",
            "::",
            "kubernetes.io/no-provisioner",
            names.SCHEDULER_NAME,
            names.SCALING_POD_APP,
        ),
        *("topologyManagerPolicy", "topologyManagerScope", "none", "best-effort", "restricted"),
        *("single-numa-node", "container", "pod"),
    }
)
RESOURCES: Final = frozenset(
    {"cpu", "memory", "pods", "ephemeral-storage", "storage", names.NVIDIA_GPU, names.AMD_GPU}
)
_RESOURCE_PREFIXES: Final = (names.MIG_PREFIX, "hugepages-", "attachable-volumes-")

_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?([kMGTPE]i?|[numµ])?")
_DURATION: Final = re.compile(r"-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|[smhdw]))+")
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(Z|[+-][0-9:]{5})")
_VERSION: Final = re.compile(r"v?[0-9]+(\.[0-9]+){1,2}([-+][0-9.]+)?")
_TERM: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_ZONE: Final = re.compile(r"[a-z]{0,8}-?[0-9]{1,3}")


def is_amount(text: str) -> bool:
    """Whether it is a number, a quantity, a duration, a time or a version."""
    return any(form.fullmatch(text) for form in (_NUMBER, _DURATION, _TIME, _VERSION))


def is_number(text: str) -> bool:
    """Whether it is a plain number, as labels are compared with."""
    return text.lstrip("+-").isdecimal()


def is_term(text: str) -> bool:
    """Whether it looks like a word of the API: ``NoSchedule``."""
    return _TERM.fullmatch(text) is not None


def is_zone(text: str) -> bool:
    """Whether it looks like the name of a NUMA zone, which hardware has: ``node-0``."""
    return _ZONE.fullmatch(text) is not None


def is_resource(name: str) -> bool:
    """Whether a resource is one that everybody has; ``example.com/nic`` is not."""
    return name in RESOURCES or name.startswith(_RESOURCE_PREFIXES)
