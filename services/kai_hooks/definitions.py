"""Custom resource definitions, which helm itself never upgrades."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

from kai.kube.client import KubeClient, PatchKind
from kai.kube.resources import CRDS
from kai.model import documents

_MANAGER: Final = "kai-crd-upgrader"


class InvalidDefinition(Exception):
    """A file holds something else than a definition; the message names it."""


async def apply_definitions(client: KubeClient, folder: Path, say: Callable[[str], None]) -> None:
    """Have the definitions in a folder in force. Doing so again changes nothing.

    Raises:
        InvalidDefinition: a file cannot be read as one; then none is applied.
        KubeError: the API server refuses one, or cannot be reached.
    """
    for definition in _read_all(folder):
        name = definition["metadata"]["name"]
        await client.patch(CRDS, name, definition, kind=PatchKind.APPLY, field_manager=_MANAGER)
        say(f"customresourcedefinition {name} is up to date")


def _read_all(folder: Path) -> list[dict[str, Any]]:
    definitions = [_read(path) for path in sorted(folder.glob("*.yaml"))]
    if not definitions:
        raise InvalidDefinition(f"{folder} has no definitions: mount those of the chart there")
    return definitions


def _read(path: Path) -> dict[str, Any]:
    try:
        found = documents.load_written(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidDefinition(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict) or found.get("kind") != CRDS.kind:
        raise InvalidDefinition(f"{path} is no {CRDS.kind}")
    return found
