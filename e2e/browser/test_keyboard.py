"""Nobody needs a pointer."""

import pytest

from deadlines import eventually
from e2e.browser.test_looks import VIEWS, map_drawn

FOCUSED = """(() => { const e = document.activeElement; const s = getComputedStyle(e); return {
  name: (e.getAttribute('aria-label') || e.innerText || e.id || e.tagName).trim().slice(0, 60),
  tag: e.tagName, seen: s.outlineStyle !== 'none' || s.position === 'absolute',
  path: e === document.body ? '' : e.tagName + e.className + e.id + (e.getAttribute('href') || '')}; })()"""


async def test_the_first_key_leads_past_the_navigation(mock, page):
    tab = await page(await mock(), "#/waiting")
    await tab.has("tr[data-row]")
    await tab.press("Tab")
    assert (await tab.js(FOCUSED))["name"] == "Skip to the content"
    await tab.press("Enter")
    await tab.focused("#content")


@pytest.mark.parametrize("view", VIEWS)
async def test_all_that_can_be_pressed_is_reached_by_the_tab_key_and_seen_to_be(mock, page, view):
    tab = await page(await mock(gpus=16, waiting=3), view)
    await tab.has(".view")
    await tab.lacks(".loading")
    reached = {}
    for _ in range(120):
        await tab.press("Tab")
        now = await tab.js(FOCUSED)
        if not now["path"] or (
            now["path"] in reached and len(reached) > 12 and now["name"].startswith("Skip")
        ):
            break
        assert now["seen"], f"{now['name']} does not show that it has the focus"
        reached[now["path"] + now["name"]] = now
    names = " ".join(each["name"] for each in reached.values())
    for name in ("Waiting", "Cluster", "Queues", "Time", "Workload", "What if", "Health"):
        assert name in names


async def test_arrows_go_from_row_to_row_and_enter_opens(mock, page):
    server = await mock(waiting=80)
    tab = await page(server, "#/waiting")
    await tab.has("tr[data-row]", 10)
    await tab.focus('tr[data-row="0"] .row-open')
    await tab.press("ArrowDown", "ArrowDown", "Enter")
    row = server.world.waiting[2]
    await tab.sees(row["name"], ".ladder")
    await tab.press("End")
    await eventually(
        lambda: tab.js("document.activeElement.closest('[data-row]')?.dataset.row"),
        lambda at: at == "79",
        what="the last row has the focus",
    )
    await tab.press("Home")
    await eventually(
        lambda: tab.js("document.activeElement.closest('[data-row]')?.dataset.row"), lambda at: at == "0"
    )


async def test_escape_closes_what_is_opened(mock, page):
    server = await mock(waiting=5)
    row = server.world.waiting[0]
    tab = await page(server, f"#/waiting?open={row['namespace']}/{row['name']}")
    await tab.has(".pane .ladder")
    await tab.focus(".pane-close")
    await tab.press("Escape")
    await tab.lacks(".pane")
    assert await tab.address() == "#/waiting"


async def test_the_map_is_walked_and_zoomed_by_keys_and_tells_where_one_is(mock, page):
    tab = await page(await mock(gpus=256), "#/cluster")
    await map_drawn(tab)
    await tab.focus(".map canvas")
    await tab.press("ArrowRight")
    await tab.sees("gpu-1 in zone-a, rack-1", "#map-cursor")
    await tab.press("ArrowRight", "ArrowDown")
    told = await eventually(lambda: tab.text("#map-cursor"), lambda text: "gpu-1 " not in text)
    assert "GPUs free" in told
    await tab.press("+", "-", "0")


async def test_the_search_is_one_key_away_and_closes_with_another(mock, page):
    tab = await page(await mock(), "#/queues")
    await tab.has(".queue-table")
    await tab.press("/")
    await tab.focused("[role=combobox]")
    await tab.write("gpu")
    await tab.has(".suggestions:not([hidden]) li", 3)
    await tab.press("ArrowDown")
    await tab.has('.suggestions li[aria-selected="true"]:nth-child(2)')
    await tab.press("Escape")
    await tab.lacks(".suggestions:not([hidden])")
