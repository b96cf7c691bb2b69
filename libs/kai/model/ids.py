"""Identifiers that are all text, told apart by type: one cannot stand where another is meant.

Whoever reads one from outside says which it is; inside they cost what text costs.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NewType
from uuid import UUID

#: Of a pod, by the API server; a pod of the same name that follows has another.
PodUid = NewType("PodUid", str)
#: No pods.
NOBODY: Final[frozenset[PodUid]] = frozenset()
#: ``namespace/name`` of a pod group; empty where there is none. Within the engine it is a job.
PodGroupKey = NewType("PodGroupKey", str)
#: No pod group.
NO_POD_GROUP: Final = PodGroupKey("")
#: Of a device that pods share, as their labels name it.
GpuGroup = NewType("GpuGroup", str)


def derived_uuid(text: str) -> UUID:
    """A UUID that follows from a text: always the same for the same one, by SHA-256.

    It looks like one of version 5, which would be made with SHA-1.
    """
    return UUID(bytes=sha256(text.encode()).digest()[:16], version=5)
