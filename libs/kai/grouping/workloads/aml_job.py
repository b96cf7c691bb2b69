"""Azure Machine Learning jobs: a gang of as many nodes as the job's environment says."""

from kai.grouping.draft import GroupDraft
from kai.grouping.workload import Kind, Workload

_NODES = ("spec", "job", "options", "envs", "AZUREML_NODE_COUNT")


async def group_aml_job(workload: Workload) -> GroupDraft:
    """The node count must be a number; a string is not one."""
    draft = workload.draft()
    draft.min_member = workload.top.integer(*_NODES)
    if draft.min_member is None:
        raise workload.top.invalid(*_NODES, problem="is missing; write the number of nodes")
    return draft


KINDS = (Kind("amlarc.azureml.com/v1alpha1", "AmlJob", "one gang of AZUREML_NODE_COUNT pods", group_aml_job),)
