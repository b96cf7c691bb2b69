"""Past use is a part of what the engine divides, by its own account of both."""

import pytest
from prometheus_client import CollectorRegistry

from kai.bench.objects import a_node, a_pod
from kai.config.usage_params import UsageParams
from kai.engine import Engine
from kai.engine.usage import used_shares
from kai.session.cache import SessionCache
from kai.session.server import redis_server
from kai.session.usage import BUCKET_SECONDS
from kai.session.usage_history import UsageBuckets
from kai.wire.session_codec import decode_update
from kai_queue_controller.shares import ShareBook
from kai_queue_controller.usage import UsageSampler, failure_counter
from kai_scheduler.sessions import SessionLog
from libs.tests.engine.builders import NOW, a_job, a_state

pytestmark = pytest.mark.integration
SHARD = "default"


@pytest.mark.parametrize(
    ("more", "divided"),
    [
        pytest.param([], 15.0, id="MIG devices count, what is not ready does not"),
        pytest.param(
            [a_pod("foreign", gpus=3, node="whole", scheduler="another")], 12.0, id="nor what others hold"
        ),
    ],
)
async def test_a_queue_has_used_the_part_of_what_is_divided_that_it_held(more, divided):
    state = a_state(
        a_node("mig", gpus=0, extra={"nvidia.com/mig-1g.10gb": "7"}),
        a_node("whole", gpus=8),
        a_node("broken", gpus=8, ready=False),
        a_job("work", gpus=4, on="whole"),
        *more,
    )
    result = Engine().run(state, NOW)
    log = SessionLog(epoch=1, shard=SHARD, node_pool="", failed=pytest.fail)
    told = log.record(result, opened_at=NOW)
    book = ShareBook()
    book.take(SHARD, decode_update(told))
    assert book.capacity(SHARD) == result.capacity
    async with redis_server() as url, SessionCache.connect(url, shard=SHARD) as cache:
        sampler = UsageSampler(
            cache,
            shares=lambda: book.of(SHARD),
            capacity=lambda: book.capacity(SHARD),
            interval=30,
            retention=3600,
            failures=failure_counter(CollectorRegistry()),
            now=lambda: NOW,
        )
        await sampler.sample(30.0)
        history = await UsageBuckets(cache).read(since=0)
    used = used_shares(
        history.queues, history.capacity, params=UsageParams(), now=NOW, bucket_seconds=BUCKET_SECONDS
    )
    assert (result.capacity[2], used["team"][2]) == (divided, pytest.approx(4 / divided))
