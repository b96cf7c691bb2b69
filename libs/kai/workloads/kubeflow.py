"""The training operator, the MPI operator and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, count, ending, labelled, numbers, owned, pod

_PREFIX: Final = "training.kubeflow.org/"
#: Where the roles of each kind stand.
_ROLES: Final = {
    "TFJob": "tfReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
#: Those of pods; by exit code the operator itself restarts them.
_POLICIES: Final = ("Always", "OnFailure", "Never")
_STOPPED: Final = "kubeflow-resource-stopped"


def _labels(job: Json, role: str, number: int, *, job_role: str = "") -> Json:
    labels = {
        f"{_PREFIX}job-name": job["metadata"]["name"],
        f"{_PREFIX}replica-type": role.lower(),
        f"{_PREFIX}replica-index": str(number),
    }
    return {**labels, f"{_PREFIX}job-role": job_role} if job_role else labels


def _ending(role: Json) -> Json:
    """The pod template of a role, with the role's own word on restarts."""
    said = role.get("restartPolicy")
    return ending(at(role, "template"), said if said in _POLICIES else "Never")


def _suspended(job: Json) -> bool:
    return at(job, "spec", "runPolicy").get("suspend") is True


def _training_job(job: Json) -> Iterator[Json]:
    """A pod for each replica of each role."""
    roles = {} if _suspended(job) else at(job, "spec", _ROLES[job["kind"]])
    for role in roles:
        part = at(roles, role)
        for number in numbers(count(part, "replicas")):
            name = f"{job['metadata']['name']}-{role.lower()}-{number}"
            labels = _labels(job, role, number, job_role="master" if role == "Master" else "")
            yield pod(job, _ending(part), name, labels=labels)


def _mpi_job(job: Json) -> Iterator[Json]:
    """Its workers, and the launcher after them, which the second version has a Job make."""
    roles, name = at(job, "spec", "mpiReplicaSpecs"), job["metadata"]["name"]
    if _suspended(job):
        return
    worker, launcher = at(roles, "Worker"), at(roles, "Launcher")
    for number in numbers(count(worker, "replicas") if worker else 0):
        labels = _labels(job, "worker", number, job_role="worker")
        yield pod(job, _ending(worker), f"{name}-worker-{number}", labels=labels)
    if launcher:
        labels = _labels(job, "launcher", 0, job_role="launcher")
        if str(job.get("apiVersion")).endswith("/v1"):
            yield pod(job, _ending(launcher), f"{name}-launcher", labels=labels)
        else:
            spec = {"template": labelled(_ending(launcher), labels)}
            yield owned(job, "batch/v1", "Job", f"{name}-launcher", spec=spec)


def _notebook(notebook: Json) -> Iterator[Json]:
    meta = notebook["metadata"]
    replicas = 0 if _STOPPED in at(meta, "annotations") else 1
    template = labelled(at(notebook, "spec", "template"), {"notebook-name": meta["name"]})
    spec = {"replicas": replicas, "template": template}
    yield owned(notebook, "apps/v1", "StatefulSet", meta["name"], spec=spec)


MAKERS: Final[dict[tuple[str, str], Maker]] = {
    **{("kubeflow.org", kind): _training_job for kind in _ROLES},
    ("kubeflow.org", "MPIJob"): _mpi_job,
    ("kubeflow.org", "Notebook"): _notebook,
}
