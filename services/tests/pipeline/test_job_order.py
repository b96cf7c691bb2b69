"""The order of jobs, as the scheduler tells it to people on its machine."""

import aiohttp
import pytest

from kai.session.server import free_port

pytestmark = pytest.mark.integration


async def test_jobs_that_wait_are_told_in_order(cluster, tmp_path):
    await cluster.node("n1", gpus=1)
    port, configuration = free_port(), tmp_path / "conf.yaml"
    configuration.write_text("tiers: [{plugins: [{name: predicates}, {name: reflectjoborder}]}]\n")
    told = {"plugin_server_port": port, "scheduler_conf": str(configuration)}
    async with cluster.scheduler(**told), aiohttp.ClientSession() as http:
        await cluster.pod("large", gpus=9)
        await cluster.pod("larger", gpus=10)

        async def asked():
            async with http.get(f"http://127.0.0.1:{port}/get-job-order") as answer:
                found = await answer.json() if answer.status == 200 else {"global_order": []}
            return found if len(found["global_order"]) == 2 else None

        order = await cluster.until(asked)
    assert {each["id"].rpartition("/")[0] for each in order["global_order"]} == {"default"}
    assert {each["priority"] for each in order["global_order"]} == {50}
    assert list(order["queue_order"].values()) == [order["global_order"]]
