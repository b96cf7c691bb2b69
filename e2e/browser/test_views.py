"""Each view shows what the server says."""

from urllib.parse import urlencode

from deadlines import eventually
from e2e.browser.mock.worlds import FREE


def address(view, **said):
    return f"#/{view}?{urlencode(said)}" if said else f"#/{view}"


def name_of(row):
    return row["workload"].partition("/")[2]


async def test_waiting_shows_verdict_reason_age_turn_and_what_is_asked_for(mock, page):
    server = await mock(waiting=7)
    tab = await page(server, "#/waiting", width=1600)
    await tab.has(".table tbody tr[data-row]", 7)
    shown = await tab.text(".table")
    for row in server.world.waiting:
        assert name_of(row) in shown
        assert row["text"] in shown
    oldest = server.world.waiting[0]
    first = await tab.text('tr[data-row="0"]')
    assert name_of(oldest) in first
    assert oldest["queue"] in first
    assert f"{oldest['position']['ahead'] + 1} of {oldest['position']['of']}" in " ".join(first.split())


async def test_what_is_opened_tells_stages_changes_and_forecast(mock, page):
    server = await mock(waiting=20)
    row = next(each for each in server.world.waiting if each["code"] == "NotEnoughFree")
    tab = await page(server, address("waiting", open=f"{row['namespace']}/{row['name']}"))
    await tab.has(".ladder .stage", 9)
    assert await tab.count(".stage-passed") == 6
    assert (await tab.text(".stage-failed")).split()[1:2] == ["room"]
    assert await tab.count(".stage-not-reached") == 2
    assert "kubectl patch queue" in await tab.text(".command code")
    assert server.asked["live/forecast"] == 0
    await tab.choose(".pane button", "Forecast")
    await tab.sees("within 7 m", ".forecast")
    await tab.sees("within 1 h 5 m", ".forecast")


async def test_a_priority_below_zero_is_told_as_it_is(mock, page):
    server = await mock(waiting=1)
    (row,) = server.world.waiting
    row["priority"] = -5
    tab = await page(server, f"#/waiting?open={row['namespace']}/{row['name']}")
    await tab.sees("-5, ", ".pane .facts")


async def test_a_command_is_copied(mock, page):
    server = await mock(waiting=20)
    row = next(each for each in server.world.waiting if each["code"] == "NotEnoughFree")
    tab = await page(server, address("waiting", open=f"{row['namespace']}/{row['name']}"))
    await tab.allow("clipboardReadWrite", "clipboardSanitizedWrite")
    await tab.click(".command button")
    await tab.has('.command button[aria-label="Copied"]')
    command = await tab.text(".command code")
    assert command.startswith("kubectl patch queue")
    assert await tab.js("navigator.clipboard.readText()") == command


async def test_rows_keep_their_places_while_others_come_and_go(mock, page):
    server = await mock(waiting=6)
    tab = await page(server, "#/waiting")
    await tab.has(".table tbody tr[data-row]", 6)
    gone, moved = server.world.waiting.pop(2), server.world.waiting.pop(0)
    new = {**moved, "name": "pg-new", "workload": "Job/brand-new"}
    server.world.waiting[:] = [new, *server.world.waiting, moved]
    await tab.sees("Put in order", ".moved")
    rows = await tab.js("[...document.querySelectorAll('tr[data-row]')].map(r => r.innerText)")
    assert name_of(moved) in rows[0]
    assert name_of(gone) in rows[2]
    assert "no more" in rows[2]
    assert "brand-new" in rows[6]
    await tab.click(".moved button")
    await eventually(
        lambda: tab.js("[...document.querySelectorAll('tr[data-row]')].map(r => r.innerText)"),
        lambda now: "brand-new" in now[0] and name_of(moved) in now[-1] and len(now) == 6,
        what="the rows stand in the order of the answer",
    )


async def test_the_map_tells_under_the_pointer_who_sits_there(mock, page):
    server = await mock(gpus=8)
    tab = await page(server, "#/cluster")
    await tab.has(".map canvas")
    slot = next(at for at, each in enumerate(server.world.slots) if each >= 0)
    group = server.world.groups[server.world.slots[slot]]
    await tab.sees("GPUs in use")

    async def pointed():
        left, top, width, height = await tab.place(".map canvas")
        for down in range(0, int(height), 16):
            for right in range(0, int(width), 16):
                await tab.pointer("mouseMoved", left + right, top + down)
                if group.workload in await tab.text(".tip"):
                    return True
        return False

    await eventually(pointed, what="the map tells of the workload")


async def test_a_change_is_on_the_map_at_once_and_only_there_where_it_is(mock, page):
    server = await mock(gpus=64, full=1.0)
    tab = await page(server, "#/cluster?show=gpus", height=2600)
    await tab.has("tr[data-row]", 64)
    await server.followed()
    server.world.slots[:8] = [FREE] * 8
    server.change([0], [])
    await eventually(
        lambda: tab.js(
            "[...document.querySelectorAll('tr[data-row]')].map(r => r.innerText.includes('free'))"
        ),
        lambda free: all(free[:8]),
        what="8 GPUs are free",
    )
    assert await tab.count("tr[data-row]") == 64


async def test_a_node_that_is_opened_tells_its_pods_and_devices(mock, page):
    server = await mock(gpus=64)
    tab = await page(server, "#/cluster?node=gpu-2")
    await tab.has(".pane .device", 8)
    await tab.sees("zone-a › rack-1", ".pane")
    held = {slot for slot in server.world.of_node(1) if isinstance(slot, int) and slot >= 0}
    for group in held:
        await tab.sees(server.world.groups[group].name.removeprefix("pg-"), ".pane")


async def test_the_tables_hold_all_nodes_and_all_gpus(mock, page):
    server = await mock(gpus=512)
    tab = await page(server, "#/cluster?show=nodes")
    await tab.has('table[aria-rowcount="65"]')
    await tab.js("document.querySelector('.scroll').scrollTop = 1e6")
    await tab.sees("gpu-64", ".table")
    tab = await page(server, "#/cluster?show=gpus")
    await tab.has('table[aria-rowcount="513"]')
    assert await tab.count("tr[data-row]") < 60


async def test_queues_stand_as_a_tree_with_what_they_borrow(mock, page):
    server = await mock(gpus=512)
    tab = await page(server, "#/queues")
    await tab.has(".queue-table tbody tr", 13)
    await tab.click('[aria-label="Queues below Research"]')
    await eventually(lambda: tab.count(".queue-table tbody tr"), lambda rows: rows == 9)
    assert await tab.address() == "#/queues?closed=research"
    await tab.reload()
    await tab.has(".queue-table tbody tr", 9)
    assert await tab.count(".queue-table tbody tr") == 9


async def test_a_queue_that_is_opened_has_curves(mock, page):
    tab = await page(await mock(), "#/queues?queue=vision")
    await tab.has(".pane .chart canvas")
    await tab.sees("fair share", ".pane .u-legend")


async def test_time_has_a_lane_for_each_queue_and_goes_back(mock, page):
    server = await mock(gpus=512)
    tab = await page(server, "#/time?span=21600")
    await tab.has(".lane .sign-bind", 10)
    now = await tab.text(".moment")
    await tab.js(
        "(() => { const e = document.getElementById('scrub'); e.value = 300;"
        " e.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    await tab.sees("Decided until then", ".moment")
    assert "at=" in await tab.address()
    assert await tab.text(".moment") != now


async def test_a_workload_has_one_life(mock, page):
    server = await mock()
    group = next(each for each in server.world.groups if each.gpus >= 1)
    tab = await page(server, address("workload", namespace=group.namespace, name=group.name))
    await tab.sees(group.workload, "h1")
    await tab.sees("RUNS", ".answer-verdict")
    await tab.has(".life-pods tr[data-row]")
    await tab.has(".run-bar", 2)
    await tab.sees("reclaim", ".life")


async def test_what_if_tells_who_starts_and_who_is_evicted(mock, page):
    server = await mock()
    tab = await page(server, "#/what-if?change=quota&target=vision")
    await tab.submit()
    await tab.sees("Quota is missing", ".form-lack")
    await tab.focus("#value")
    await tab.write("gpu=12")
    await tab.press("Enter")
    await tab.sees("4", ".tile:nth-child(2)")
    await tab.sees("pods are evicted", ".tile:nth-child(2)")
    await tab.sees("8 → 12", ".what-if-answer")
    assert "value=gpu%3D12" in await tab.address()


async def test_what_if_takes_manifests_that_are_pasted(mock, page):
    server = await mock()
    tab = await page(server, "#/what-if?with=manifests")
    await tab.focus("#manifests")
    await tab.write("kind: Job\nmetadata: {name: x}\n")
    await tab.submit()
    await tab.sees("pods start", ".tiles")
    assert server.asked["live/what-if"] == 1


async def test_health_says_in_one_line_whether_anything_is_wrong(mock, page):
    server = await mock()
    tab = await page(server, "#/health")
    await tab.sees("All is well.", ".health-line")
    server.late = True
    await tab.sees("binder has not renewed its Lease in time", ".health-line")
    await tab.sees("team-robotics/arm-7")


async def test_anything_is_found_by_its_name(mock, page):
    server = await mock()
    tab = await page(server, "#/waiting")
    await tab.has("tr[data-row]")
    for text, there in (("gpu-3", "#/cluster?node=gpu-3"), ("vision", "#/queues?queue=vision")):
        await tab.press("/")
        await tab.focused("[role=combobox]")
        await tab.write(text)
        await tab.sees(text, ".suggestions")
        await tab.press("Enter")
        await eventually(tab.address, lambda now, there=there: now == there, what=f"{text} is opened")
