"""The order of jobs, as the scheduler tells it to people on its machine."""

import aiohttp
import pytest

from kai.session.server import free_port

pytestmark = pytest.mark.integration


async def test_jobs_that_wait_are_told_in_order(cluster):
    await cluster.node("n1", gpus=1)
    port = free_port()
    async with cluster.scheduler(plugin_server_port=port), aiohttp.ClientSession() as http:
        await cluster.pod("large", gpus=9)
        await cluster.pod("larger", gpus=10)

        async def told():
            async with http.get(f"http://127.0.0.1:{port}/get-job-order") as answer:
                found = await answer.json() if answer.status == 200 else {"global_order": []}
            return found if len(found["global_order"]) == 2 else None

        order = await cluster.until(told)
    assert {each["id"].rpartition("/")[0] for each in order["global_order"]} == {"default"}
    assert {each["priority"] for each in order["global_order"]} == {50}
    assert list(order["queue_order"].values()) == [order["global_order"]]
