"""Filters, view and selection live in the address, so that whoever gets it sees the same."""

import pytest

from deadlines import eventually
from e2e.browser.test_looks import map_drawn


async def shown(tab):
    return await tab.js("[...document.querySelectorAll('tr[data-row]')].map(r => r.innerText)")


async def test_filters_are_in_the_address_and_come_back_with_it(mock, page):
    server = await mock(waiting=40)
    tab = await page(server, "#/waiting")
    await tab.has("tr[data-row]", 10)
    await tab.click(".verdict-filter:has(.verdict-change)")
    expected = [row for row in server.world.waiting if row["verdict"] == "CHANGE"]
    await eventually(lambda: shown(tab), lambda rows: len(rows) == len(expected), what="only these are shown")
    assert await tab.address() == "#/waiting?verdict=CHANGE"
    await tab.focus("input[aria-label=Text]")
    await tab.write("taint")
    await eventually(tab.address, lambda now: now == "#/waiting?verdict=CHANGE&text=taint")
    some = await eventually(
        lambda: shown(tab), lambda rows: rows and all("taint" in row for row in rows), what="taints alone"
    )
    await tab.reload()
    await eventually(lambda: shown(tab), lambda again: len(again) == len(some), what="the same is shown")
    assert await tab.js("document.querySelector('input[aria-label=Text]').value") == "taint"


async def test_an_order_is_in_the_address(mock, page):
    server = await mock(waiting=40)
    tab = await page(server, "#/waiting")
    await tab.has("tr[data-row]")
    await tab.choose(".head-sort", "GPUs")
    largest = max(row["gpus"] for row in server.world.waiting)
    await eventually(
        lambda: tab.js("[...document.querySelector('tr[data-row=\"0\"]').children].at(-2).innerText"),
        lambda gpus: int(gpus) == largest,
        what="the largest stands first",
    )
    assert await tab.address() == "#/waiting?sort=gpus"


async def test_back_leads_to_the_view_before(mock, page):
    tab = await page(await mock(), "#/waiting")
    for name in ("cluster", "queues"):
        await tab.click(f'.nav a[href="#/{name}"]')
        await tab.has(f".view-{name}")
    await tab.js("history.back()")
    await tab.has(".view-cluster")
    await eventually(
        lambda: tab.js("document.title"), lambda title: title == "Cluster · KAI", what="the title follows"
    )


async def test_a_rack_is_in_the_address_with_the_zone_that_it_is_in(mock, page):
    tab = await page(await mock(), "#/cluster")
    await tab.click(".rooms-best")
    await eventually(tab.address, lambda now: "domain=zone-a%2Frack-" in now, what="a rack is shown")


@pytest.mark.parametrize(("chosen", "shown"), [("", "default"), ("&shard=gold", "gold")])
async def test_all_that_is_asked_is_about_the_shard_that_is_shown(mock, page, chosen, shown):
    server = await mock(shards=("default", "gold"))
    tab = await page(server, f"#/time?span=900{chosen}")
    await tab.has(".moment table")
    await tab.goto(f"{server.url}?again#/queues?queue=vision{chosen}")
    await tab.has(".pane .chart canvas")
    await tab.goto(f"{server.url}?more#/waiting?sort=age{chosen}")
    await tab.has("tr[data-row]")
    asked = ("cycles", "decisions", "evictions", "queue-states", "live/cluster", "live/waiting")
    assert [server.named[path] for path in asked] == [{shown}] * len(asked)


async def test_a_shard_that_is_not_there_is_not_taken_for_another(mock, page):
    server = await mock(shards=("default", "gold"))
    tab = await page(server, "#/cluster?shard=silver")
    await tab.sees("here is no shard silver; choose one of default, gold", ".notice")
    await tab.js("location.hash = '#/cluster?shard=gold'")
    await tab.has(".map canvas")
    server.broken["live/cluster"] = (503, "gold alone is known")
    await tab.js("location.hash = '#/cluster?shard=default'")
    await tab.sees("old alone is known", ".notice")
    assert await tab.count(".map canvas") == 0


async def test_an_address_that_leads_nowhere_leads_to_what_waits(mock, page):
    tab = await page(await mock(), "#/nothing?node=%E0%A4%A")
    await tab.has(".view-waiting tr[data-row]")


async def test_a_node_that_is_chosen_on_the_map_is_in_the_address(mock, page):
    tab = await page(await mock(gpus=8), "#/cluster")
    await map_drawn(tab)
    await tab.focus(".map canvas")
    await tab.press("ArrowRight", "Enter")
    await eventually(tab.address, lambda now: now == "#/cluster?node=gpu-1")
    await tab.has(".pane .device", 8)
