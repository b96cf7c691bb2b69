"""Settings of services that use Redis."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from kai.model.flag_values import RedisUrl
from kai.runtime.settings import ServiceSettings
from kai.session.credentials import RedisCredentials


class RedisSettings(ServiceSettings):
    """Where Redis is, and how to talk to it."""

    redis_url: RedisUrl = Field(
        "", description="redis://host:port/db, or rediss:// for TLS; empty: work without Redis"
    )
    redis_ca: str = Field(
        "", description="authority of Redis's certificate; default those that the system trusts"
    )
    redis_server_name: str = Field("", description="name in Redis's certificate; default the URL's host")
    redis_password_file: str = Field("", description="file with the password of Redis; read as it changes")

    @model_validator(mode="after")
    def _redis_is_told_once(self) -> Self:
        if self.redis_url:
            self.redis_credentials.check(self.redis_url)
        return self

    @property
    def redis_credentials(self) -> RedisCredentials:
        """What the URL does not say."""
        return RedisCredentials(
            ca=self.redis_ca, server_name=self.redis_server_name, password_file=self.redis_password_file
        )
