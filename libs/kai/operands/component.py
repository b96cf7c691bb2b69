"""A process of an installation: its account, Deployment, budget for disruptions, and autoscaler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kai.operands import placement, redis_access, security
from kai.operands.facts import AUTOSCALER
from kai.operands.manifests import (
    COMPONENT_LABEL,
    Installation,
    Manifest,
    an_object,
    labels,
    without_empty,
    yes,
)
from kai.operands.spec.flags import grace_seconds
from kai.operands.spec.pods import AutoscalingSpec, ClientSpec, ServiceSpec

#: Where the secrets of webhooks are mounted.
SERVING_CERTIFICATES: Final = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 (where the field mounts it)
GRPC_CERTIFICATES: Final = "/etc/kai/tls"
_CONFIG: Final = "/etc/config"
#: Where a component finds the volume of its own.
DATA: Final = "/data"
_READABLE: Final = 0o444


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One process, of which there may be several replicas.

    ``flags`` are its own, those of ``service.extra_args`` and ``last_flags`` come after them and win.
    """

    name: str
    module: str
    service: ServiceSpec
    replicas: int
    autoscaling: AutoscalingSpec
    flags: tuple[str, ...]
    last_flags: Mapping[str, str] = field(default_factory=dict)
    #: Port name -> number.
    ports: Mapping[str, int]
    #: Name of the port with /healthz and /readyz.
    probe: str
    #: Name of the service account; that of the component if empty.
    account: str = ""
    #: Folder -> secret that is mounted there.
    secrets: Mapping[str, str] = field(default_factory=dict)
    #: ConfigMap that is mounted, and what changes with it.
    config_map: str = ""
    checksum: str = ""
    redis: bool = False
    #: Source of a volume for files that it writes, of which there is one user at a time.
    data: Manifest | None = None
    #: Variables of its own.
    environment: tuple[Manifest, ...] = ()
    #: Which of our components it is, where several have one.
    kind: str = ""
    client: ClientSpec | None = None

    @property
    def account_name(self) -> str:
        """The service account that it acts by."""
        return self.account or self.name

    @property
    def pod_labels(self) -> dict[str, str]:
        """Labels of its pods."""
        return labels(self.name, **({COMPONENT_LABEL: self.kind} if self.kind else {}))


def objects_of(component: Component, installation: Installation) -> list[Manifest]:
    """Everything but its account and its Services."""
    objects = [deployment(component, installation)]
    budget = component.service.pod_disruption_budget
    if budget.enabled and component.replicas > 1:
        objects.append(_budget(component, installation, budget.max_unavailable))
    if component.autoscaling.enabled and AUTOSCALER in installation.facts.served:
        objects.append(_autoscaler(component, installation))
    return objects


def account(name: str, installation: Installation, *, namespace: str = "", app: str = "") -> Manifest:
    """A service account."""
    secrets = without_empty(imagePullSecrets=placement.pull_secrets(installation.config.everywhere))
    return an_object(
        "v1", "ServiceAccount", name, app=app, namespace=namespace or installation.namespace, **secrets
    )


def service(
    name: str, installation: Installation, ports: Mapping[str, tuple[int, str]], *, app: str = ""
) -> Manifest:
    """A Service: port name -> its number, and the name of the container's port that it leads to."""
    listed = [
        {"name": port, "port": number, "targetPort": target, "protocol": "TCP"}
        for port, (number, target) in ports.items()
    ]
    spec = {"selector": {"app": app or name}, "ports": listed}
    return an_object("v1", "Service", name, app=app, namespace=installation.namespace, spec=spec)


def tls_flags(installation: Installation) -> tuple[str, ...]:
    """Flags for TLS between our processes."""
    if not installation.config.everywhere.tls.enabled:
        return ()
    folder = GRPC_CERTIFICATES
    return f"--tls-ca={folder}/ca.crt", f"--tls-cert={folder}/tls.crt", f"--tls-key={folder}/tls.key"


# --- Deployment --------------------------------------------------------------------------------
def deployment(component: Component, installation: Installation) -> Manifest:
    """The Deployment of a component."""
    pod = _pod(component, installation)
    template: Manifest = {"metadata": {"labels": component.pod_labels}, "spec": pod}
    if component.checksum:
        template["metadata"]["annotations"] = {"checksum/config": component.checksum}
    spec = {
        "replicas": component.replicas,
        "selector": {"matchLabels": {"app": component.name}},
        "strategy": _strategy(component, pod["affinity"]),
        "template": template,
    }
    return an_object("apps/v1", "Deployment", component.name, namespace=installation.namespace, spec=spec)


def _strategy(component: Component, affinity: Manifest) -> Manifest:
    """Two generations may overlap: leaders are fenced, the rest is harmless to do twice.

    Not so where they had to share a volume. And where pods have to be apart there may be no node for one
    more, before one has gone.
    """
    if component.data is not None:
        return {"type": "Recreate"}
    surge, unavailable = (0, 1) if placement.must_be_apart(affinity) else (1, 0)
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def _pod(component: Component, installation: Installation) -> Manifest:
    everywhere = installation.config.everywhere
    volumes = _volumes(component, installation)
    context = security.of_pod(installation)
    if component.data is not None and "runAsGroup" in context:
        context.setdefault("fsGroup", context["runAsGroup"])
    return {
        "serviceAccountName": component.account_name,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds(
            {**component.service.extra_args, **component.last_flags}
        ),
        "securityContext": context,
        "affinity": placement.affinity(
            component.name, component.service.affinity, everywhere, replicas=component.replicas
        ),
        **placement.of_deployment(everywhere),
        "containers": [_container(component, installation, list(volumes))],
        "volumes": list(volumes.values()),
    }


def _container(component: Component, installation: Installation, mounted: list[tuple[str, str]]) -> Manifest:
    mounts = [_mount(name, path) for name, path in mounted]
    redis = redis_access.environment(installation.config.redis) if component.redis else []
    return {
        "name": component.name,
        "image": installation.image(component.service.image),
        "imagePullPolicy": component.service.image.pull_policy,
        "command": ["python", "-m", component.module],
        "args": _flags(component, installation),
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            *redis,
            *component.environment,
        ],
        "ports": [
            {"name": name, "containerPort": number, "protocol": "TCP"}
            for name, number in component.ports.items()
        ],
        **probes(component.probe),
        **without_empty(resources=component.service.resources.manifest()),
        "securityContext": security.of_container(installation),
        "volumeMounts": mounts,
    }


def _flags(component: Component, installation: Installation) -> list[str]:
    everywhere = installation.config.everywhere
    client = component.client or component.service.k8s_client_config
    return [
        f"--namespace={installation.namespace}",
        f"--scheduler-name={everywhere.scheduler_name}",
        f"--log-json={yes(everywhere.json_log)}",
        *(["--leader-elect"] if component.replicas > 1 else []),
        *(f"--{flag}={said}" for flag, said in (("qps", client.qps), ("burst", client.burst)) if said),
        *component.flags,
        *(redis_access.flags(installation.config) if component.redis else []),
        *_more(component.service.extra_args),
        *_more(component.last_flags),
    ]


def _more(given: Mapping[str, str]) -> list[str]:
    return [f"--{flag}={said}" for flag, said in sorted(given.items())]


def probes(port: str) -> Manifest:
    """Probes of a container at this port. The first start may have to wait for the API server."""
    alive = {"path": "/healthz", "port": port}
    return {
        "startupProbe": {"httpGet": alive, "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {"httpGet": alive, "periodSeconds": 20, "timeoutSeconds": 5},
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": port},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
    }


# --- volumes -----------------------------------------------------------------------------------
def _volumes(component: Component, installation: Installation) -> dict[tuple[str, str], Manifest]:
    """(Name, folder) -> volume."""
    volumes: dict[tuple[str, str], Manifest] = {("tmp", "/tmp"): {"name": "tmp", "emptyDir": {}}}  # noqa: S108
    for folder, secret in sorted(component.secrets.items()):
        volumes[secret, folder] = secret_volume(secret)
    if component.redis:
        volumes |= redis_access.volumes(installation.config)
    if component.data is not None:
        volumes["data", DATA] = {"name": "data", **component.data}
    if component.config_map:
        volumes["config", _CONFIG] = {"name": "config", "configMap": {"name": component.config_map}}
    return volumes


def secret_volume(secret: str) -> Manifest:
    """A secret as files that our user may read."""
    return {"name": secret, "secret": {"secretName": secret, "defaultMode": _READABLE}}


def _mount(name: str, folder: str) -> Manifest:
    mount: Manifest = {"name": name, "mountPath": folder}
    return mount if name in ("tmp", "data") else {**mount, "readOnly": True}


# --- beside it ---------------------------------------------------------------------------------
def _budget(component: Component, installation: Installation, max_unavailable: int) -> Manifest:
    spec = {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": component.name}}}
    return an_object(
        "policy/v1", "PodDisruptionBudget", component.name, namespace=installation.namespace, spec=spec
    )


def _autoscaler(component: Component, installation: Installation) -> Manifest:
    wanted = component.autoscaling
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": component.name},
        "updatePolicy": {"updateMode": "InPlaceOrRecreate", **wanted.update_policy},
        **without_empty(resourcePolicy=dict(wanted.resource_policy)),
    }
    return an_object(
        "autoscaling.k8s.io/v1",
        "VerticalPodAutoscaler",
        component.name,
        namespace=installation.namespace,
        spec=spec,
    )
