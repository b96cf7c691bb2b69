"""What a request asks for: user, target and options, apart from HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_local.apiserver.errors import Obj
from kai_local.apiserver.kinds.catalogue import Resource, Version


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def info(self) -> Obj:
        """The user as reviews and admission requests describe it."""
        info: Obj = {"username": self.name, "groups": list(self.groups)}
        if self.uid:
            info["uid"] = self.uid
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra.items()}
        return info


@dataclass(slots=True)
class Target:
    """What a path points at: a collection, an object, or a subresource of it."""

    resource: Resource
    version: Version
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` in which this request speaks."""
        return self.resource.api_version(self.version.name)


@dataclass(slots=True)
class WriteOptions:
    """How to write. Warnings collect here and go into the answer's headers."""

    user: User
    dry_run: bool = False
    manager: str = ""
    strictness: str = "Warn"
    force: bool = False
    #: Bytes of the request; one that is large is worked on in a thread.
    size: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class DeleteOptions:
    """``metav1.DeleteOptions``, with None where nothing was said."""

    grace_seconds: int | None = None
    propagation: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False
