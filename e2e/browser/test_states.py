"""What stands there when there is nothing to show, or not any more."""

import time

import pytest

from deadlines import eventually

#: When what was shown last has been drawn, and has begun to ask.
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
NAMES = {
    "#/waiting": "live/waiting",
    "#/cluster": "live/cluster",
    "#/time": "decisions",
    "#/health": "live/health",
    "#/workload?namespace=n&name=x": "live/workload",
}


@pytest.mark.parametrize("view", NAMES)
async def test_what_one_may_not_see_names_the_right_that_is_missing(mock, page, view):
    server = await mock(broken={NAMES[view]: (403, "this is for those who may list widgets.example.com")})
    tab = await page(server, view)
    await tab.sees("You may not see this", ".notice")
    await tab.sees("widgets.example.com", ".notice")


@pytest.mark.parametrize("view", [*NAMES][:2])
async def test_what_does_not_answer_is_asked_again_by_itself(mock, page, view):
    server = await mock(broken={NAMES[view]: (503, "too many ask at once")})
    tab = await page(server, view)
    await tab.sees("many ask at once", ".notice")
    asked = server.asked[NAMES[view]]
    await eventually(lambda: server.asked[NAMES[view]] > asked, what="it is asked again")
    server.broken.clear()
    await tab.lacks(".notice-busy")


async def test_a_token_is_asked_for_kept_in_this_tab_and_sent(mock, page):
    server = await mock(token="right")
    tab = await page(server, "#/waiting")
    await tab.sees("kubectl create token", ".gate")
    await tab.focus("#token")
    await tab.write("wrong")
    await tab.press("Enter")
    await tab.sees("does not know the token", ".gate")
    await tab.js("document.getElementById('token').value = ''")
    await tab.focus("#token")
    await tab.write("right")
    await tab.press("Enter")
    await tab.has("tr[data-row]")
    stores = await tab.js(
        "[sessionStorage.getItem('kai-token'), JSON.stringify(localStorage), document.cookie, location.href]"
    )
    assert stores[0] == "right"
    assert all("right" not in each for each in stores[1:])


async def test_a_token_that_runs_out_is_asked_for_anew(mock, page):
    server = await mock()
    tab = await page(server, "#/waiting")
    await tab.has("tr[data-row]")
    server.token = "another"
    await tab.sees("kubectl create token", ".gate")


async def test_what_is_old_is_called_stale_and_becomes_live_again(mock, page):
    server = await mock()
    tab = await page(server, "#/cluster")
    await tab.has(".fresh-live")
    await server.followed()
    server.broken["live"] = (503, "not now")
    server.hang_up()
    await tab.has(".fresh-stale")
    await tab.has(".map canvas")
    server.broken.clear()
    await tab.has(".fresh-live")


async def test_an_answer_that_cannot_be_renewed_stays_and_says_so(mock, page):
    server = await mock(waiting=5)
    tab = await page(server, "#/waiting")
    await tab.has("tr[data-row]", 5)
    server.broken["live/waiting"] = (503, "the store does not answer")
    await tab.sees("the store does not answer", ".old")
    assert await tab.count("tr[data-row]") == 5
    server.broken.clear()
    await tab.lacks(".old")


async def test_what_queues_held_at_one_moment_does_not_stand_for_another(mock, page):
    server = await mock(gpus=64)
    tab = await page(server, "#/time?span=21600")
    await tab.has(".moment table")
    server.broken["queue-states"] = (503, "not now")
    await tab.js(f"location.hash = '#/time?span=21600&at={time.time() - 3600:.0f}'")
    await tab.sees("ot now", ".moment .notice")
    assert await tab.count(".moment table") == 0


async def test_what_came_and_went_where_one_may_not_look_is_counted_anew(mock, page):
    server = await mock(gpus=64, hidden=2)
    tab = await page(server, "#/cluster?show=nodes")
    await tab.sees("2 more workloads are", ".hidden-note")
    await server.followed()
    server.hidden = 5
    server.change([], [])
    await tab.sees("5 more workloads are", ".hidden-note")


#: Answers of what-if for this value come when they are let go, after those that were asked for later.
HELD = """
(() => {
  const real = window.fetch;
  window.fetch = async (url, init) => {
    const answer = await real(url, { ...init, signal: null });
    if (String(url).includes("gpu%3D9")) await new Promise((done) => (window.letGo = done));
    return answer;
  };
})()
"""


async def test_an_answer_that_comes_late_does_not_stand_for_one_that_was_asked_for_later(mock, page):
    server = await mock()
    tab = await page(server, "#/what-if?change=quota&target=vision&value=gpu%3D9")
    await tab.js(HELD)
    await tab.submit()
    await eventually(lambda: tab.js("Boolean(window.letGo)"), what="the first answer is held back")
    await tab.js("document.getElementById('value').value = ''")
    await tab.focus("#value")
    await tab.write("gpu=12")
    await tab.press("Enter")
    await tab.sees("12 GPUs", ".what-if-change")
    await tab.js("window.letGo()")
    await tab.js(DRAWN)
    assert "12 GPUs" in await tab.text(".what-if-change")


async def test_evictions_that_cannot_be_told_are_not_taken_for_none(mock, page):
    server = await mock(broken={"evictions": (503, "the store does not answer")})
    tab = await page(server, "#/time")
    await tab.sees("Who was evicted is not shown: the store does not answer", ".time")


async def test_what_was_opened_out_of_sight_is_there_when_somebody_looks(mock, page):
    server = await mock()
    tab = await page(server, "#/waiting")
    await tab.has("tr[data-row]")
    await tab.js("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    await tab.js(f"location.hash = '#/time?until={time.time():.0f}'")
    await tab.has(".loading")
    await tab.js(DRAWN)
    assert server.asked["decisions"] == 0
    await tab.js("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    await tab.has(".lanes")


async def test_a_past_that_could_not_be_told_is_asked_for_again_by_itself(mock, page):
    server = await mock(broken={"decisions": (502, "nobody is behind the proxy")})
    tab = await page(server, f"#/time?until={time.time():.0f}")
    await tab.sees("tried again by itself", ".notice")
    server.broken.clear()
    await tab.has(".lanes")


async def test_a_cluster_that_is_new_altogether_is_asked_for_again(mock, page):
    server = await mock(gpus=64)
    tab = await page(server, "#/cluster?show=nodes")
    await tab.has('table[aria-rowcount="9"]')
    await server.followed()
    server.world.nodes.append("another")
    server.world.gpus.append(0)
    server.world.domain.append(server.world.domain[-1])
    server.world.state.append(0)
    server.anew()
    await tab.has('table[aria-rowcount="10"]')
    await tab.sees("another", ".table")


async def test_names_are_asked_for_again_where_the_server_has_begun_anew(mock, page):
    server = await mock(gpus=8, waiting=0)
    first = server.world.groups[0]
    tab = await page(server, "#/cluster?show=gpus")
    await tab.sees(first.workload, ".table")
    await server.followed()
    first.workload, server.world.numbering = "Job/quite-another", "second"
    server.anew()
    await tab.sees("Job/quite-another", ".table")


async def test_where_nothing_waits_and_nothing_is_it_says_so(mock, page):
    server = await mock(gpus=0, waiting=0)
    tab = await page(server, "#/waiting")
    await tab.sees("Nothing waits")
    await tab.goto(f"{server.url}?again#/cluster")
    await tab.sees("There are no nodes")


async def test_filters_that_nothing_passes_can_be_taken_away(mock, page):
    tab = await page(await mock(waiting=5), "#/waiting?text=nothing-is-called-so")
    await tab.sees("Nothing of this kind waits")
    await tab.click(".notice button")
    await tab.has("tr[data-row]", 5)


async def test_a_scheduler_that_has_told_nothing_yet_is_waited_for(mock, page):
    server = await mock(reason="the scheduler's next base comes within 5 minutes")
    tab = await page(server, "#/cluster")
    await tab.sees("next base comes within 5 minutes", ".notice")
    server.reason = ""
    await tab.has(".map canvas")


async def test_without_a_past_the_views_of_it_say_how_to_have_one(mock, page):
    server = await mock(history=False)
    tab = await page(server, "#/time")
    await tab.sees("kai local up --history")


async def test_who_may_not_list_nodes_or_queues_is_told_so(mock, page):
    server = await mock(sees={"nodes": False, "queues": False, "allNamespaces": False}, hidden=4)
    tab = await page(server, "#/cluster")
    await tab.sees("map is for those who may list nodes and queues")
    await tab.goto(f"{server.url}?again#/queues")
    await tab.sees("who may list queues.scheduling.run.ai")
    await tab.goto(f"{server.url}?more#/waiting")
    await tab.sees("4 more wait in namespaces that you may not see")


async def test_a_picture_that_is_old_is_said_to_be(mock, page):
    server = await mock(source="insight", old="no scheduler has told anything for 3 minutes")
    tab = await page(server, "#/cluster")
    await tab.sees("What is shown is old: no scheduler has told anything for 3 minutes")
    await tab.has(".map canvas")


async def test_what_ones_rights_leave_out_is_said(mock, page):
    server = await mock(old="you may not list and watch priorityclasses")
    tab = await page(server, "#/waiting")
    await tab.sees("Not all is shown: you may not list and watch priorityclasses")


async def test_what_cannot_be_explained_says_why_and_what_was_found_last(mock, page):
    server = await mock(waiting=20, unanswered="there are more than 20,000 pods")
    row = next(each for each in server.world.waiting if each["code"] == "NotEnoughFree")
    tab = await page(server, f"#/waiting?open={row['namespace']}/{row['name']}")
    await tab.sees("there are more than 20,000 pods", ".pane")
    await tab.sees("NotEnoughFree", ".pane")


async def test_insight_takes_no_manifests_and_says_what_does_before_any_are_pasted(mock, page):
    tab = await page(await mock(source="insight"), "#/what-if")
    await tab.choose(".choice button", "A manifest")
    await tab.sees("kai what-if -f manifest.yaml", ".what-if-ask")
    await tab.sees("kai ui", ".what-if-ask")
    assert await tab.count("#manifests") == 0
