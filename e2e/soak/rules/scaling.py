"""Scaling pods are there for somebody."""

from __future__ import annotations

from collections.abc import Iterator

from e2e.soak.frame import Breach, Frame, called
from kai.model import names


def scaling_pods_stand_for_who_waits(frame: Frame) -> Iterator[Breach]:
    """The pod that a scaling pod stands for exists and has no node; else a node would come for nobody."""
    for key, pod in frame.pods.items():
        if pod.metadata.namespace != names.SCALE_ADJUST_NAMESPACE or pod.terminating:
            continue
        uid, _, cause = pod.annotations.get(names.SCALING_FOR, "").partition(" ")
        waiting = frame.pods.get(cause)
        if waiting is None or waiting.metadata.uid != uid:
            yield Breach("scaling pod for nobody", called("Pod", key), f"{cause or 'its cause'} is gone")
        elif waiting.spec.node_name:
            message = f"{cause} is on node {waiting.spec.node_name}"
            yield Breach("scaling pod for nobody", called("Pod", key), message)
