"""What the attacks are about, and requests for them in short."""

from e2e.accounts.acting import Request
from e2e.manifests import a_pod
from kai.kube.client import PatchKind
from kai.kube.resources import EVENTS, PODS
from kai.model import names

TENANT = "tenant"
RESERVATION = names.RESERVATION_NAMESPACE


class World:
    """Where the attacks are played; requests for them, in short."""

    def __init__(self, namespace, queue, shares, reservation, group, image):
        self.namespace, self.queue, self.group = namespace, queue, group
        self.shares, self.reservation = shares.metadata.name, reservation.metadata.name
        self.config_map = f"{shares.annotations[names.SHARED_GPU_CONFIGMAP]}-0"
        self.reservation_image = image

    def patch(self, resource, name, body, **more):
        place = self.namespace if resource.namespaced else ""
        return Request(verb="patch", resource=resource, name=name, body=body, **{"namespace": place} | more)

    def update(self, resource, name, body, **more):
        place = self.namespace if resource.namespaced else ""
        return Request(verb="update", resource=resource, name=name, body=body, **{"namespace": place} | more)

    def status(self, resource, name, body, **more):
        return self.patch(resource, name, {"status": body}, subresource="status", **more)

    def marked(self, resource, name, *, labels=None, annotations=None, **more):
        return self.patch(
            resource, name, {"metadata": {"labels": labels or {}, "annotations": annotations or {}}}, **more
        )

    def image(self, name, *, container="main", **more):
        spec = {"containers": [{"name": container, "image": "evil"}]}
        return self.patch(PODS, name, {"spec": spec}, kind=PatchKind.STRATEGIC, **more)

    def create(self, resource, body, **more):
        place = self.namespace if resource.namespaced else ""
        return Request(verb="create", resource=resource, body=body, **{"namespace": place} | more)

    def delete(self, resource, name, **more):
        place = self.namespace if resource.namespaced else ""
        return Request(verb="delete", resource=resource, name=name, **{"namespace": place} | more)

    def event(self, controller):
        body = {
            "metadata": {"name": "told", "namespace": self.namespace},
            "eventTime": "2030-01-01T00:00:00.000000Z",
            "reportingController": controller,
            "reportingInstance": "x",
            "action": "Killing",
            "reason": "Killing",
            "type": "Normal",
            "regarding": {"kind": "Pod", "namespace": self.namespace, "name": "own"},
        }
        return self.create(EVENTS, body)

    def reserving(self, *, container=None, spec=None, metadata=None, namespace=RESERVATION):
        """A reservation pod as the binder makes it, but for what is said."""
        body = {
            "metadata": {
                "name": "gpu-reservation-evil",
                "labels": {"app": names.RESERVATION_APP},
                **(metadata or {}),
            },
            "spec": {
                "serviceAccountName": names.RESERVATION_SERVICE_ACCOUNT,
                "containers": [
                    {"name": "resource-reservation", "image": self.reservation_image, **(container or {})}
                ],
                **(spec or {}),
            },
        }
        return self.create(PODS, body, namespace=namespace)

    def scaling(self, *, container=None, spec=None, metadata=None, namespace=names.SCALE_ADJUST_NAMESPACE):
        """A scaling pod as the node-scale-adjuster makes it, but for what is said."""
        args = ["python", "-m", "kai_scaling_pod"]
        body = {
            "metadata": {"name": "evil", "labels": {"app": names.SCALING_POD_APP}, **(metadata or {})},
            "spec": {
                "schedulerName": names.SCALING_POD_SCHEDULER,
                "serviceAccountName": names.SCALE_ADJUST_NAMESPACE,
                "automountServiceAccountToken": False,
                "containers": [
                    {"name": "main", "image": self.reservation_image, "args": args, **(container or {})}
                ],
                **(spec or {}),
            },
        }
        return self.create(PODS, body, namespace=namespace)


def foreign(namespace):
    pod = a_pod("foreign", namespace, "none")
    pod["spec"]["schedulerName"] = "default-scheduler"
    return pod


def a_volume(name):
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "other",
        "hostPath": {"path": "/data"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def a_lease(name):
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 3600}}


def binding(w, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "waits", "namespace": w.namespace, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
    }
