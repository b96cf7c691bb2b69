"""Kinds whose pods are one group that needs one pod: everything beyond that is elastic."""

from kai.grouping.default_rule import BUILD, INFERENCE
from kai.grouping.draft import GroupDraft
from kai.grouping.workload import Workload, kinds


async def elastic(workload: Workload) -> GroupDraft:
    """The default rule, with priorities and delays from all owners."""
    return workload.draft(all_owners=True)


async def elastic_build(workload: Workload) -> GroupDraft:
    """The default rule for interactive work."""
    return workload.draft(fallback_class=BUILD)


async def elastic_inference(workload: Workload) -> GroupDraft:
    """The default rule for serving."""
    return workload.draft(fallback_class=INFERENCE)


_ONE = "one group, at least 1 pod"

KINDS = (
    *kinds(["apps/v1"], ["ReplicaSet", "StatefulSet"], _ONE, elastic),
    *kinds(["kubeflow.org/v1alpha1"], ["ScheduledWorkflow"], _ONE, elastic),
    *kinds(
        ["machinelearning.seldon.io/v1", "machinelearning.seldon.io/v1alpha2"],
        ["SeldonDeployment"],
        _ONE,
        elastic,
    ),
    *kinds(["kubevirt.io/v1"], ["VirtualMachineInstance"], _ONE, elastic),
    *kinds(["workspace.devfile.io/v1alpha2"], ["DevWorkspace"], _ONE, elastic),
    *kinds(["tekton.dev/v1"], ["PipelineRun", "TaskRun"], _ONE, elastic),
    *kinds(["kubeflow.org/v1beta1"], ["Notebook"], f"{_ONE}; priority class build", elastic_build),
    *kinds(["egx.nvidia.io/v1"], ["SPOTRequest"], f"{_ONE}; priority class inference", elastic_inference),
)
