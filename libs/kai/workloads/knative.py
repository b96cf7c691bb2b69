"""Knative serving: from a Service to the Deployment of its first revision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, labelled, owned

_PREFIX: Final = "serving.knative.dev/"
_SCALES: Final = ("autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/initial-scale")


def _service(service: Json) -> Iterator[Json]:
    name = service["metadata"]["name"]
    labels = {f"{_PREFIX}service": name}
    yield owned(
        service, "serving.knative.dev/v1", "Configuration", name, labels=labels, spec=at(service, "spec")
    )


def _configuration(configuration: Json) -> Iterator[Json]:
    meta, template = configuration["metadata"], at(configuration, "spec", "template")
    given = at(template, "metadata")
    name = given.get("name")
    yield owned(
        configuration,
        "serving.knative.dev/v1",
        "Revision",
        name if isinstance(name, str) else f"{meta['name']}-00001",
        labels={**at(given, "labels"), **at(meta, "labels"), f"{_PREFIX}configuration": meta["name"]},
        annotations=at(given, "annotations"),
        spec=at(template, "spec"),
    )


def _revision(revision: Json) -> Iterator[Json]:
    meta = revision["metadata"]
    labels = {**at(meta, "labels"), f"{_PREFIX}revision": meta["name"]}
    template = labelled({"spec": at(revision, "spec")}, labels, at(meta, "annotations"))
    spec = {"replicas": _scale(at(meta, "annotations")), "template": template}
    yield owned(revision, "apps/v1", "Deployment", f"{meta['name']}-deployment", labels=labels, spec=spec)


def _scale(annotations: Json) -> int:
    """With how many pods a revision begins."""
    said = (str(annotations[key]) for key in _SCALES if key in annotations)
    return next((int(text) for text in said if text.isdecimal() and len(text) < 10), 1)


MAKERS: Final[dict[tuple[str, str], Maker]] = {
    ("serving.knative.dev", "Service"): _service,
    ("serving.knative.dev", "Configuration"): _configuration,
    ("serving.knative.dev", "Revision"): _revision,
}
