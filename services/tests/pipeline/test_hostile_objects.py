"""Objects that admission did not see, or could not refuse: each is told why, and others are served."""

import pytest

from kai.kube.resources import DEVICE_CLASSES, EVENTS, POD_GROUPS, PODS, RESOURCE_CLAIMS
from kai.model import names

pytestmark = pytest.mark.integration


async def a_deep_group(cluster, name, *, levels):
    parts = [{"name": "s0"}, *({"name": f"s{i}", "parent": f"s{i - 1}"} for i in range(1, levels))]
    parts[-1]["minMember"] = 1
    body = {"metadata": {"name": name}, "spec": {"queue": "test", "subGroups": parts}}
    await cluster.client.create(POD_GROUPS, body, namespace="default")
    await cluster.pod("deep", group=name)


async def a_vast_share(cluster):
    await cluster.group("vast")
    annotations = {
        names.POD_GROUP_ANNOTATION: "vast",
        names.GPU_MEMORY: str(2**64 - 1),
        names.GPU_FRACTION_NUM_DEVICES: "1000",
    }
    body = {
        "metadata": {"name": "vast", "annotations": annotations},
        "spec": {"schedulerName": names.SCHEDULER_NAME, "containers": [{"name": "main", "image": "x"}]},
    }
    await cluster.client.create(PODS, body, namespace="default")


async def a_greedy_claim(cluster):
    await cluster.client.create(DEVICE_CLASSES, {"metadata": {"name": "gpu.example.com"}, "spec": {}})
    exactly = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 2**63 - 1}
    spec = {"devices": {"requests": [{"name": "all", "exactly": exactly}]}}
    claim = {"metadata": {"name": "greedy"}, "spec": spec}
    await cluster.client.create(RESOURCE_CLAIMS, claim, namespace="default")
    claims = [{"name": "all", "resourceClaimName": "greedy"}]
    await cluster.pod("greedy", gpus=0, resourceClaims=claims)


async def test_each_is_told_field_and_bound_and_somebody_else_is_bound_meanwhile(cluster):
    await cluster.node("n1")
    async with cluster.scheduler() as scheduler, cluster.binder(), cluster.podgroup_controller():
        await a_deep_group(cluster, "deep", levels=999)
        await a_vast_share(cluster)
        await a_greedy_claim(cluster)
        await cluster.pod("somebody-else")
        await cluster.bound("somebody-else")

        async def warned():
            events = await cluster.client.list(EVENTS)
            notes = {
                (event["regarding"]["kind"], event["regarding"]["name"]): event["note"]
                for event in events
                if (event["type"], event["reason"]) == ("Warning", "InvalidObject")
            }
            return (
                "at most 16 levels" in notes.get(("PodGroup", "deep"), "")
                and "from 1 to 2147483648 MiB" in notes.get(("Pod", "vast"), "")
                and "at most 1024 devices" in notes.get(("ResourceClaim", "greedy"), "")
            )

        async def shown():
            pod = await cluster.get("vast")
            group = await cluster.get("deep", res=POD_GROUPS)
            user = await cluster.get("pg-greedy", res=POD_GROUPS)
            conditions = [(c["type"], c["reason"]) for c in pod.get("status", {}).get("conditions", ())]
            told = [
                condition["message"]
                for each in (group, user)
                for condition in each.get("status", {}).get("schedulingConditions", ())
            ]
            return (
                ("PodScheduled", "InvalidObject") in conditions
                and any("16 levels" in message for message in told)
                and any("1024 devices" in message for message in told)
            )

        await cluster.until(warned)
        await cluster.until(shown)
        assert scheduler.metrics.get_sample_value("kai_cycles_total")
        assert scheduler.metrics.get_sample_value("kai_cycle_failures_total") == 0
