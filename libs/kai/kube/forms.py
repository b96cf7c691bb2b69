"""Kinds that clusters serve in different versions: which of them, and in which form we see their objects.

A caller names the newest version of a kind, and objects are in its form. What is served is found out by
asking, so the same code runs on clusters of any age.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from kai.kube.client import KubeClient
from kai.kube.resources import Resource
from kai.model import dra_forms
from kai.model.objects import Json


@dataclass(frozen=True, slots=True)
class Form:
    """A kind in one version. ``read`` and ``write`` convert from and to it; None where nothing changes."""

    resource: Resource
    read: Callable[[Json], Json] | None = None
    write: Callable[[Json], Json] | None = None


def forms(resource: Resource) -> tuple[Form, ...]:
    """All versions of a kind that we can deal with, the newest, which is the one given, first."""
    if resource.group != dra_forms.GROUP or resource.version != dra_forms.VERSIONS[0]:
        return (Form(resource),)
    return (Form(resource), *(_older(resource, version) for version in dra_forms.VERSIONS[1:]))


def _older(resource: Resource, version: str) -> Form:
    return Form(
        replace(resource, version=version),
        read=partial(dra_forms.newest, kind=resource.kind, version=version),
        write=partial(dra_forms.older, kind=resource.kind, version=version),
    )


async def served(client: KubeClient, resource: Resource) -> Form | None:
    """The newest version in which the API server has a kind; None if it has none that we know.

    Asks as :meth:`KubeClient.discover`, so mostly nothing.
    """
    for form in forms(resource):
        if await client.discover(form.resource.api_version, resource.kind) is not None:
            return form
    return None
