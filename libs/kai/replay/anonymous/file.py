"""A whole snapshot file in other words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

import msgspec

from kai.config import EngineParams
from kai.config.arguments import ConfigError
from kai.model import names
from kai.model.objects import Json
from kai.replay import config, params
from kai.replay.anonymous.reduction import reduced
from kai.replay.anonymous.rewriting import Rewriting
from kai.replay.anonymous.words import Words
from kai.replay.archive import Archive, ArchiveError
from kai.replay.bind_requests import BindRequest
from kai.replay.objects import without_nulls
from kai.snapshot.state import Kind, StateParams

_BIND_REQUESTS: Final = "bindRequests"
#: An argument of plugins that names resources.
_RESOURCES: Final = "ignoreList"
#: Of the partition the key of a label, and what it says.
_POOL: Final = ("nodepoollabelkey", "nodepoollabelvalue")
#: Parameters that name a namespace or a label; the rest are switches and numbers.
_NAMESPACES: Final = ("resourceReservationNamespace", "scaleAdjustNamespace", "installationNamespace")
_LABELS: Final = ("queueLabelKey", "cpuWorkerNodeLabelKey", "gpuWorkerNodeLabelKey", "migWorkerNodeLabelKey")


def anonymous(archive: Archive, *, random: Random | None = None) -> tuple[Archive, tuple[str, ...]]:
    """The file with other names, from which the same is decided up to names; and notes about where not.

    What decisions do not read is left out. Times, amounts, numbers, words of the API, attributes of devices
    and names of system namespaces stay. ``random`` is for tests; else chance is the operating system's.

    Raises:
        ArchiveError: an object or a setting cannot be read; it is named.
    """
    try:
        state, _, _ = params.read(archive.params)
    except params.ParamsError as error:
        raise ArchiveError(str(error)) from error
    kept = {names.SYSTEM_NAMESPACE, state.namespace, state.reservation_namespace, state.scaling_namespace}
    words = Words(kept, random=random)
    plain = {kind: list(_plain(archive, kind, state)) for kind in (*Kind, _BIND_REQUESTS)}
    said = archive.params or {}
    settings = _known(archive.config)
    gather = Rewriting(words)
    for found in plain.values():
        gather.value(found)
    _rewritten_settings(said, gather)
    _config(settings, gather)
    words.settle()
    rewriting = Rewriting(words)
    there = [kind for kind in plain if kind in archive.raw_objects]
    return (
        Archive(
            config=_config(settings, rewriting),
            params=_rewritten_settings(said, rewriting) if archive.params is not None else None,
            raw_objects={str(kind): [rewriting.value(obj) for obj in plain[kind]] for kind in there},
            discovery=_discovery(archive.discovery),
            taken_at=archive.taken_at,
        ),
        tuple(_notes(archive, rewriting)),
    )


def _plain(archive: Archive, kind: str, state: StateParams) -> Iterator[Json]:
    for number, obj in enumerate(archive.raw_objects.get(str(kind)) or ()):
        try:
            yield (
                _bind_request(obj)
                if kind == _BIND_REQUESTS
                else reduced(Kind(kind), obj, scheduler_name=state.scheduler_name)
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArchiveError(f"{kind}[{number}]: {error}") from error


def _bind_request(obj: Any) -> Json:
    found: Json = without_nulls(msgspec.to_builtins(msgspec.convert(without_nulls(obj), BindRequest)))
    spec = found["spec"]
    meta = {"name": obj["metadata"]["name"], "namespace": obj["metadata"].get("namespace", "")}
    for claim in (
        *spec.get("resourceClaimAllocations", ()),
        spec.get("extendedResourceClaimAllocation") or {},
    ):
        claim.get("allocation", {}).get("devices", {}).pop("config", None)
    return {**found, "metadata": meta}


def _rewritten_settings(document: Mapping[str, Any], rewriting: Rewriting) -> Json:
    found = {key: value for key, value in document.items() if not isinstance(value, str | dict | list)}
    said = {key: value for key, value in document.items() if isinstance(value, str)}
    for key in _NAMESPACES:
        if key in said:
            found[key] = rewriting.name(said[key])
    if "schedulerName" in said:
        found["schedulerName"] = rewriting.name(said["schedulerName"])
    for key in _LABELS:
        if key in said:
            found[key] = rewriting.key(said[key])
    pool = document.get("partitionParams")
    if isinstance(pool, dict):
        found["partitionParams"] = {
            key: rewriting.key(text) if "key" in key.lower() else rewriting.name(text)
            for key, text in pool.items()
            if key.lower() in _POOL and isinstance(text, str)
        }
    return found


def _known(document: Mapping[str, Any] | None) -> Json | None:
    """What decisions read of a configuration: no plugins of others, nor where past use is kept.

    Raises:
        ArchiveError: a value cannot be used; it is named.
    """
    if document is None:
        return None
    found = {key: value for key, value in document.items() if key != "usageDBConfig"}
    if isinstance(found.get("tiers"), list):
        found["tiers"] = [_tier(tier) for tier in found["tiers"]]
    try:
        read, _ = config.read(found, EngineParams())
    except ConfigError as error:
        raise ArchiveError(str(error)) from error
    return config.document(read)


def _config(document: Json | None, rewriting: Rewriting) -> Json | None:
    """Resources that a plugin names are called otherwise, too."""
    if document is None:
        return None
    (tier,) = document["tiers"]  # as it was written just now
    return {**document, "tiers": [{"plugins": [_plugin(each, rewriting) for each in tier["plugins"]]}]}


def _plugin(plugin: Json, rewriting: Rewriting) -> Json:
    arguments = dict(plugin.get("arguments", {}))
    if _RESOURCES in arguments:
        named = (each.strip() for each in arguments[_RESOURCES].split(","))
        arguments[_RESOURCES] = ",".join(rewriting.resource(each) for each in named)
    return {**plugin, "arguments": arguments} if arguments else plugin


def _tier(tier: Any) -> Any:
    plugins = tier.get("plugins") if isinstance(tier, dict) else None
    if not isinstance(plugins, list):
        return tier
    return {**tier, "plugins": [each for each in plugins if not _of_others(each)]}


def _of_others(plugin: Any) -> bool:
    return isinstance(plugin, dict) and "." in str(plugin.get("name"))


def _discovery(document: Mapping[str, Any] | None) -> Json:
    version = (document or {}).get("serverVersion") or {}
    return {
        "serverVersion": {key: version[key] for key in ("major", "minor") if key in version},
        "resources": None,
    }


def _notes(archive: Archive, rewriting: Rewriting) -> Iterator[str]:
    tiers = (archive.config or {}).get("tiers")
    plugins = [
        plugin
        for tier in (tiers if isinstance(tiers, list) else ())
        for plugin in ((tier.get("plugins") if isinstance(tier, dict) else None) or ())
    ]
    if others := sum(map(_of_others, plugins)):
        yield f"{others} plugins of other packages are left out; without them something else may be decided"
    if rewriting.doubtful:
        yield (
            f"{rewriting.doubtful} conditions on devices look into texts, of which nothing is left, so their "
            "claims may get other devices or none"
        )
    if unknown := sorted(set(archive.raw_objects) - {*map(str, Kind), _BIND_REQUESTS}):
        yield f"{len(unknown)} lists of kinds that are not known here are left out"
