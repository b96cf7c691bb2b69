"""Variables of the environment that begin as ours do: one that nobody reads is a mistake, and is refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from kai.model import spelling

PREFIX: Final = "KAI_"

#: Settings of the services, whichever: what is meant for one is often told to all.
SETTINGS: Final = frozenset(
    """
    ADVERTISE_HOST ALLOW_CONSOLIDATING_RECLAIM BLOCK_NVIDIA_VISIBLE_DEVICES BURST CERT_DIR
    CONNECT_TIMEOUT CONTEXT COOL_DOWN CPU_WORKER_NODE_LABEL_KEY DEBOUNCE
    DEFAULT_PRIORITIES_CONFIGMAP_NAME DEFAULT_PRIORITIES_CONFIGMAP_NAMESPACE
    DEFAULT_STALENESS_GRACE_PERIOD DETAILED_FIT_ERRORS DRAIN_TIMEOUT DRIFT_RESYNC_INTERVAL
    ENABLE_PODGROUP_WEBHOOK ENABLE_PROFILER ENABLE_QUOTA_VALIDATION ENABLE_WEBHOOK EVICTION_API
    FAKE_GPU_NODES FULL_HIERARCHY_FAIRNESS GENERIC_KARTA_FALLBACK
    GPU_FRACTION_RUNTIME_CLASS_NAME GPU_MEMORY_TO_FRACTION_RATIO GPU_POD_RUNTIME_CLASS_NAME
    GPU_SHARING_ENABLED GPU_WORKER_NODE_LABEL_KEY GRPC_LISTEN HAMI_CORE_ENABLED HEALTH_LISTEN HTTP_LISTEN
    HISTORY_URL HISTORY_URL_FILE KNATIVE_GANG_SCHEDULE KUBECONFIG LEADER_ELECT LEASE_DURATION
    LEASE_RENEW_DEADLINE LEASE_RETRY_PERIOD LOG_JSON LOG_LEVEL MAX_CONCURRENT_RECONCILES
    MAX_CONSOLIDATION_PREEMPTEES MAX_WAITING_PER_NAMESPACE METRICS_LISTEN METRICS_NAMESPACE
    MIG_WORKER_NODE_LABEL_KEY MOST_WAITING NAMESPACE NAMESPACE_LABEL_SELECTOR NODEPOOL_LABEL_KEY
    NODE_NAME PARTITIONS PARTITION_LABEL_VALUE PERSIST_LAST_START PLUGINS PLUGIN_SERVER_PORT
    POD_LABEL_SELECTOR POD_NAME POD_NAMESPACE POD_RESOURCES_SOCKET POLL_INTERVAL PROFILER_PORT
    QPS QUEUE_INTERVAL QUEUE_LABEL_KEY QUEUE_LABEL_TO_DEFAULT_METRIC_VALUE
    QUEUE_LABEL_TO_METRIC_LABEL REDIS_CA REDIS_PASSWORD_FILE REDIS_SERVER_NAME REDIS_URL
    REFUSE_QUEUE_DELETION REPLAY_BYTES REPLAY_CHECK REPLAY_RETENTION
    RESOURCE_RESERVATION_ALLOCATION_TIMEOUT RESOURCE_RESERVATION_APP_LABEL
    RESOURCE_RESERVATION_CONTAINER_SECURITY_CONTEXT RESOURCE_RESERVATION_NAMESPACE
    RESOURCE_RESERVATION_POD_IMAGE RESOURCE_RESERVATION_POD_IMAGE_PULL_POLICY
    RESOURCE_RESERVATION_POD_RESOURCES
    RESOURCE_RESERVATION_POD_SECURITY_CONTEXT RESOURCE_RESERVATION_SERVICE_ACCOUNT
    RESTRICT_NODE_SCHEDULING RETENTION RUNTIME_CLASS_NAME
    SCALE_ADJUST_NAMESPACE
    SCALE_UP_PATIENCE SCALING_POD_APP_LABEL SCALING_POD_IMAGE SCALING_POD_IMAGE_PULL_POLICY
    SCALING_POD_SERVICE_ACCOUNT SCHEDULER_CONF SCHEDULER_LEASES SCHEDULER_NAME SCHEDULE_CSI_STORAGE
    SCHEDULE_PERIOD SEARCH_LEGACY_PG SNAPSHOT_PERIOD STATUS_INTERVAL STUCK_AFTER STUCK_IN_RELEASING_THRESHOLD
    SYSFS_ROOT TELL_BOUND TLS_CA TLS_CERT TLS_KEY UPDATE_POD_EVICTION_CONDITION USAGE_INTERVAL
    USAGE_RETENTION USE_SCHEDULING_SIGNATURES WAIT_FOR_CONFIG_MAPS WATCH_CLUSTER WEBHOOK_ADDR
    WEBHOOK_LISTEN WRITE_INTERVAL
    """.split()  # noqa: SIM905
)
#: What others of our programs read, each with its reader.
ELSEWHERE: Final = frozenset(
    """
    API_PORT CONFIG CRD_DIR GPUS_PER_NODE GRPC_PORT IMAGE LOCAL_IMAGE NODES REDIS_PORT USER VALIDATE WEBHOOKS
    """.split()  # noqa: SIM905
)
#: Read by the original, without effect here.
WITHOUT_EFFECT: Final = frozenset({"GOMEMLIMIT_RATIO"})
#: For tests and development.
_TESTS: Final = ("E2E_", "FUZZ_", "SOAK_", "TEST_")
#: What Kubernetes tells pods of Services whose names begin with "kai-".
_SERVICE_LINK: Final = re.compile(
    r".*_SERVICE_HOST|.*_SERVICE_PORT(_.*)?|.*_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)
_SERVICE_URL: Final = re.compile(r"(tcp|udp|sctp)://.*")


def unknown(environment: Mapping[str, str], fields: Collection[str]) -> Iterator[str]:
    """What is wrong with each variable that neither the settings ``fields`` nor anybody else reads."""
    known = {*SETTINGS, *ELSEWHERE, *WITHOUT_EFFECT, *(field.upper() for field in fields)}
    for name in sorted(environment):
        if not name.startswith(PREFIX):
            continue
        rest = name.removeprefix(PREFIX)
        if rest in known or rest.startswith(_TESTS) or _is_service_link(rest, environment[name]):
            continue
        near = spelling.nearest(rest, known)
        hint = f"did you mean {PREFIX}{near}?" if near else "unset it"
        yield f"unknown variable {name} in the environment; {hint}"


def without_effect(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that are set and that only the original reads."""
    return tuple(sorted(f"{PREFIX}{name}" for name in WITHOUT_EFFECT if f"{PREFIX}{name}" in environment))


def _is_service_link(rest: str, value: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(rest)) or (
        rest.endswith("_PORT") and bool(_SERVICE_URL.fullmatch(value))
    )
