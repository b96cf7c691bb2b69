"""Keeps containers that did not ask for a GPU from seeing any."""

from collections.abc import Sequence

from kai.model import names, resource_lists
from kai.model.objects import Json
from kai.model.rules.gpus import is_mig
from kai_admission.mutation.draft import PodDraft

_NO_DEVICES = "void"


def mutate(draft: PodDraft) -> None:
    """Hides all devices from every container that neither shares nor requests one."""
    for position, container in draft.containers():
        if position != draft.sharing_container and not _requests_gpu(container):
            _hide_devices(container)


def hide_from_added(added: Sequence[Json]) -> None:
    """Hides all devices from ephemeral containers, which cannot ask for one."""
    for container in added:
        _hide_devices(container)


def _requests_gpu(container: Json) -> bool:
    requests: Json = (container.get("resources") or {}).get("requests") or {}
    return any(
        resource_lists.parsed(str(amount)) != 0
        for resource, amount in requests.items()
        if resource == names.NVIDIA_GPU or is_mig(resource)
    )


def _hide_devices(container: Json) -> None:
    """Replaces a literal value; a reference is left for validation to refuse."""
    variables: list[Json] = container.get("env") or []
    for index, variable in enumerate(variables):
        if variable.get("name") == names.NVIDIA_VISIBLE_DEVICES:
            if not variable.get("valueFrom"):
                hidden = {**variable, "value": _NO_DEVICES}
                container["env"] = [*variables[:index], hidden, *variables[index + 1 :]]
            return
    container["env"] = [*variables, {"name": names.NVIDIA_VISIBLE_DEVICES, "value": _NO_DEVICES}]
