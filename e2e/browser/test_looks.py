"""Dark and light, narrow and wide, for eyes and for screen readers."""

import json

import pytest

from deadlines import eventually

VIEWS = (
    "#/waiting",
    "#/cluster",
    "#/cluster?node=gpu-1",
    "#/cluster?show=nodes",
    "#/queues",
    "#/queues?queue=vision",
    "#/time?span=21600",
    "#/workload",
    "#/what-if",
    "#/what-if?with=manifests",
    "#/health",
)
WIDTHS = (320, 480, 768, 1024, 1440, 1920, 2560)


async def settled(tab):
    await tab.has(".view")
    await tab.lacks(".loading")


async def map_drawn(tab):
    """Wait until there is something on the map, which from then on hears keys and pointers."""
    await eventually(
        lambda: tab.js("performance.getEntriesByName('map drawn').length"), what="the map is drawn"
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_axe_finds_nothing(mock, page, axe, dark):
    server = await mock(gpus=64, waiting=9, hidden=3)
    row = next(each for each in server.world.waiting if each["verdict"])
    life = f"#/workload?namespace={row['namespace']}&name={row['name']}"
    tab = await page(server, "#/waiting")
    await tab.prefers(dark=dark, still=True)
    found = []
    opened = f"#/waiting?open={row['namespace']}/{row['name']}"
    for number, view in enumerate((*VIEWS, opened, life)):
        for width in (1440,) if dark else (1440, 360):
            await tab.resize(width, 800)
            await tab.goto(f"{server.url}?{number}-{width}{view}")
            await settled(tab)
            await tab.js(axe)
            broken = await tab.js(
                "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.flatMap("
                "v => v.nodes.map(n => `${v.id}: ${n.html.slice(0, 160)} ${n.failureSummary}`)))"
            )
            found += [f"{view} at {width}: {each}" for each in broken]
    assert found == []


@pytest.mark.parametrize("view", VIEWS)
async def test_nothing_is_wider_than_the_window(mock, page, view):
    tab = await page(await mock(gpus=64), view)
    await settled(tab)
    for width in WIDTHS:
        await tab.resize(width, 760)
        await eventually(
            lambda: tab.js(
                "[document.documentElement.scrollWidth - innerWidth,"
                " document.querySelector('.view').scrollWidth - document.querySelector('.view').clientWidth]"
            ),
            lambda beyond: max(beyond) <= 1,
            what=f"nothing of {view} is beyond a window of {width}",
        )


async def test_colours_are_those_of_the_system_until_somebody_chooses(mock, page):
    tab = await page(await mock(), "#/waiting")
    theme = "document.documentElement.dataset.theme"
    await tab.has("tr[data-row]")
    assert await tab.js(theme) == "light"
    await tab.prefers(dark=True)
    await tab.has(':root[data-theme="dark"]')
    button = 'button[aria-label^="Colours"]'
    await tab.click(button)
    await tab.has(':root[data-theme="light"]')
    await tab.reload()
    await tab.has(':root[data-theme="light"]')
    await tab.click(button)
    await tab.has(':root[data-theme="dark"]')


async def test_the_map_takes_the_colours_of_the_theme(mock, page):
    tab = await page(await mock(gpus=64), "#/cluster")
    canvas = "document.querySelector('.map canvas').getContext('2d')"
    corner = f"[...{canvas}.getImageData(2, 2, 1, 1).data].slice(0, 3)"
    await map_drawn(tab)
    assert sum(await tab.js(corner)) > 120
    await tab.prefers(dark=True)
    await tab.has(':root[data-theme="dark"]')
    await eventually(lambda: tab.js(corner), lambda seen: sum(seen) < 120, what="the map is dark")


async def test_who_wants_no_motion_sees_none(mock, page):
    server = await mock(broken={"live": (503, "not yet")})
    tab = await page(server, "#/waiting")
    await tab.has(".loading, .notice")
    await tab.prefers(still=True)
    moving = await tab.js(
        "[...document.querySelectorAll('*')].filter(e => { const s = getComputedStyle(e);"
        " return s.animationName !== 'none' || parseFloat(s.transitionDuration) > 0; }).length"
    )
    assert moving == 0


async def test_long_names_are_cut_and_told_in_full(mock, page):
    long = "a-very-long-name-" * 12
    server = await mock(gpus=16, waiting=4, names=[long])
    tab = await page(server, "#/waiting", width=1024)
    await tab.has("tr[data-row]", 4)
    inside = (
        "[...document.querySelectorAll('tr[data-row] .cut')]"
        ".every(e => e.getBoundingClientRect().right <= innerWidth)"
    )
    await eventually(lambda: tab.js(inside), what="what is cut ends within the window")
    titles = await tab.js("[...document.querySelectorAll('tr[data-row] [title]')].map(e => e.title)")
    assert any(long in title for title in titles), json.dumps(titles)[:200]
