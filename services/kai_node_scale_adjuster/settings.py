"""What the node-scale-adjuster can be told. Names and defaults of flags are those that users know."""

from __future__ import annotations

from decimal import Decimal

from pydantic import Field

from kai.model import names
from kai.model.objects import PullPolicy
from kai.runtime import Duration, ServiceSettings


class NodeScaleAdjusterSettings(ServiceSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    scale_adjust_namespace: str = Field(
        names.SCALE_ADJUST_NAMESPACE, min_length=1, description="of scaling pods"
    )
    scaling_pod_image: str = Field(
        "registry/local/kai-scheduler/scalingpod", min_length=1, description="image of scaling pods"
    )
    scaling_pod_image_pull_policy: PullPolicy = Field(
        "IfNotPresent", description="when the image of scaling pods is pulled"
    )
    scaling_pod_app_label: str = Field(
        names.SCALING_POD_APP, min_length=1, description="label app of scaling pods"
    )
    scaling_pod_service_account: str = Field(
        "scaling-pod", min_length=1, description="service account of scaling pods"
    )
    gpu_memory_to_fraction_ratio: Decimal = Field(
        Decimal("0.1"),
        gt=0,
        le=1,
        description="the part of a GPU that a pod is taken to need that asks for GPU memory",
    )
    cool_down: Duration = Field(
        60.0, ge=0, description="no scaling pod is made so soon after one was removed"
    )
    scale_up_patience: Duration = Field(
        900.0,
        gt=0,
        description="a scaling pod that found no node for so long holds up no other one any more",
    )
    max_waiting_per_namespace: int = Field(
        100, ge=1, description="scaling pods without a node for pods of the same namespace"
    )
    stuck_after: Duration = Field(
        60.0, gt=0, description="a scaling pod that has a node and does not end is removed after so long"
    )
