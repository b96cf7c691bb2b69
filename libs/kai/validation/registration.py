"""What to tell the API server about our webhooks: which objects it shall ask about, and whom."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kai.model import limits, names
from kai.model.objects import Json
from kai.model.plurals import plural
from kai.model.rules.priorities import SEMI_PREEMPTIBLE
from kai.validation import granted
from kai.validation import pods as pod_rules
from kai.workloads.making import OF_OPERATORS

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

#: What a pod group must say for its webhook to find anything, or have been: its minimum may not grow.
_POD_GROUP_SAYS: Final = (
    "has(object.spec) && ("
    "(has(object.spec.subGroups) && size(object.spec.subGroups) > 0) || has(object.spec.minSubGroup)"
    " || has(object.spec.preemptionDelay) || has(object.spec.stalenessGracePeriod)"
    " || (oldObject != null && has(oldObject.spec) && has(oldObject.spec.preemptibility)"
    f" && oldObject.spec.preemptibility == '{SEMI_PREEMPTIBLE}' && object.spec != oldObject.spec))"
)

#: What a pod must say for its bounds to be looked at, however much it is.
_LOOKED_AT: Final = (
    *(f"has(object.spec.{at})" for at in ("affinity", "topologySpreadConstraints", "overhead", "resources")),
    (
        "has(object.metadata.annotations)"
        f" && object.metadata.annotations.exists(key, key.startsWith('{names.MIG_PREFIX}'))"
    ),
    f"has(object.metadata.labels) && '{names.TASK_PRIORITY_LABEL}' in object.metadata.labels",
)
#: Four containers and four init containers with eight amounts each name 64 resources at most, and none of
#: the sums of amounts of five digits is beyond its bounds.
_MUCH_ASKED: Final = (
    "[object.spec.containers, has(object.spec.initContainers) ? object.spec.initContainers : []]"
    ".exists(several, size(several) > 4 || several.exists(one, has(one.resources)"
    " && ((has(one.resources.requests) ? [one.resources.requests] : [])"
    " + (has(one.resources.limits) ? [one.resources.limits] : []))"
    ".exists(asked, size(asked) > 4"
    " || asked.exists(name, !string(asked[name]).matches(name in ['memory', 'ephemeral-storage']"
    " ? '^[0-9]{1,5}(Mi|Gi|M|G)$' : '^[0-9]{1,5}m?$')))))"
)

#: Config maps are named by volumes and by variables of containers: each half of what a pod may name.
_OF_VOLUMES: Final = limits.CONFIG_MAPS.most // 2
#: Of eight containers none lists more than its part of ports of the host and of config maps.
_MUCH_LISTED: Final = (
    "[object.spec.containers, has(object.spec.initContainers) ? object.spec.initContainers : []]"
    ".exists(several, several.exists(one,"
    f" has(one.ports) && size(one.ports) > {limits.HOST_PORTS.most // 8}"
    f" || has(one.env) && size(one.env) > {_OF_VOLUMES // 8 - 16}"
    " || has(one.envFrom) && size(one.envFrom) > 16))"
)

#: Of a pod with more labels we are asked without looking at them.
_LABELS_LOOKED_AT: Final = 1_000
#: Labels, finalizers and the like are nobody's business who looks at the spec only: that they can be written
#: depends on nobody.
_CHANGES_SPEC: Final[Json] = {
    "name": "changes-spec",
    "expression": (
        "oldObject == null || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"
    ),
}

#: What users say, of an object whose status and the like its operator writes.
_CHANGES_WORDS: Final[Json] = {
    "name": "changes-words",
    "expression": " || ".join(
        (
            "oldObject == null",
            *(
                f"(has(object.{at}) ? dyn(object.{at}) : dyn(null))"
                f" != (has(oldObject.{at}) ? dyn(oldObject.{at}) : dyn(null))"
                for at in ("spec", "metadata.labels", "metadata.annotations")
            ),
        )
    ),
}

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
        return self._selectors(*self._says_something())

    def selectors_of_changed(self) -> Json:
        """The same, but of a pod that exists only for changes of what the rules go by.

        Whatever else is written on it goes on while we are away: the binder's labels, and finalizers.
        """
        changed: Json = {"name": "changes-what-counts", "expression": _changes_what_counts()}
        return self._selectors(*self._says_something(), changed)

    def _says_something(self) -> list[Json]:
        # The API server knows by itself that most pods are in order, and need not ask.
        return [] if self.all_pods else [{"name": "says-something", "expression": _says_something()}]

    def selectors_of_large(self) -> Json:
        """The same for pods that may be beyond their bounds, and that we are not asked about otherwise."""
        return self._selectors(
            {"name": "says-nothing", "expression": f"!({_says_something()})"},
            {"name": "may-be-beyond-bounds", "expression": _may_be_beyond_bounds()},
        )

    def _selectors(self, *conditions: Json) -> Json:
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
                *conditions,
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
    check_pod = client_config(ADMISSION, VALIDATE_POD)
    pods = _rule("", "v1", "pods", "Namespaced")
    topologies = _rule(names.KAI_GROUP, "v1alpha1", "topologies", "Cluster")
    added = scope.added_containers()
    mutate = _webhook(
        service, client_config(ADMISSION, MUTATE_POD), {**pods, "operations": ["CREATE"]}, *added
    )
    # It is not missed while it is away: what it refuses the scheduler does not take in either.
    large = {
        **_webhook(f"bounds.{service}", check_pod, {**pods, "operations": ["CREATE"]}, **_ADVISORY),
        **scope.selectors_of_large(),
    }
    return (
        _configuration(
            "Mutating",
            "mutating-kai-admission",
            {**mutate, **scope.selectors(), "reinvocationPolicy": "IfNeeded"},
        ),
        _configuration(
            "Validating",
            "validating-kai-admission",
            {**_webhook(service, check_pod, pods, *added), **scope.selectors_of_changed()},
            *([] if scope.all_pods else [large]),
            {
                **_webhook(f"topology.{service}", client_config(ADMISSION, VALIDATE_TOPOLOGY), topologies),
                "matchConditions": [_CHANGES_SPEC],
            },
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
        {
            **_webhook("queue-validation.kai.scheduler", here, queues),
            "matchConditions": [_CHANGES_SPEC],
        },
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
            "matchConditions": [{"name": "says-something", "expression": _POD_GROUP_SAYS}, _CHANGES_SPEC],
        },
    )


def _says_something() -> str:
    """Whether a pod has an annotation that we read, or had one until this change."""
    keys = ", ".join(map(repr, pod_rules.ANNOTATIONS))
    return (
        "[object, oldObject].exists(pod, pod != null && has(pod.metadata.annotations) && "
        f"[{keys}].exists(key, key in pod.metadata.annotations))"
    )


def _changes_what_counts() -> str:
    """Whether a pod is new, or a change touches what the rules go by.

    These are what it asks for and was granted, its containers, and on a node which devices it shares.
    """
    keys = sorted({*pod_rules.ANNOTATIONS, *granted.ANNOTATIONS, names.GPU_FRACTION_CONTAINER})
    said, said_before = (
        f"(has({pod}.metadata.annotations) && key in {pod}.metadata.annotations"
        f" ? [{pod}.metadata.annotations[key]] : [])"
        for pod in ("object", "oldObject")
    )
    labels, labels_before = (
        f"(has({pod}.metadata.labels) ? dyn({pod}.metadata.labels) : dyn({{}}))"
        for pod in ("object", "oldObject")
    )
    is_group = f"(key == '{names.GPU_GROUP_LABEL}' || key.startsWith('{names.MULTI_GPU_GROUP_PREFIX}'))"
    return " || ".join(
        (
            "oldObject == null",
            f"[{', '.join(map(repr, keys))}].exists(key, {said} != {said_before})",
            "object.spec.containers != oldObject.spec.containers",
            *(
                f"(has(object.spec.{at}) ? object.spec.{at} : [])"
                f" != (has(oldObject.spec.{at}) ? oldObject.spec.{at} : [])"
                for at in ("initContainers", "ephemeralContainers")
            ),
            (
                # Of very many the API server would rather refuse the change than look at them all.
                "has(oldObject.spec.nodeName) && ("
                f"size({labels}) > {_LABELS_LOOKED_AT} || size({labels_before}) > {_LABELS_LOOKED_AT}"
                f" || {labels}.exists(key, {is_group}"
                f" && !(key in {labels_before} && {labels_before}[key] == {labels}[key]))"
                f" || {labels_before}.exists(key, {is_group} && !(key in {labels})))"
            ),
        )
    )


def _may_be_beyond_bounds() -> str:
    """Whether a pod is not plainly within its bounds: there are few that the API server need ask about."""
    counted = {
        "metadata.labels": limits.GPU_GROUPS.most,
        "spec.nodeSelector": limits.SELECTOR.most,
        "spec.tolerations": limits.TOLERATIONS.most,
        "spec.volumes": min(limits.VOLUMES.most, _OF_VOLUMES),
        "spec.resourceClaims": limits.POD_CLAIMS.most,
    }
    beyond = [f"has(object.{at}) && size(object.{at}) > {most}" for at, most in counted.items()]
    return " || ".join((*beyond, *_LOOKED_AT, _MUCH_ASKED, _MUCH_LISTED))


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
    # Where these keep their pods is for their rules to know, so that all are looked at when they change.
    selectors_of_operators = {**scope.selectors(), "matchConditions": [_MADE_BY_HAND, _CHANGES_WORDS]}
    return _configuration(
        "Validating",
        "kai-warnings",
        {**_webhook("workloads.kai.scheduler", here, *workloads, **_ADVISORY), **selectors},
        {
            **_webhook("operators.kai.scheduler", here, *_of_operators(), **_ADVISORY),
            **selectors_of_operators,
        },
        {
            **_webhook("objects.kai.scheduler", here, *ours, **_ADVISORY),
            "matchConditions": [_WRITTEN_BY_HAND],
        },
    )


def _of_operators() -> Iterator[Json]:
    """The kinds of which operators make pods, in all their versions; of those not installed nobody asks."""
    kinds: defaultdict[str, list[str]] = defaultdict(list)
    for group, kind in sorted(OF_OPERATORS):
        kinds[group].append(plural(kind))
    for group, plurals in kinds.items():
        yield {**_rule(group, "*", plurals[0], "Namespaced"), "resources": plurals}


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
