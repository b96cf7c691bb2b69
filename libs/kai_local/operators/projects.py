"""Projects whose operators are played, by the names that one gives to ``kai local up --with``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kai.kube.resources import Resource
from kai.model import spelling
from kai.model.plurals import plural
from kai.workloads.making import MAKERS
from kai_local.errors import ClusterError


@dataclass(frozen=True, slots=True)
class Served:
    """A kind in all its versions, the one that is stored first."""

    group: str
    kind: str
    versions: tuple[str, ...]

    @property
    def plural(self) -> str:
        """As paths have it."""
        return plural(self.kind)

    @property
    def resource(self) -> Resource:
        """In the version that is stored."""
        return Resource(self.group, self.versions[0], self.plural, self.kind)


def _kinds(group: str, *kinds: str) -> tuple[Served, ...]:
    """``Kind version …`` each."""
    return tuple(Served(group, name, tuple(versions)) for name, *versions in (each.split() for each in kinds))


PROJECTS: Final[dict[str, tuple[Served, ...]]] = {
    "jobset": _kinds("jobset.x-k8s.io", "JobSet v1alpha2"),
    "knative": _kinds("serving.knative.dev", "Service v1", "Configuration v1", "Revision v1"),
    "kubeflow": _kinds(
        "kubeflow.org",
        "JAXJob v1",
        "MPIJob v2beta1 v1",
        "Notebook v1beta1",
        "PyTorchJob v1",
        "TFJob v1",
        "XGBoostJob v1",
    ),
    "lws": _kinds("leaderworkerset.x-k8s.io", "LeaderWorkerSet v1"),
    "ray": _kinds("ray.io", "RayCluster v1", "RayJob v1", "RayService v1"),
    "seldon": _kinds("machinelearning.seldon.io", "SeldonDeployment v1"),
}


class UnknownProject(ClusterError):
    """Nobody plays the operator of this project."""


def named(names: Iterable[str]) -> tuple[str, ...]:
    """Names of projects, each once and in order.

    Raises:
        UnknownProject: one is not known; the message has those that are.
    """
    wanted = dict.fromkeys(name.strip() for name in names if name.strip())
    for name in wanted:
        if name not in PROJECTS:
            raise UnknownProject(spelling.unknown("project", name, sorted(PROJECTS)))
    return tuple(sorted(wanted))


def kinds_of(projects: Iterable[str]) -> list[Served]:
    """The kinds of some projects."""
    return [kind for project in projects for kind in PROJECTS[project]]


assert all((kind.group, kind.kind) in MAKERS for kind in kinds_of(PROJECTS)), "nobody makes anything of these"
