"""What the exporter can be told. Names and defaults of flags are those that users know."""

from __future__ import annotations

import os
from typing import ClassVar

from pydantic import Field

from kai.runtime import Duration, ServiceSettings, SettingsError


class NumaPlacementExporterSettings(ServiceSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    flag_names: ClassVar[dict[str, str]] = {"podresources-socket": "pod_resources_socket"}

    node_name: str = Field(
        default_factory=lambda: os.environ.get("NODE_NAME", ""),
        description="our node; default NODE_NAME, which the downward API gives",
    )
    pod_resources_socket: str = Field(
        "/var/lib/kubelet/pod-resources/kubelet.sock", description="where the kubelet answers"
    )
    sysfs_root: str = Field("/sys", description="where the node's /sys is")
    poll_interval: Duration = Field(1.0, gt=0, description="time between two questions to the kubelet")
    drift_resync_interval: Duration = Field(
        60.0, ge=0, description="time between two looks at what pods say; 0: only at the start"
    )

    def check(self) -> None:
        """Refuse to run for no node.

        Raises:
            SettingsError: there is no node name.
        """
        if not self.node_name:
            raise SettingsError(
                "--node-name is not set; give it, or NODE_NAME by the downward API (spec.nodeName)"
            )
