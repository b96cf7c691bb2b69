"""What the services remember follows what exists: a thousand attacks come and go, and nothing stays."""

import asyncio

from e2e.hostile.footprint import footprint
from e2e.hostile.inside import clock
from e2e.hostile.inside.town import SERVICES, Town

#: Rounds before the first look, so that whoever has to do with an attack was at work; and until the second.
FIRST, ROUNDS = 100, 1000
#: What a table may have more: of metrics a series for each kind of request, answers on their way.
SPARE = 40


def test_after_a_thousand_rounds_no_table_of_a_service_has_grown():
    async def live():
        town = Town(seed=7)
        async with town.open():
            await town.rehearse()
            await town.live(FIRST)
            early = await town.at_rest()
            await town.live(ROUNDS)
            return early, await town.at_rest()

    early, late = clock.run(live())
    assert all(early[service].total() > 100 for service in SERVICES)  # they were found, and have tables
    assert not {
        (service, where): (early[service][where], now)
        for service in SERVICES
        for where, now in late[service].items()
        if now > early[service][where] + SPARE
    }


def test_the_services_do_something_in_a_round():
    async def live():
        town = Town(seed=1)
        async with town.open():
            await town.rehearse()
        return town

    town = clock.run(live())
    metrics = {name: host.metrics for name, host in town.hosts.items()}
    assert _sum(metrics["pod-grouper"], "kai_podgrouper_writes_total", kind="PodGroup") > 50
    assert _sum(metrics["binder"], "kai_binder_results_total", result="bound") > 20
    assert _sum(metrics["binder"], "kai_binder_results_total", result="prepared") > 5
    assert _sum(metrics["podgroup-controller"], "kai_api_requests_total", resource="podgroups/status") > 20
    assert _sum(metrics["queue-controller"], "kai_api_requests_total", resource="queues/status") > 5
    assert _sum(metrics["admission"], "kai_webhook_reviews_total", result="denied") > 20
    assert not _sum(metrics["admission"], "kai_webhook_reviews_total", result="error")


def _sum(registry, name, **labels):
    return sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


# --- how it is counted -----------------------------------------------------------------------------
class _Keeper:
    def __init__(self):
        self.kept = list(range(5000))

    def keeps(self):
        return len(self.kept)

    async def waits(self):
        mine = list(range(300))
        await asyncio.Event().wait()
        return mine


async def test_what_a_method_a_function_and_a_waiting_task_hold_on_to_is_counted():
    keeper = _Keeper()
    task = asyncio.create_task(keeper.waits())
    await asyncio.sleep(0)
    waiting = footprint(task)
    task.cancel()
    assert footprint(keeper.keeps)["_Keeper.kept"] == footprint(lambda: keeper)["_Keeper.kept"] == 5000
    assert (waiting["_Keeper.kept"], waiting["coroutine.mine"]) == (5000, 300)


def test_what_belongs_to_others_is_not_counted():
    assert not footprint(_Keeper().keeps, but=(_Keeper,))
