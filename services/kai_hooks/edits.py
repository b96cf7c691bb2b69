"""What a release says of Config and shard, over what was edited by hand.

helm 3 changes custom resources by what differs between two releases, whatever there is: a value that was
given before, and undone by hand since, would have no effect any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kai.kube.client import KubeClient, PatchKind
from kai.kube.errors import ApiError
from kai.kube.resources import CONFIGS, SCHEDULING_SHARDS
from kai_hooks.refusals import Refusals

_MANAGER: Final = "kai-config-deployer"
_KINDS: Final = {each.kind: each for each in (CONFIGS, SCHEDULING_SHARDS)}


class InvalidManifest(Exception):
    """A file has nothing that could be applied."""


async def overwrite_edits(client: KubeClient, folder: Path, say: Callable[[str], None]) -> None:
    """Put the fields that the manifests in a folder have in force. Others that somebody has set stay.

    Raises:
        InvalidManifest: a file cannot be read as one of these; then none is applied.
        Refused: the API server does not take one of them; the other one is in force.
        KubeError: it cannot be reached.
    """
    refusals = Refusals()
    for manifest in _read_all(folder):
        resource, name = _KINDS[manifest["kind"]], manifest["metadata"]["name"]
        try:
            await client.patch(resource, name, manifest, kind=PatchKind.APPLY, field_manager=_MANAGER)
        except ApiError as error:
            refusals.add(f"{resource.kind} {name}", error)
        else:
            say(f"{resource.kind} {name} is as the release says")
    refusals.tell()


def _read_all(folder: Path) -> list[dict[str, Any]]:
    return [_read(path) for path in sorted(folder.glob("*.json"))]


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise InvalidManifest(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict) or found.get("kind") not in _KINDS:
        raise InvalidManifest(f"{path} is none of {', '.join(_KINDS)}")
    return found
