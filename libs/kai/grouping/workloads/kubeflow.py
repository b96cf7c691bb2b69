"""Training operator: TFJob, XGBoostJob, JAXJob and MPIJob are gangs of all their replicas."""

from collections.abc import Sequence

from kai.grouping.draft import GroupDraft
from kai.grouping.objects.documents import Document
from kai.grouping.workload import Kind, Rule, Workload, kinds

JOB_NAME_LABEL = "training.kubeflow.org/job-name"
JOB_ROLE_LABEL = "training.kubeflow.org/job-role"
_MIN_AVAILABLE = ("runPolicy", "schedulingPolicy", "minAvailable")


def gang_size(job: Document, replica_specs: str, roles: Sequence[str] = ()) -> int:
    """How many pods the job needs: what its scheduling policy says, else all replicas of all roles.

    Raises:
        InvalidWorkload: without a policy: a role of ``roles`` is missing, or a role has no replicas.
    """
    wanted = job.at("spec").integer(*_MIN_AVAILABLE)
    if wanted is not None:
        return wanted
    specs = job.at("spec", replica_specs)
    if not job.has("spec", replica_specs):
        raise specs.invalid(problem="is missing; give it a role with replicas")
    for role in roles:
        if role not in specs.content:
            raise specs.invalid(role, problem=f"is missing, which every {job.kind} needs")
    total = 0
    for role in specs.content:
        replicas = specs.integer(role, "replicas")
        if not replicas:
            raise specs.invalid(role, "replicas", problem=f"must be at least 1, but is {replicas or 0}")
        total += replicas
    if total <= 0:
        raise specs.invalid(problem=f"must have at least 1 replica in all, but has {total}")
    return total


def gang_of(replica_specs: str, *roles: str) -> Rule:
    """The rule of a job whose replicas stand in ``spec.<replica_specs>``."""

    async def rule(workload: Workload) -> GroupDraft:
        draft = workload.draft()
        draft.min_member = gang_size(workload.top, replica_specs, roles)
        return draft

    return rule


async def group_mpi_job(workload: Workload) -> GroupDraft:
    """All replicas; without the launcher while that waits for ready workers before it is created."""
    job, draft = workload.top, workload.draft()
    size = gang_size(job, "mpiReplicaSpecs", ("Launcher", "Worker"))
    waits = job.text("spec", "launcherCreationPolicy") == "WaitForWorkersReady"
    if waits and not await _launcher_exists(workload):
        launchers = job.integer("spec", "mpiReplicaSpecs", "Launcher", "replicas")
        if not launchers:
            raise job.invalid("spec", "mpiReplicaSpecs", "Launcher", "replicas", problem="must be at least 1")
        size -= launchers
    draft.min_member = size
    return draft


async def _launcher_exists(workload: Workload) -> bool:
    labels = {JOB_NAME_LABEL: workload.top.name, JOB_ROLE_LABEL: "launcher"}
    return any(pod.metadata.deletion_timestamp is None for pod in await workload.pods(labels))


_ALL = "one gang of all replicas, or of runPolicy.schedulingPolicy.minAvailable"

KINDS = (
    Kind("kubeflow.org/v1", "TFJob", _ALL, gang_of("tfReplicaSpecs")),
    Kind("kubeflow.org/v1", "XGBoostJob", _ALL, gang_of("xgbReplicaSpecs", "Master", "Worker")),
    Kind("kubeflow.org/v1", "JAXJob", _ALL, gang_of("jaxReplicaSpecs", "Worker")),
    *kinds(
        ["kubeflow.org/v1", "kubeflow.org/v2beta1"],
        ["MPIJob"],
        f"{_ALL}; the launcher counts once it exists if it waits for workers",
        group_mpi_job,
    ),
)
