"""What the reservation program is told: who it is, by the downward API."""

from __future__ import annotations

import os

from pydantic import Field

from kai.runtime import ServiceSettings, SettingsError


class ReservationSettings(ServiceSettings):
    """Settings of the program inside a reservation pod."""

    pod_name: str = Field(default_factory=lambda: os.environ.get("POD_NAME", ""), description="our pod")
    pod_namespace: str = Field(
        default_factory=lambda: os.environ.get("POD_NAMESPACE", ""), description="its namespace"
    )

    def require_identity(self) -> None:
        """Refuse to run without an identity.

        Raises:
            SettingsError: POD_NAME or POD_NAMESPACE is missing.
        """
        for variable, value in (("POD_NAME", self.pod_name), ("POD_NAMESPACE", self.pod_namespace)):
            if not value:
                raise SettingsError(
                    f"{variable} is not set; the pod's manifest must give it by the downward API"
                )
