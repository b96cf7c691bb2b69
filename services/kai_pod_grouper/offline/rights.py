"""Which objects the pod-grouper may read: what its role in the chart grants, as data.

A preview knows no cluster, so it takes this for the cluster's answer.
"""

from typing import Final

#: Kinds by API group. The role grants get, list and watch on each.
GRANTED: Final[dict[str, tuple[str, ...]]] = {
    "": ("Pod",),
    "amlarc.azureml.com": ("AmlJob",),
    "apps": ("Deployment", "ReplicaSet", "StatefulSet"),
    "argoproj.io": ("Workflow",),
    "batch": ("CronJob", "Job"),
    "egx.nvidia.io": ("SPOTRequest",),
    "grove.io": ("PodClique", "PodCliqueScalingGroup", "PodCliqueSet", "PodGangSet"),
    "jobset.x-k8s.io": ("JobSet",),
    "kubeflow.org": (
        "JAXJob",
        "MPIJob",
        "Notebook",
        "PyTorchJob",
        "ScheduledWorkflow",
        "TFJob",
        "XGBoostJob",
    ),
    "kubevirt.io": ("VirtualMachine", "VirtualMachineInstance"),
    "leaderworkerset.x-k8s.io": ("LeaderWorkerSet",),
    "machinelearning.seldon.io": ("SeldonDeployment",),
    "nvidia.com": ("DynamoGraphDeployment",),
    "ray.io": ("RayCluster", "RayJob", "RayService"),
    "run.ai": (
        "DistributedInferenceWorkload",
        "DistributedWorkload",
        "InferenceWorkload",
        "InteractiveWorkload",
        "Karta",
        "RunaiJob",
        "TrainingWorkload",
    ),
    "scheduler.grove.io": ("PodGang",),
    "serving.knative.dev": ("Configuration", "Revision", "Service"),
    "tekton.dev": ("PipelineRun", "TaskRun"),
    "trainer.kubeflow.org": ("TrainJob",),
    "workspace.devfile.io": ("DevWorkspace",),
}

#: Groups of controllers that often stand above the kinds we know. The role leaves them out, so that the
#: known kind below them decides.
NOT_GRANTED: Final = frozenset(
    {
        "apps.kruise.io",
        "apps.nvidia.com",
        "apps.openshift.io",
        "batch.volcano.sh",
        "flink.apache.org",
        "inference.networking.k8s.io",
        "kubernetes.dask.org",
        "kueue.x-k8s.io",
        "serving.kserve.io",
        "spark.apache.org",
        "sparkoperator.k8s.io",
        "workload.codeflare.dev",
    }
)


def is_granted(group: str, kind: str) -> bool | None:
    """Whether the chart's role lets the pod-grouper read the kind; ``None``: only the admin knows."""
    if group in GRANTED:
        return kind in GRANTED[group]
    built_in = "." not in group or group.endswith(".k8s.io")
    return False if built_in or group in NOT_GRANTED else None
