"""Following a kind through everything that can happen to a watch."""

import asyncio
import json

import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from deadlines import eventually, within
from kai.kube import errors, reflector
from kai.kube.client import KubeClient
from kai.kube.reflector import Reflector, Removed, Synced, Unreadable, Upserted
from kai.kube.resources import PODS, RESOURCE_CLAIMS
from kai.kube.store import Store
from kai.model.dra import ResourceClaim
from kai.model.objects import Pod

PATH = "/api/v1/pods"


def a_pod(name, *, version, uid=None, node=""):
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "managedFields": [{"manager": "someone"}],
        },
        "spec": {"nodeName": node},
    }


def event(kind, obj):
    return {"type": kind, "object": obj}


def bookmark(version, *, end=False):
    metadata = {"resourceVersion": str(version)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "Pod", "metadata": metadata})


def expired():
    return event(
        "ERROR", {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "old"}
    )


class Following:
    """A reflector at work, with what it told as short words."""

    def __init__(self, client, *, res=PODS, as_type=Pod, **options):
        self.reflector = Reflector(client, res, as_type, **options)
        self.told = []
        #: Objects as they were told, by name.
        self.seen = {}
        self.changed = asyncio.Condition()

    def sink(self, change):
        match change:
            case Upserted(obj, old_known):
                name = obj["metadata"]["name"] if isinstance(obj, dict) else obj.metadata.name
                self.seen[name] = obj
                self.told.append(f"{'~' if old_known else '+'}{name}")
            case Removed(obj_key, _, last_known):
                self.told.append(f"-{obj_key}{'' if last_known else '?'}")
            case Unreadable(obj_key):
                self.told.append(f"!{obj_key}")
            case Synced():
                self.told.append("synced")

    async def __aenter__(self):
        self.task = asyncio.create_task(self.reflector.run(self.sink))
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.wait([self.task])

    async def until(self, *told):
        await eventually(
            lambda: self.told[-len(told) :], lambda seen: seen == list(told), what=f"{told} told"
        )


async def test_the_list_comes_as_a_stream_and_changes_follow(client, server, answers):
    server.script(
        "GET",
        PATH,
        answers.stream(
            event("ADDED", a_pod("a", version=1)),
            event("ADDED", a_pod("b", version=2)),
            bookmark(5, end=True),
            event("MODIFIED", a_pod("a", version=6)),
            event("DELETED", a_pod("b", version=7)),
            hold=True,
        ),
    )
    async with Following(client, label_selector="x=y") as following:
        await following.until("+a", "+b", "synced", "~a", "-team/b")
        assert following.reflector.synced.is_set()
    query = server.received("GET", PATH)[0].query
    assert query["sendInitialEvents"] == "true"
    assert query["labelSelector"] == "x=y"


async def test_the_metrics_tell_of_the_objects_that_there_are_now(server, answers, tmp_path):
    server.script(
        "GET",
        PATH,
        answers.stream(
            event("ADDED", a_pod("a", version=1)),
            bookmark(5, end=True),
            event("ADDED", a_pod("b", version=6)),
            event("ADDED", a_pod("c", version=7)),
            event("DELETED", a_pod("a", version=8)),
            hold=True,
        ),
    )
    registry = CollectorRegistry()

    def known():
        return registry.get_sample_value("kai_api_watched_objects", {"resource": "pods"})

    async with KubeClient.connect(server.kubeconfig(tmp_path), registry=registry) as client:
        async with Following(client), Following(client):
            await eventually(known, lambda count: count == 4, what="two pods, known by each of two watches")
        assert known() == 0


async def test_a_broken_watch_resumes_where_it_was(client, server, answers):
    server.script(
        "GET",
        PATH,
        answers.stream(event("ADDED", a_pod("a", version=1)), bookmark(5, end=True), bookmark(8), cut=True),
        answers.refusal(500),
        answers.stream(event("MODIFIED", a_pod("a", version=9)), hold=True),
    )
    async with Following(client) as following:
        await following.until("+a", "synced", "~a")
        assert following.reflector.relists == 0
    assert [r.query.get("resourceVersion") for r in server.received("GET", PATH)] == [None, "8", "8"]


async def test_a_watch_that_stays_silent_from_its_beginning_is_read_again_from_a_list(
    client, server, answers, monkeypatch
):
    """As one from a version that is yet to come, since the server's store is older than it was."""
    monkeypatch.setattr(reflector, "SILENCE_SECONDS", 0.2)
    server.script(
        "GET",
        PATH,
        answers.stream(event("ADDED", a_pod("a", version=1)), bookmark(900, end=True), hold=True),
        answers.stream(hold=True),
        answers.stream(event("ADDED", a_pod("b", version=3)), bookmark(5, end=True), hold=True),
    )
    async with Following(client) as following:
        await following.until("+a", "synced", "+b", "-team/a?", "synced")
        assert following.reflector.relists == 1
    asked = [r.query.get("resourceVersion") for r in server.received("GET", PATH)]
    assert asked[:3] == [None, "900", None]


def a_restored_server(server, answers, *, watch_list):
    """Whose watch tells of the pod "ghost" at 5000, and goes on from there; its store is of 4003 since."""
    listed = [event("ADDED", a_pod("stays", version=1)), bookmark(3000, end=True)]
    before = [event("ADDED", a_pod("ghost", version=5000))]
    resumed = answers.stream(bookmark(5003), hold=True)
    restored = {"items": [a_pod("stays", version=1)], "metadata": {"resourceVersion": "4003"}}
    streamed = [event("ADDED", a_pod("stays", version=1)), bookmark(4003, end=True)]

    async def answer(request):
        if "watch" not in request.query:
            return await answers.json(restored)(request)
        if request.query.get("resourceVersion") == "5000":
            return await resumed(request)
        if "resourceVersion" in request.query:
            return await answers.stream(hold=True)(request)
        return await answers.stream(*streamed, hold=True)(request)

    first = {"items": [a_pod("stays", version=1)], "metadata": {"resourceVersion": "3000"}}
    beginning = (
        [answers.stream(*listed, *before, cut=True)]
        if watch_list
        else [answers.json(first), answers.stream(*before, cut=True)]
    )
    server.newest = "4003"
    server.script("GET", PATH, *beginning, answer)


@pytest.mark.parametrize("watch_list", [True, False])
async def test_after_the_server_s_store_was_restored_from_a_backup_everything_is_read_again(
    client, server, answers, watch_list
):
    """Though it takes a watch from our version, and passes it soon: what was undone it never tells."""
    a_restored_server(server, answers, watch_list=watch_list)
    async with Following(client, watch_list=watch_list) as following:
        await following.until("+stays", "synced", "+ghost", "~stays", "-team/ghost?", "synced")
        assert following.reflector.relists == 1
    assert {each.query["limit"] for each in server.comparisons} == {"1"}
    assert "resourceVersion" not in server.comparisons[0].query


@pytest.mark.parametrize(("newest", "resumed"), [("8", True), ("7", False), ("a7", True)])
async def test_versions_are_compared_as_numbers_where_they_are_numbers(
    client, server, answers, newest, resumed
):
    server.newest = newest

    async def again(request):
        version = request.query.get("resourceVersion", "")
        went_on = answers.stream(event("ADDED", a_pod(f"from-{version}", version=9)), hold=True)
        listed = answers.stream(bookmark(7, end=True), hold=True)
        return await (went_on if version else listed)(request)

    server.script("GET", PATH, answers.stream(bookmark(5, end=True), bookmark(8), cut=True), again)
    async with Following(client) as following:
        await following.until("synced", "+from-8" if resumed else "synced")


async def test_a_watch_that_lasted_as_long_as_it_was_asked_to_is_resumed_at_once(
    client, server, answers, monkeypatch
):
    monkeypatch.setattr(reflector, "WATCH_SECONDS", 0)
    server.script(
        "GET",
        PATH,
        answers.stream(bookmark(5, end=True)),
        answers.stream(event("ADDED", a_pod("a", version=6)), hold=True),
    )
    async with Following(client) as following:
        await following.until("synced", "+a")
    assert server.comparisons == []


async def test_that_the_server_is_gone_is_told_at_the_third_failure(client, server, answers):
    server.script("GET", PATH, answers.stream(bookmark(5, end=True), hold=True))
    with capture_logs() as logs:
        async with Following(client) as following:
            await following.until("synced")
            await server.stop()
            told = await eventually(
                lambda: [line for line in logs if line["event"] == "watch failed"], bool, what="failure told"
            )
    assert "cannot connect" in told[0]["error"]
    # Repeated by the watch alone: what is asked again below it is told by nobody.
    assert not [each for each in client.metrics.retries.collect()[0].samples if each.value]


@pytest.mark.parametrize(
    ("field_selector", "kept"),
    [
        ("metadata.name=own", {"fieldSelector": "metadata.name=own"}),
        ("status.phase!=Failed,metadata.name==own", {"fieldSelector": "metadata.name==own"}),
        ("spec.schedulerName=kai,metadata.name!=own", {}),
    ],
)
async def test_how_far_the_server_is_is_asked_without_selectors_that_make_it_search(
    client, server, answers, field_selector, kept
):
    """Objects that match may be far apart, and all between are read; on a name rights may hang."""
    server.script(
        "GET",
        "/api/v1/namespaces/team/pods",
        answers.stream(bookmark(5, end=True), cut=True),
        answers.stream(event("ADDED", a_pod("a", version=6)), hold=True),
    )
    selected = {"label_selector": "x=y", "field_selector": field_selector}
    async with Following(client, namespace="team", **selected) as following:
        await following.until("synced", "+a")
    [asked] = server.comparisons
    assert (asked.path, asked.query) == ("/api/v1/namespaces/team/pods", {"limit": "1", **kept})


@pytest.mark.parametrize("how", ["event", "status"])
async def test_after_410_everything_is_read_again_and_what_vanished_is_told(client, server, answers, how):
    server.script(
        "GET",
        PATH,
        answers.stream(
            event("ADDED", a_pod("stays", version=1)),
            event("ADDED", a_pod("goes", version=2)),
            bookmark(5, end=True),
        ),
        answers.stream(expired()) if how == "event" else answers.refusal(410),
        answers.stream(event("ADDED", a_pod("stays", version=1)), bookmark(9, end=True), hold=True),
    )
    async with Following(client) as following:
        await following.until("+stays", "+goes", "synced", "~stays", "-team/goes?", "synced")
        assert following.reflector.relists == 1


async def test_a_server_that_forgets_each_list_at_once_is_asked_for_the_next_ever_later(
    client, server, answers
):
    async def answer(request):
        listed = {"items": [], "metadata": {"resourceVersion": "5"}}
        return await (answers.refusal(410) if "watch" in request.query else answers.json(listed))(request)

    server.script("GET", PATH, answer)
    clock = asyncio.get_running_loop().time
    began = clock()
    async with Following(client, watch_list=False) as following:
        await eventually(lambda: following.reflector.relists, lambda count: count >= 3, what="three relists")
    assert clock() - began > 1.0


async def test_an_object_created_again_while_nobody_looked_is_another_object(client, server, answers):
    server.script(
        "GET",
        PATH,
        answers.stream(event("ADDED", a_pod("a", version=1, uid="first")), bookmark(5, end=True), expired()),
        answers.stream(event("ADDED", a_pod("a", version=8, uid="second")), bookmark(9, end=True), hold=True),
    )
    async with Following(client) as following:
        await following.until("+a", "synced", "-team/a?", "+a", "synced")


async def test_a_server_that_refuses_to_stream_lists_is_asked_for_pages(client, server, answers):
    server.script(
        "GET",
        PATH,
        answers.refusal(422, reason="Invalid", message="sendInitialEvents is forbidden"),
        answers.json(
            {"items": [a_pod("a", version=1)], "metadata": {"resourceVersion": "4", "continue": "c"}}
        ),
        answers.json({"items": [a_pod("b", version=2)], "metadata": {"resourceVersion": "4"}}),
        answers.stream(event("DELETED", a_pod("a", version=5)), hold=True),
    )
    async with Following(client) as following:
        await following.until("+a", "+b", "synced", "-team/a")
    assert server.received("GET", PATH)[-1].query["resourceVersion"] == "4"


async def test_a_server_that_ignores_the_wish_for_initial_events_is_asked_for_pages(
    client, server, answers, monkeypatch
):
    monkeypatch.setattr(reflector, "INITIAL_SILENCE_SECONDS", 0.05)
    server.script(
        "GET",
        PATH,
        answers.stream(event("ADDED", a_pod("a", version=1)), hold=True),
        answers.json({"items": [a_pod("a", version=1)], "metadata": {"resourceVersion": "4"}}),
        answers.stream(hold=True),
    )
    async with Following(client) as following:
        await following.until("+a", "~a", "synced")


async def test_a_stream_that_ends_amid_the_list_does_not_remove_what_it_did_not_get_to(
    client, server, answers
):
    server.script(
        "GET",
        PATH,
        answers.stream(
            event("ADDED", a_pod("a", version=1)), event("ADDED", a_pod("b", version=2)), cut=True
        ),
        answers.stream(
            event("ADDED", a_pod("a", version=1)),
            event("ADDED", a_pod("b", version=2)),
            bookmark(5, end=True),
            hold=True,
        ),
    )
    async with Following(client) as following:
        await following.until("+a", "+b", "~a", "~b", "synced")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"kind": "Status", "status": "Failure", "code": 500, "message": "no"}, id="status"),
        pytest.param({"message": "back soon"}, id="foreign"),
        pytest.param({"items": [], "metadata": {}}, id="no version"),
    ],
)
async def test_an_answer_that_is_no_list_takes_nothing_away(client, server, answers, answer):
    listed = {"items": [a_pod("a", version=1)], "metadata": {"resourceVersion": "5"}}
    server.script(
        "GET",
        PATH,
        answers.json(listed),
        answers.refusal(410),
        answers.json(answer),
        answers.json(listed | {"items": [a_pod("b", version=7)]}),
        answers.stream(hold=True),
    )
    async with Following(client, watch_list=False) as following:
        await following.until("+a", "synced", "+b", "-team/a?", "synced")


async def test_an_event_split_over_chunks_is_one_event(client, server, answers):
    import json

    line = json.dumps(event("ADDED", a_pod("a", version=1))).encode() + b"\n"
    server.script(
        "GET",
        PATH,
        answers.stream(
            line[:20], line[20:90], line[90:] + line[:5], line[5:], bookmark(5, end=True), hold=True
        ),
    )
    async with Following(client) as following:
        await following.until("+a", "~a", "synced")


async def test_a_line_that_cannot_be_understood_is_read_again_and_never_skipped(client, server, answers):
    server.script(
        "GET",
        PATH,
        answers.stream(event("ADDED", a_pod("a", version=1)), bookmark(5, end=True), b"{nonsense\n"),
        answers.stream(event("MODIFIED", a_pod("a", version=6)), hold=True),
    )
    async with Following(client) as following:
        await following.until("+a", "synced", "~a")
    assert server.received("GET", PATH)[-1].query["resourceVersion"] == "5"


@pytest.mark.parametrize("status", [404, 403])
async def test_an_optional_kind_that_is_not_served_counts_as_empty(
    client, server, answers, monkeypatch, status
):
    monkeypatch.setattr(reflector, "FORBIDDEN_SECONDS", 0.01)
    server.script("GET", PATH, answers.refusal(status))
    async with Following(client, optional=True) as following:
        await following.until("synced")


async def test_a_refusal_at_the_start_is_no_absence_unless_it_lasts(client, server, answers):
    """A server that has just started has not read its roles yet."""
    there = answers.stream(event("ADDED", a_pod("a", version=1)), bookmark(5, end=True), hold=True)
    server.script("GET", PATH, answers.refusal(403), answers.refusal(403), there)
    async with Following(client, optional=True) as following:
        await following.until("+a", "synced")
    assert following.told == ["+a", "synced"]


async def test_a_refusal_takes_nothing_from_what_is_known_of_an_optional_kind(
    client, server, answers, monkeypatch
):
    monkeypatch.setattr(reflector, "FORBIDDEN_SECONDS", 0.0)
    server.script(
        "GET",
        PATH,
        answers.stream(event("ADDED", a_pod("a", version=1)), bookmark(5, end=True)),
        answers.refusal(403),
        answers.refusal(403),
        answers.stream(event("MODIFIED", a_pod("a", version=9)), hold=True),
    )
    async with Following(client, optional=True) as following:
        await following.until("+a", "synced", "~a")
    assert following.told == ["+a", "synced", "~a"]
    assert server.received("GET", PATH)[-1].query["resourceVersion"] == "5"


async def test_looking_again_for_a_kind_that_is_not_served_is_no_relist(client, server, answers, monkeypatch):
    monkeypatch.setattr(reflector, "ABSENT_PERIOD_SECONDS", 0.01)
    there = answers.stream(event("ADDED", a_pod("a", version=1)), bookmark(5, end=True), hold=True)
    server.script("GET", PATH, answers.refusal(404), answers.refusal(404), there)
    async with Following(client, optional=True) as following:
        await following.until("synced", "synced", "+a", "synced")
    assert following.reflector.relists == 0


def claims(version):
    return f"/apis/resource.k8s.io/{version}/resourceclaims"


def a_claim(name, *, version):
    requests = [{"name": "r", "deviceClassName": "gpu.example.com", "count": 2}]
    return a_pod(name, version=version) | {"spec": {"devices": {"requests": requests}}}


@pytest.mark.parametrize("as_type", [dict, ResourceClaim])
@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_kind_is_followed_in_the_newest_version_that_is_served(
    client, server, answers, as_type, watch_list
):
    """And told in the form of the newest that there is; items of lists do not say of which they are."""
    for version in ("v1", "v1beta2"):
        server.script("GET", claims(version), answers.refusal(404))
    there = a_claim("a", version=1)
    if watch_list:
        server.script(
            "GET", claims("v1beta1"), answers.stream(event("ADDED", there), bookmark(5, end=True), hold=True)
        )
    else:
        page = {"items": [there], "metadata": {"resourceVersion": "5"}}
        server.script("GET", claims("v1beta1"), answers.json(page), answers.stream(hold=True))
    options = {"res": RESOURCE_CLAIMS, "as_type": as_type, "optional": True, "watch_list": watch_list}
    async with Following(client, **options) as following:
        await following.until("+a", "synced")
    assert following.reflector.form.resource.version == "v1beta1"
    found = msgspec.convert(msgspec.to_builtins(following.seen["a"]), ResourceClaim)
    assert found.spec.devices.requests[0].exactly.count == 2


async def test_a_version_that_is_served_no_longer_is_left_for_another(client, server, answers):
    """What exists in both is told again as what is known, and nothing as gone."""
    server.script(
        "GET",
        claims("v1"),
        answers.stream(event("ADDED", a_claim("a", version=1)), bookmark(5, end=True)),
        answers.refusal(404),
    )
    there = answers.stream(event("ADDED", a_claim("a", version=6)), bookmark(7, end=True), hold=True)
    server.script("GET", claims("v1beta2"), there)
    async with Following(client, res=RESOURCE_CLAIMS, as_type=dict, optional=True) as following:
        await following.until("+a", "synced", "~a", "synced")


async def test_a_kind_of_which_no_version_is_served_is_looked_for_in_all_of_them_again(
    client, server, answers, monkeypatch
):
    monkeypatch.setattr(reflector, "ABSENT_PERIOD_SECONDS", 0.01)
    gone = (answers.refusal(404), answers.refusal(404))
    there = answers.stream(event("ADDED", a_claim("a", version=1)), bookmark(5, end=True), hold=True)
    server.script("GET", claims("v1"), *gone, there)
    for version in ("v1beta2", "v1beta1"):
        server.script("GET", claims(version), *gone)
    async with Following(client, res=RESOURCE_CLAIMS, as_type=dict, optional=True) as following:
        await following.until("synced", "synced", "+a", "synced")
    assert following.reflector.relists == 0


async def test_lost_credentials_end_the_reflector(client, server, answers):
    server.script("GET", PATH, answers.refusal(401, message="expired"))
    with pytest.raises(errors.Unauthorized):
        await Reflector(client, PODS, Pod).run(lambda change: None)


async def test_objects_can_be_followed_as_plain_json(client, server, answers):
    server.script(
        "GET", PATH, answers.stream(event("ADDED", a_pod("a", version=1)), bookmark(5, end=True), hold=True)
    )
    told = []
    following = Reflector(client, PODS, dict)
    task = asyncio.create_task(following.run(told.append))
    async with within("the reflector is synced"):
        await following.synced.wait()
    task.cancel()
    assert told[0] == Upserted(a_pod("a", version=1), False)


async def test_what_a_list_tells_is_marked_and_what_happens_afterwards_is_not(client, server, answers):
    later = event("MODIFIED", a_pod("a", version=10))
    server.script(
        "GET",
        PATH,
        answers.stream(event("ADDED", a_pod("a", version=9)), bookmark(9, end=True), later, expired()),
        answers.stream(event("ADDED", a_pod("a", version=3)), bookmark(4, end=True), hold=True),
    )
    told = []
    task = asyncio.create_task(Reflector(client, PODS, dict).run(told.append))
    await eventually(lambda: told.count(Synced()), lambda times: times == 2)
    task.cancel()
    assert [each.listed for each in told if isinstance(each, Upserted)] == [True, False, True]


async def test_a_store_finds_objects_by_key_and_by_index(client, server, answers):
    server.script(
        "GET",
        PATH,
        answers.stream(
            event("ADDED", a_pod("a", version=1, node="n1")),
            event("ADDED", a_pod("b", version=2, node="n1")),
            bookmark(5, end=True),
            event("MODIFIED", a_pod("a", version=6, node="n2")),
            event("DELETED", a_pod("b", version=7, node="n1")),
            hold=True,
        ),
    )
    store = Store(indexes={"node": lambda pod: (pod.spec.node_name,)})
    changes = []
    store.listen(lambda old, new: changes.append((old and old.spec.node_name, new and new.spec.node_name)))
    task = asyncio.create_task(Reflector(client, PODS, Pod).run(store))
    await eventually(lambda: changes, lambda seen: len(seen) >= 4)
    task.cancel()
    assert [pod.key for pod in store] == ["team/a"]
    assert [pod.key for pod in store.by_index("node", "n2")] == ["team/a"]
    assert store.by_index("node", "n1") == []
    assert list(store.values_of("node")) == ["n2"]
    assert changes == [(None, "n1"), (None, "n1"), ("n1", "n2"), ("n1", None)]


def raw_event(kind, name, value, *, version):
    """An object with something in it that no fixed shape bounds."""
    text = (
        f'{{"type":"{kind}","object":{{"kind":"Pod","metadata":{{"name":"{name}","namespace":"team",'
        f'"uid":"uid-{name}","resourceVersion":"{version}","annotations":{{"x":"[{{1e999"}}}},'
        f'"spec":{{"nodeName":"n1","parameters":{value}}}}}}}\n'
    )
    return text.encode()


HOSTILE = {
    "a number that nothing can hold": "1e400",
    "ten thousand lists in each other": "[" * 10_000 + "]" * 10_000,
    "two thousand objects in each other": '{"a":' * 2_000 + "1e999" + "}" * 2_000,
}


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
async def test_one_object_that_nobody_can_read_keeps_no_other_from_us(client, server, answers, value):
    server.script(
        "GET",
        PATH,
        answers.stream(
            event("ADDED", a_pod("a", version=1)),
            raw_event("ADDED", "bad", value, version=2),
            event("ADDED", a_pod("b", version=3)),
            bookmark(5, end=True),
            raw_event("MODIFIED", "bad", value, version=6),
            raw_event("DELETED", "bad", value, version=7),
            event("MODIFIED", a_pod("b", version=8)),
            hold=True,
        ),
    )
    async with Following(client, as_type=dict) as following:
        await following.until("+a", "!team/bad", "+b", "synced", "!team/bad", "-team/bad?", "~b")
    assert len(server.received("GET", PATH)) == 1


async def test_what_is_not_looked_at_may_be_nested_as_deep_as_it_likes(client, server, answers):
    deep = HOSTILE["ten thousand lists in each other"]
    server.script(
        "GET",
        PATH,
        answers.stream(raw_event("ADDED", "deep", deep, version=1), bookmark(5, end=True), hold=True),
    )
    async with Following(client) as following:
        await following.until("+deep", "synced")


async def test_an_object_over_which_a_sink_fails_keeps_no_other_from_it(client, server, answers):
    stream = [event("ADDED", a_pod(name, version=1)) for name in "abc"]
    server.script("GET", PATH, answers.stream(*stream, bookmark(5, end=True), hold=True))
    following = Following(client)
    sink = following.sink

    def fragile(change):
        if isinstance(change, Upserted) and change.obj.metadata.name == "b":
            raise ZeroDivisionError
        sink(change)

    following.sink = fragile
    async with following:
        await following.until("+a", "!team/b", "+c", "synced")


async def test_the_end_of_an_object_over_which_a_sink_fails_keeps_no_other_from_it(client, server, answers):
    stream = [event("ADDED", a_pod(name, version=1)) for name in "ab"]
    ends = [event("DELETED", a_pod(name, version=7)) for name in "ab"]
    server.script("GET", PATH, answers.stream(*stream, bookmark(5, end=True), *ends, hold=True))
    following = Following(client)
    sink = following.sink

    def fragile(change):
        if isinstance(change, Removed) and change.obj_key == "team/a":
            raise ZeroDivisionError
        sink(change)

    following.sink = fragile
    async with following:
        await following.until("+a", "+b", "synced", "-team/b")


async def test_an_object_of_another_type_stops_no_page_of_a_list(client, server, answers):
    items = [a_pod(name, version=number) for number, name in enumerate("abc")]
    items[1]["spec"]["nodeName"] = 7
    page = answers.json({"items": items, "metadata": {"resourceVersion": "5"}})
    server.script("GET", PATH, page, answers.stream(hold=True))
    async with Following(client, watch_list=False) as following:
        await following.until("+a", "!team/b", "+c", "synced")


async def test_an_object_nested_too_deep_stops_no_page_of_a_list(client, server, answers):
    deep = HOSTILE["two thousand objects in each other"]
    items = [a_pod(name, version=number) for number, name in enumerate("abc")]
    items[1]["spec"]["parameters"] = "deep"
    body = json.dumps({"items": items, "metadata": {"resourceVersion": "5"}}).replace('"deep"', deep)

    async def page(request):
        return web.Response(body=body.encode(), content_type="application/json")

    server.script("GET", PATH, page, answers.stream(hold=True))
    async with Following(client, watch_list=False, as_type=dict) as following:
        await following.until("+a", "+b", "+c", "synced")
