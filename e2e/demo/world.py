"""What the demo sees of the cluster: one look, as plain lists."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from kai.model.objects import Node, Pod, PodGroup, Queue


@dataclass(frozen=True, slots=True)
class World:
    """All objects that the story speaks of, at one moment."""

    kubeconfig: str
    nodes: list[Node]
    pods: list[Pod]
    queues: list[Queue]
    pod_groups: list[PodGroup]
    #: events.k8s.io/v1 objects.
    events: list[dict[str, Any]]

    def pods_of(self, namespace: str, prefix: str = "") -> list[Pod]:
        """Pods of a namespace whose names begin so."""
        return [
            pod
            for pod in self.pods
            if pod.metadata.namespace == namespace and pod.metadata.name.startswith(prefix)
        ]

    def event_of(self, namespace: str, name: str, reason: str) -> dict[str, Any] | None:
        """An event about the object, if there is one."""
        for event in self.events:
            about = event.get("regarding", {})
            if (about.get("namespace"), about.get("name"), event.get("reason")) == (namespace, name, reason):
                return event
        return None

    def explain(self, namespace: str, name: str) -> str:
        """What `kai explain podgroup` prints."""
        answer = subprocess.run(
            [sys.executable, "-m", "kai_cli", "explain", "podgroup", name, "-n", namespace],
            env=os.environ | {"KUBECONFIG": self.kubeconfig},
            capture_output=True,
            text=True,
            check=False,
        )
        return answer.stdout + answer.stderr
