"""What the operator can be told."""

from __future__ import annotations

from pydantic import Field, field_validator

from kai.operands import read_grants
from kai.runtime import Duration, ServiceSettings


class OperatorSettings(ServiceSettings):
    """Flags, ``KAI_…`` variables or keys of the file; see :class:`kai.runtime.ServiceSettings`."""

    image_pull_secret: str = Field(
        "", description="Secret that all pods of the installation pull images with, beside those of Config"
    )
    image_repository: str = Field(
        "registry/local/kai-scheduler", description="where images are that Config does not place"
    )
    image_tag: str = Field("latest", description="tag of images that Config does not name")
    settle_time: Duration = Field(
        300.0, gt=0, description="how long a changed Secret may need to reach every process that mounts it"
    )
    grants: str = Field(
        "", description="JSON: what there are roles for; more is refused. Empty: everything is tried"
    )
    resync_period: Duration = Field(
        600.0, gt=0, description="time after which everything is compared again, though nothing changed"
    )

    @field_validator("grants")
    @classmethod
    def _readable(cls, text: str) -> str:
        if text:
            read_grants(text)
        return text
