"""What to tell the API server about our webhooks: which objects it shall ask about, and whom."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kai.model import names
from kai.model.objects import Json
from kai.validation import pods as pod_rules

MUTATE_POD: Final = "/mutate--v1-pod"
VALIDATE_POD: Final = "/validate--v1-pod"
VALIDATE_TOPOLOGY: Final = "/validate-kai-scheduler-v1alpha1-topology"
VALIDATE_QUEUE: Final = "/validate-scheduling-run-ai-v2-queue"
WARN: Final = "/warn"
VALIDATE_POD_GROUP: Final = "/validate-scheduling-run-ai-v2alpha2-podgroup"

#: The subresource by which containers are added to a pod that runs.
EPHEMERAL_CONTAINERS: Final = "ephemeralcontainers"

ADMISSION: Final = "admission"
QUEUE_CONTROLLER: Final = "queue-controller"
POD_GROUP_CONTROLLER: Final = "podgroup-controller"

#: What a pod group must say for its webhook to find anything.
_POD_GROUP_SAYS: Final = (
    "has(object.spec) && ("
    "(has(object.spec.subGroups) && size(object.spec.subGroups) > 0) || has(object.spec.minSubGroup)"
    " || has(object.spec.preemptionDelay) || has(object.spec.stalenessGracePeriod))"
)

#: How a webhook is asked whose word nobody waits for.
_WITHOUT_OWNER: Final = "!has(object.metadata.ownerReferences) || size(object.metadata.ownerReferences) == 0"
_MADE_BY_HAND: Final[Json] = {"name": "made-by-hand", "expression": _WITHOUT_OWNER}
#: A pod group that a controller made may be given another queue or priority by hand.
_WRITTEN_BY_HAND: Final[Json] = {
    "name": "written-by-hand",
    "expression": (
        f"{_WITHOUT_OWNER} || (request.kind.kind == 'PodGroup' && oldObject != null && has(object.spec)"
        " && has(oldObject.spec) && object.spec != oldObject.spec)"
    ),
}
_ADVISORY: Final[Json] = {"failurePolicy": "Ignore", "timeoutSeconds": 2}

#: ``clientConfig`` of a service's path: where it is, and the authorities to check it by.
ClientConfig = Callable[[str, str], Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodScope:
    """Which pods we are asked about. All conditions must hold."""

    namespace: str = names.NAMESPACE
    scheduler_name: str = names.SCHEDULER_NAME
    queue_label_key: str = names.QUEUE_LABEL
    #: Only namespaces that have the queue label.
    queue_label_selector: bool = False
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    #: Also pods that say nothing of what we complete or check: where something concerns them all.
    all_pods: bool = False

    def added_containers(self) -> list[Json]:
        """The rule for ephemeral containers, of which devices alone are of interest."""
        rule = _rule("", "v1", f"pods/{EPHEMERAL_CONTAINERS}", "Namespaced")
        return [{**rule, "operations": ["UPDATE"]}] if self.all_pods else []

    def selectors(self) -> Json:
        """As fields of a webhook. Our own namespace is left out: a webhook cannot admit itself."""
        excluded = ["kube-system", self.namespace]
        expressions: list[Json] = [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}
        ]
        if self.queue_label_selector:
            expressions.append({"key": self.queue_label_key, "operator": "Exists"})
        namespaces: Json = {"matchExpressions": expressions}
        if self.namespace_labels:
            namespaces["matchLabels"] = dict(self.namespace_labels)
        selectors: Json = {
            "namespaceSelector": namespaces,
            "matchConditions": [
                {
                    "name": "scheduler-name-match",
                    "expression": f"object.spec.schedulerName == '{self.scheduler_name}'",
                },
                # The API server knows by itself that most pods are in order, and need not ask.
                *([] if self.all_pods else [{"name": "says-something", "expression": _says_something()}]),
            ],
        }
        if self.pod_labels:
            selectors["objectSelector"] = {"matchLabels": dict(self.pod_labels)}
        return selectors


def webhook_configurations(
    client_config: ClientConfig, scope: PodScope | None = None, *, refuse_queue_deletion: bool = False
) -> list[Json]:
    """All webhook configuration objects of an installation."""
    scope = scope or PodScope()
    return [
        *of_admission(client_config, scope),
        of_queues(client_config, refuse_deletion=refuse_queue_deletion),
        of_pod_groups(client_config),
        of_warnings(client_config, scope),
    ]


def of_admission(client_config: ClientConfig, scope: PodScope) -> tuple[Json, Json]:
    """Who completes pods, and who checks pods and topologies."""
    service = f"{ADMISSION}.{scope.namespace}.svc"
    pods = _rule("", "v1", "pods", "Namespaced")
    topologies = _rule(names.KAI_GROUP, "v1alpha1", "topologies", "Cluster")
    added = scope.added_containers()
    mutate = _webhook(
        service, client_config(ADMISSION, MUTATE_POD), {**pods, "operations": ["CREATE"]}, *added
    )
    return (
        _configuration(
            "Mutating",
            "mutating-kai-admission",
            {**mutate, **scope.selectors(), "reinvocationPolicy": "IfNeeded"},
        ),
        _configuration(
            "Validating",
            "validating-kai-admission",
            {**_webhook(service, client_config(ADMISSION, VALIDATE_POD), pods, *added), **scope.selectors()},
            _webhook(f"topology.{service}", client_config(ADMISSION, VALIDATE_TOPOLOGY), topologies),
        ),
    )


def of_queues(client_config: ClientConfig, *, refuse_deletion: bool = False) -> Json:
    """Who checks queues.

    Who only warns holds up nobody by its absence: a queue can be deleted while its controller is away, unless
    deletion is to be refused.
    """
    queues = _rule(names.SCHEDULING_GROUP, "v2", "queues", "Cluster")
    here = client_config(QUEUE_CONTROLLER, VALIDATE_QUEUE)
    return _configuration(
        "Validating",
        "kai-queue-validation-v2",
        _webhook("queue-validation.kai.scheduler", here, queues),
        _webhook(
            "queue-deletion.kai.scheduler",
            here,
            {**queues, "operations": ["DELETE"]},
            **({} if refuse_deletion else _ADVISORY),
        ),
    )


def of_pod_groups(client_config: ClientConfig) -> Json:
    """Who checks pod groups."""
    pod_groups = _rule(names.SCHEDULING_GROUP, "v2alpha2", "podgroups", "Namespaced")
    here = client_config(POD_GROUP_CONTROLLER, VALIDATE_POD_GROUP)
    return _configuration(
        "Validating",
        "kai-podgroup-validation-v2alpha2",
        {
            **_webhook("podgroup-validation.kai.scheduler", here, pod_groups),
            "matchConditions": [{"name": "says-something", "expression": _POD_GROUP_SAYS}],
        },
    )


def _says_something() -> str:
    """Whether a pod has an annotation that we read, or had one until this change."""
    keys = ", ".join(map(repr, pod_rules.ANNOTATIONS))
    return (
        "[object, oldObject].exists(pod, pod != null && has(pod.metadata.annotations) && "
        f"[{keys}].exists(key, key in pod.metadata.annotations))"
    )


def of_warnings(client_config: ClientConfig, scope: PodScope) -> Json:
    """Who tells users of slips, and that they may not use a queue: asked about what they make themselves.

    It is not missed while it is away: what it refuses gets no place from the scheduler either.
    """
    here = client_config(ADMISSION, WARN)
    workloads = [
        {**_rule("", "v1", "pods", "Namespaced"), "operations": ["CREATE"]},
        {
            **_rule("apps", "v1", "deployments", "Namespaced"),
            "resources": ["deployments", "statefulsets", "daemonsets", "replicasets"],
        },
        {**_rule("batch", "v1", "jobs", "Namespaced"), "resources": ["jobs", "cronjobs"]},
    ]
    ours = [
        _rule(names.SCHEDULING_GROUP, "v2alpha2", "podgroups", "Namespaced"),
        _rule(names.SCHEDULING_GROUP, "v2", "queues", "Cluster"),
        _rule(names.KAI_GROUP, "v1alpha1", "topologies", "Cluster"),
    ]
    for_us = {"name": "meant-for-us", "expression": _meant_for_us(scope)}
    selectors = {**scope.selectors(), "matchConditions": [_MADE_BY_HAND, for_us]}
    return _configuration(
        "Validating",
        "kai-warnings",
        {**_webhook("workloads.kai.scheduler", here, *workloads, **_ADVISORY), **selectors},
        {
            **_webhook("objects.kai.scheduler", here, *ours, **_ADVISORY),
            "matchConditions": [_WRITTEN_BY_HAND],
        },
    )


def _meant_for_us(scope: PodScope) -> str:
    """Whether a workload names our scheduler, something like it, or a queue."""
    return (
        "(request.kind.kind == 'Pod' ? [object.spec]"
        " : request.kind.kind == 'CronJob' ? [object.spec.jobTemplate.spec.template.spec]"
        " : [object.spec.template.spec])"
        f".exists(spec, has(spec.schedulerName) && (spec.schedulerName == '{scope.scheduler_name}'"
        " || spec.schedulerName.lowerAscii().matches('kai|^k[a-z]{0,3}[^a-z]?sch')))"
        f" || (has(object.metadata.labels) && '{scope.queue_label_key}' in object.metadata.labels)"
    )


def _rule(group: str, version: str, plural: str, scope: str) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [plural],
        "operations": ["CREATE", "UPDATE"],
        "scope": scope,
    }


def _webhook(name: str, client_config: Json, *rules: Json, **differing: Any) -> Json:
    return {
        "name": name,
        "clientConfig": client_config,
        "rules": list(rules),
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **differing,
    }


def _configuration(kind: str, name: str, *webhooks: Json) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }
