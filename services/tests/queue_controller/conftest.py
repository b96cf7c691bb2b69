"""Builders of queues and pod groups."""

import msgspec
import pytest

from kai.model.objects import Queue
from kai_queue_controller.tree import PodGroupRecord


def queue_json(
    name, *, parent="", status=None, resources=None, version=1, labels=None, display_name="", uid=""
):
    spec = {"displayName": display_name, "parentQueue": parent}
    if resources is not None:
        spec["resources"] = resources
    metadata = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": labels or {},
    }
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def group_json(name, *, queue="q", resources=None, namespace="team"):
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"}
    status = {"resourcesStatus": resources} if resources is not None else {}
    return {"metadata": metadata, "spec": {"queue": queue}, "status": status}


class Builders:
    queue_json = staticmethod(queue_json)

    @staticmethod
    def queue(*args, **options):
        return msgspec.convert(queue_json(*args, **options), Queue)

    @staticmethod
    def queues(*chain):
        """Queues, each below the one before."""
        parents = ["", *chain]
        return {
            name: Builders.queue(name, parent=parent) for name, parent in zip(chain, parents, strict=False)
        }

    @staticmethod
    def group(*args, **options):
        return msgspec.convert(group_json(*args, **options), PodGroupRecord)


@pytest.fixture
def build():
    return Builders
