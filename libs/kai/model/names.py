"""Every CRD, label, annotation and well-known object name, once.

These strings are contractual: users, charts and dashboards depend on them.
"""

from typing import Final

# --- API groups and versions -------------------------------------------------------------------
SCHEDULING_GROUP: Final = "scheduling.run.ai"
KAI_GROUP: Final = "kai.scheduler"
QUEUE_API_VERSION: Final = "scheduling.run.ai/v2"
POD_GROUP_API_VERSION: Final = "scheduling.run.ai/v2alpha2"
BIND_REQUEST_API_VERSION: Final = "scheduling.run.ai/v1alpha2"
TOPOLOGY_API_VERSION: Final = "kai.scheduler/v1alpha1"
CONFIG_API_VERSION: Final = "kai.scheduler/v1"

# --- installation ------------------------------------------------------------------------------
SCHEDULER_NAME: Final = "kai-scheduler"
POD_GROUPER_LEASE: Final = "54dff599.kai.scheduler"
INSIGHT_LEASE: Final = "kai-insight"
#: By which processes lead, beside schedulers: by account.
LEASES: Final = {
    "insight": INSIGHT_LEASE,
    "kai-operator": "kai-operator",
    "node-scale-adjuster": "kai-node-scale-adjuster",
    "pod-grouper": POD_GROUPER_LEASE,
    "podgroup-controller": "kai-podgroup-controller",
    "queue-controller": "kai-queue-controller",
}
NAMESPACE: Final = "kai-scheduler"
RESERVATION_NAMESPACE: Final = "kai-resource-reservation"
RESERVATION_SERVICE_ACCOUNT: Final = "kai-resource-reservation"
RESERVATION_APP: Final = "kai-resource-reservation"
SCALE_ADJUST_NAMESPACE: Final = "kai-scale-adjust"
SCALING_POD_APP: Final = "scaling-pod"
SCALING_POD_SCHEDULER: Final = "kai-node-scale-adjuster"
"""Whom scaling pods wait for: no scheduler of that name exists, and none must place them."""
DEFAULT_PARENT_QUEUE: Final = "default-parent-queue"
DEFAULT_QUEUE: Final = "default-queue"
DEFAULT_SHARD: Final = "default"
DEFAULT_NODE_POOL: Final = "default"
"""What the node pool is called whose objects have no label."""
SYSTEM_NAMESPACE: Final = "kube-system"
SYSTEM_PRIORITY_PREFIX: Final = "system-"
"""Names of priority classes that Kubernetes keeps for itself begin so; nobody else can make one."""
DEFAULT_SERVICE_ACCOUNT: Final = "default"
ALL_SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
"""The group of all service accounts; with ``:<namespace>`` added, that of a namespace."""

# --- labels and annotations on pods and workloads ----------------------------------------------
QUEUE_LABEL: Final = "kai.scheduler/queue"
PROJECT_LABEL: Final = "project"
USER_KEY: Final = "user"
NODE_POOL_LABEL: Final = "kai.scheduler/node-pool"
PRIORITY_CLASS_LABEL: Final = "priorityClassName"
#: On a volume: how long what is on it is worth something once nobody writes to it any more.
RETENTION: Final = "kai.scheduler/retention"
PREEMPTIBILITY_LABEL: Final = "kai.scheduler/preemptibility"
PREEMPTION_DELAY: Final = "kai.scheduler/preemption-delay"
STALENESS_GRACE_PERIOD: Final = "kai.scheduler/staleness-grace-period"
BATCH_MIN_MEMBER: Final = "kai.scheduler/batch-min-member"
TOPOLOGY: Final = "kai.scheduler/topology"
TOPOLOGY_REQUIRED: Final = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
SEGMENT_SIZE: Final = "kai.scheduler/segment-size"
SEGMENT_TOPOLOGY_REQUIRED: Final = "kai.scheduler/segment-topology-required-placement"
SEGMENT_TOPOLOGY_PREFERRED: Final = "kai.scheduler/segment-topology-preferred-placement"
SKIP_POD_GROUPER: Final = "kai.scheduler/skip-podgrouper"
POD_GROUP_ANNOTATION: Final = "pod-group-name"
SUBGROUP_LABEL: Final = "kai.scheduler/subgroup-name"
TASK_PRIORITY_LABEL: Final = "kai.scheduler/task-priority"
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"
GPU_FRACTION_NUM_DEVICES: Final = "gpu-fraction-num-devices"
GPU_FRACTION_CONTAINER: Final = "gpu-fraction-container-name"
MPS: Final = "mps"
SHARED_GPU_CONFIGMAP: Final = "runai/shared-gpu-configmap"
RECEIVED_RESOURCE_TYPE: Final = "received-resource-type"
GPU_GROUP_LABEL: Final = "runai-gpu-group"
MULTI_GPU_GROUP_PREFIX: Final = "runai-gpu-group/"
RESERVED_GPU: Final = "run.ai/reserve_for_gpu_index"
NUMA_PREDICTED: Final = "kai.scheduler/numa-placement-predicted"
NUMA_OBSERVED: Final = "kai.scheduler/numa-placement-observed"
APP_LABEL: Final = "app"
SHARED_GPU_POD_NAME: Final = "shared-gpu-pod-name"
SHARED_GPU_POD_NAMESPACE: Final = "shared-gpu-pod-namespace"
KUBEFLOW_JOB_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
RAY_NODE_TYPE_LABEL: Final = "ray.io/node-type"

# --- on pod groups -----------------------------------------------------------------------------
TOP_OWNER_METADATA: Final = "kai.scheduler/top-owner-metadata"
STALE_TIMESTAMP: Final = "kai.scheduler/stale-podgroup-timestamp"
LAST_START_TIMESTAMP: Final = "kai.scheduler/last-start-timestamp"
LAST_EVICTION_TIMESTAMP: Final = "kai.scheduler/last-eviction-timestamp"
GROUP_TIMESTAMPS: Final = (STALE_TIMESTAMP, LAST_START_TIMESTAMP, LAST_EVICTION_TIMESTAMP)
"""What became of a group so far. Decisions go by it, so only podgroup-controller writes it."""

# --- on nodes ----------------------------------------------------------------------------------
GPU_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
AMD_VRAM_LABEL_PREFIX: Final = "beta.amd.com/gpu.vram."
GPU_PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
GPU_COUNT_LABEL: Final = "nvidia.com/gpu.count"
MIG_STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"
CPU_WORKER_LABEL: Final = "node-role.kubernetes.io/cpu-worker"
GPU_WORKER_LABEL: Final = "node-role.kubernetes.io/gpu-worker"
FAKE_GPU_LABEL: Final = "run.ai/fake.gpu"
"""``true`` on nodes whose devices are only played: no container there can ask a driver which it was given."""
MIG_WORKER_LABEL: Final = "node-role.kubernetes.io/mig-enabled"

# --- resources ---------------------------------------------------------------------------------
NVIDIA_GPU: Final = "nvidia.com/gpu"
AMD_GPU: Final = "amd.com/gpu"
MIG_PREFIX: Final = "nvidia.com/mig-"
GPU_MEMORY_RESOURCE: Final = "run.ai/gpu.memory"

# --- container environment ---------------------------------------------------------------------
NVIDIA_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
GPU_PORTION: Final = "GPU_PORTION"
RUNAI_NUM_OF_GPUS: Final = "RUNAI_NUM_OF_GPUS"
CUDA_DEVICE_MEMORY_LIMIT: Final = "CUDA_DEVICE_MEMORY_LIMIT"

# --- between our processes ---------------------------------------------------------------------
ENDPOINT_ANNOTATION: Final = "kai.scheduler/endpoint"
"""On the scheduler's Lease: ``host:port`` of the leader's gRPC server."""
EPOCH_ANNOTATION: Final = "kai.scheduler/epoch"
"""On the same Lease: the resource version of the write that won it; greater for every later leader."""
VERSION_ANNOTATION: Final = "kai.scheduler/version"
"""On the Lease of each process that leads: the release that it is of."""
RESERVATION_CLAIM_PREFIX: Final = "claim.kai.scheduler/"
"""On reservation pods, with a pod's uid added: ``<Unix seconds> <namespace>/<name> <what it holds>``."""
RESERVED_BY: Final = "kai.scheduler/reserved-by"
"""On reservation pods: the binder that made it, which is the first to look after it."""
SCALING_FOR: Final = "kai.scheduler/scaling-for"
"""On scaling pods: ``<uid> <namespace>/<name>`` of the pod that waits; labels have no room for long names."""

POD_BOUND: Final = "PodBound"
"""Condition of a pod: false after a bind that failed, with the reason, until it is bound."""
QUEUE_ACCEPTED: Final = "Accepted"
"""Condition of a queue: false while its newest version cannot be taken in; what it said before counts."""
