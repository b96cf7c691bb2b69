"""Kinds of other projects as an API server is told of them: their names, and any content."""

from __future__ import annotations

from collections.abc import Sequence

from kai.model.objects import Json

#: Groups of Kubernetes' own projects want to be told.
_UNAPPROVED = {"api-approved.kubernetes.io": "unapproved, for a cluster in a box"}


def a_definition(
    group: str, kind: str, versions: Sequence[str], *, plural: str = "", scope: str = "Namespaced"
) -> Json:
    """A CustomResourceDefinition that takes whatever is written; the first version is stored."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    singular = kind.lower()
    plural = plural or f"{singular}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": _UNAPPROVED},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": singular},
            "versions": [
                {"name": version, "served": True, "storage": version == versions[0], "schema": schema}
                for version in versions
            ],
        },
    }
