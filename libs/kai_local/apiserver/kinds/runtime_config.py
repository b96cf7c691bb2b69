"""Which versions of built-in kinds are served, said as kube-apiserver's flag ``--runtime-config`` says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model import dra_forms

#: Groups with more than one version, and those that are served unless told otherwise.
CHOICES: Final = {dra_forms.GROUP: dra_forms.VERSIONS}
_DEFAULT: Final = {dra_forms.GROUP: dra_forms.VERSIONS[:1]}


class InvalidRuntimeConfig(ValueError):
    """A text that says something else than which versions to serve."""


def served_versions(text: str) -> dict[str, tuple[str, ...]]:
    """The versions to serve of each group with a choice, the newest first, from ``group/version=BOOL,…``.

    Raises:
        InvalidRuntimeConfig: an entry is not of that form, or names a version that there is not.
    """
    found = {group: dict.fromkeys(versions, True) for group, versions in _DEFAULT.items()}
    for group, version, wanted in _entries(text):
        found[group][version] = wanted
    return {
        group: tuple(version for version in versions if found[group].get(version))
        for group, versions in CHOICES.items()
    }


def _entries(text: str) -> Iterator[tuple[str, str, bool]]:
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, wanted = entry.partition("=")
        group, _, version = name.partition("/")
        if version not in CHOICES.get(group, ()):
            known = ", ".join(f"{each}/{name}" for each, names in CHOICES.items() for name in names)
            raise InvalidRuntimeConfig(f"{name!r} cannot be chosen; there are {known}")
        if wanted not in ("", "true", "false"):
            raise InvalidRuntimeConfig(f"{entry!r} must end in =true or =false")
        yield group, version, wanted != "false"
