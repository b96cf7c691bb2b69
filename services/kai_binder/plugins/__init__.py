"""What takes part in a bind, in order of priority; chosen and configured by ``--plugins``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kai.kube.client import KubeClient
from kai.model import spelling
from kai_binder.plugins.dynamicresources import DynamicResources
from kai_binder.plugins.gpusharing import GpuSharing
from kai_binder.plugins.hamicore import HamiCore
from kai_binder.plugins.volumebinding import VolumeBinding
from kai_binder.work import Arguments, BindPlugin


class PluginError(ValueError):
    """``--plugins`` cannot be used; the message names plugin and argument and says what is allowed."""


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """How a plugin takes part. ``arguments`` are replaced as a whole."""

    enabled: bool
    priority: int
    arguments: Arguments


_DEFAULTS: Final = {
    VolumeBinding.name: PluginConfig(True, 300, {"bindTimeoutSeconds": "120"}),
    DynamicResources.name: PluginConfig(True, 200, {"bindTimeoutSeconds": "120"}),
    GpuSharing.name: PluginConfig(True, 100, {"cdiEnabled": "false"}),
    HamiCore.name: PluginConfig(False, 50, {}),
}

#: Enough for decades.
_SECONDS: Final = re.compile(r"[0-9]{1,9}")
#: Plugins of the original that are not here; turned off, nobody misses them.
_ELSEWHERE: Final = frozenset({"nvfractions"})


class _Override(msgspec.Struct):
    enabled: bool | None = None
    priority: int | None = None
    arguments: dict[str, str] | None = None


_FIELDS: Final = tuple(field.name for field in msgspec.structs.fields(_Override))


def configure(text: str) -> dict[str, PluginConfig]:
    """The configuration of all plugins, from the JSON of ``--plugins`` over the defaults.

    Raises:
        PluginError: it is not a map of plugins, or names a plugin, a field or an argument that there is not.
    """
    try:
        given = msgspec.json.decode(text, type=dict[str, object]) if text.strip() else {}
    except msgspec.DecodeError as error:
        raise PluginError(
            f'--plugins must be JSON like {{"gpusharing": {{"enabled": true}}}}: {error}'
        ) from error
    configs = dict(_DEFAULTS)
    for name, said in given.items():
        override = _override(name, said)
        if name in _ELSEWHERE and override.enabled is False:
            continue
        _check_names(name, override)
        changes = {key: value for key in _FIELDS if (value := getattr(override, key)) is not None}
        configs[name] = replace(configs[name], **changes)
    _check_hamicore(configs)
    return configs


def _override(name: str, said: object) -> _Override:
    """What is said of a plugin."""
    for key in said if isinstance(said, dict) else ():
        if key not in _FIELDS:
            raise PluginError(f"--plugins: {name}: {spelling.unknown('field', key, _FIELDS)}")
    try:
        return msgspec.convert(said, _Override)
    except msgspec.ValidationError as error:
        raise PluginError(f"--plugins: {name}: {error}") from error


def _check_names(name: str, override: _Override) -> None:
    if name not in _DEFAULTS:
        raise PluginError(f"--plugins: {spelling.unknown('plugin', name, _DEFAULTS)}")
    known = _DEFAULTS[name].arguments
    for argument in override.arguments or ():
        if argument not in known:
            raise PluginError(f"--plugins: {name}: {spelling.unknown('argument', argument, known)}")


def _check_hamicore(configs: dict[str, PluginConfig]) -> None:
    hamicore, sharing = configs[HamiCore.name], configs[GpuSharing.name]
    if hamicore.enabled and not (sharing.enabled and sharing.priority > hamicore.priority):
        raise PluginError(
            "--plugins: hamicore needs gpusharing enabled with a higher priority, "
            f"but that is {'at ' + str(sharing.priority) if sharing.enabled else 'disabled'}"
        )


def known_arguments() -> dict[str, tuple[str, ...]]:
    """Every plugin with the names of its arguments."""
    return {name: tuple(config.arguments) for name, config in _DEFAULTS.items()}


def check(configs: dict[str, PluginConfig]) -> None:
    """Read all arguments of those that are on.

    Raises:
        PluginError: one is missing or invalid.
    """
    for name, config in configs.items():
        for argument in _DEFAULTS[name].arguments if config.enabled else ():
            _READERS[argument](name, config.arguments)


def time_limits(configs: dict[str, PluginConfig]) -> float:
    """Seconds for which those that are on may keep one pod waiting, one after the other.

    Raises:
        PluginError: an argument is missing or invalid.
    """
    return sum(
        _seconds(name, config.arguments)
        for name, config in configs.items()
        if config.enabled and "bindTimeoutSeconds" in _DEFAULTS[name].arguments
    )


def build(configs: dict[str, PluginConfig], client: KubeClient) -> tuple[BindPlugin, ...]:
    """The enabled plugins, highest priority first, then by name.

    Raises:
        PluginError: an argument is missing or invalid.
    """
    makers: dict[str, Callable[[Arguments], Any]] = {
        VolumeBinding.name: lambda args: VolumeBinding(client, timeout=_seconds(VolumeBinding.name, args)),
        DynamicResources.name: lambda args: DynamicResources(
            client, timeout=_seconds(DynamicResources.name, args)
        ),
        GpuSharing.name: lambda args: GpuSharing(client, cdi=_uses_cdi(GpuSharing.name, args)),
        HamiCore.name: lambda args: HamiCore(client),
    }
    enabled = sorted((-config.priority, name) for name, config in configs.items() if config.enabled)
    return tuple(makers[name](configs[name].arguments) for _, name in enabled)


def _seconds(plugin: str, arguments: Arguments) -> float:
    text = arguments.get("bindTimeoutSeconds", "")
    if not _SECONDS.fullmatch(text) or int(text) == 0:
        raise PluginError(f"--plugins: {plugin}.bindTimeoutSeconds is {text!r}; give whole seconds above 0")
    return float(text)


def _uses_cdi(plugin: str, arguments: Arguments) -> bool:
    text = arguments.get("cdiEnabled", "")
    if text.lower() not in ("true", "false"):
        raise PluginError(f"--plugins: {plugin}.cdiEnabled is {text!r}; give true or false")
    return text.lower() == "true"


_READERS: Final[dict[str, Callable[[str, Arguments], object]]] = {
    "bindTimeoutSeconds": _seconds,
    "cdiEnabled": _uses_cdi,
}
