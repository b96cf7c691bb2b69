"""What waits is looked at between cycles, and whoever listens is told what is found, and no more."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from deadlines import eventually
from kai.answers.answering import answer_pod_group
from kai.model.objects import PodGroupStatus, SchedulingCondition
from kai.model.verdicts import GroupVerdict
from kai.replay.cycles import Replay, read_cycle
from kai.snapshot.kinds import Kind
from kai.wire.verdicts import VerdictNews, decode_verdicts, encode_verdicts
from kai_insight import examiner as examiner_module
from kai_insight import verdicts as module
from kai_insight.checker import Checker, Examination
from kai_insight.examiner import Examiner
from kai_insight.metrics import ReplayMetrics, VerdictMetrics
from kai_insight.verdicts import Verdicts
from libs.tests.engine.builders import a_job, a_node, world_of
from services.tests.insight.recording import Recording

LARGE = "default/large"


def a_verdict(name="job", *, uid="", verdict="WAIT", code="OthersFirst", text="others come first"):
    return GroupVerdict(pod_group=f"team/{name}", uid=uid, verdict=verdict, code=code, text=text)


class Listening:
    """Takes what one who listens is told."""

    def __init__(self, verdicts, **more):
        self._news = verdicts.watch(**more)

    async def next(self):
        news = await anext(self._news)
        return {each.pod_group: each.text for each in news.told}, set(news.forgotten)

    async def close(self):
        await self._news.aclose()


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def verdicts(registry, clock):
    return Verdicts(VerdictMetrics(registry), clock=clock)


def take(verdicts, *found, shard="a", waiting=()):
    told = {each.pod_group: each for each in found}
    verdicts.take(shard, told, waiting={*told, *waiting})


# --- what is told ----------------------------------------------------------------------------------
async def test_who_listens_is_told_all_that_is_known_and_then_what_changes(verdicts):
    take(verdicts, a_verdict("one"), a_verdict("two"))
    listening = Listening(verdicts)
    assert await listening.next() == (
        {"team/one": "others come first", "team/two": "others come first"},
        set(),
    )
    take(verdicts, a_verdict("one"), a_verdict("two", verdict="ESCALATE", text="other"), a_verdict("three"))
    take(verdicts, a_verdict("one"), waiting={"team/two"})
    assert await listening.next() == ({"team/two": "other"}, {"team/three"})
    await listening.close()


async def test_another_number_in_a_text_is_told_once_in_a_while(verdicts, clock):
    take(verdicts, a_verdict(text="1 is free"))
    listening = Listening(verdicts)
    await listening.next()
    for seconds, text in ((0, "2 are free"), (module.REFRESH_SECONDS, "3 are free")):
        clock.now = seconds
        take(verdicts, a_verdict(text=text))
    assert await listening.next() == ({"team/job": "3 are free"}, set())
    await listening.close()


async def test_who_let_go_of_what_was_told_is_told_it_again_once_in_a_while(verdicts, clock):
    take(verdicts, a_verdict())
    listening = Listening(verdicts, heartbeat=0.0)
    told = await listening.next()
    for seconds, news in ((module.REFRESH_SECONDS - 1, ({}, set())), (module.REFRESH_SECONDS, told)):
        clock.now = seconds
        take(verdicts, a_verdict())
        assert await listening.next() == news
    await listening.close()


async def test_shards_have_groups_of_their_own(verdicts):
    take(verdicts, a_verdict("one"), shard="a")
    take(verdicts, a_verdict("two"), shard="b")
    listening = Listening(verdicts)
    await listening.next()
    verdicts.take("a", {"team/two": None}, waiting={"team/one", "team/two"})
    verdicts.drop("b")
    assert await listening.next() == ({}, {"team/two"})
    await listening.close()


@pytest.mark.looptime
async def test_silence_is_broken_by_nothing_at_all(verdicts):
    listening = Listening(verdicts, heartbeat=30)
    await listening.next()
    began = asyncio.get_running_loop().time()
    assert await listening.next() == ({}, set())
    assert asyncio.get_running_loop().time() - began == pytest.approx(30, abs=1)
    await listening.close()


async def test_who_listens_is_let_go_when_this_process_finds_none_any_more(verdicts, registry):
    with verdicts.found():
        take(verdicts, a_verdict())
        value = registry.get_sample_value
        labels = {"verdict": "WAIT", "code": "OthersFirst"}
        assert value("kai_verdict_pod_groups", labels) == 1
        listening = Listening(verdicts)
        await listening.next()
    with pytest.raises(StopAsyncIteration):
        await listening.next()
    assert value("kai_verdict_pod_groups", labels) == 0
    assert not verdicts.open


def test_many_go_in_several_messages_of_which_none_says_more_than_it_has():
    told = tuple(a_verdict(f"job-{number}", uid=str(number)) for number in range(1200))
    news = VerdictNews(told=told, forgotten=("team/gone",))
    messages = list(encode_verdicts(news))
    parts = [decode_verdicts(message) for message in messages]
    assert [len(part.told) for part in parts] == [500, 500, 200]
    assert sum((part.told for part in parts), ()) == told
    assert sum((part.forgotten for part in parts), ()) == ("team/gone",)
    assert [decode_verdicts(each) for each in encode_verdicts(VerdictNews())] == [VerdictNews()]


# --- what is found ---------------------------------------------------------------------------------
@pytest.fixture
def recording():
    """A scheduler whose one node has 8 GPUs, and a job that wants 16 of them for a pod."""
    made = Recording()
    for kind, obj in world_of(a_job("large", gpus=16)):
        made.state.apply(kind, obj)
    return made


def looked(examiner, made):
    taken = examiner.take(made)
    return {} if taken is None else examiner.find(taken)


def replay(recording):
    made = Replay(recording.base().data)
    made.decide(read_cycle(recording.cycle().data))
    return made


def test_what_waits_gets_the_verdict_that_kai_explain_tells(recording):
    examiner = Examiner(most_pods=10)
    found = looked(examiner, replay(recording))
    assert examiner.waiting == {LARGE}
    assert (found[LARGE].verdict, found[LARGE].code) == ("NEVER", "TooLarge")
    assert found[LARGE].uid == "large"
    assert "asks for 16 GPUs; the largest node, n, has 8 GPUs" in found[LARGE].text


def test_a_look_changes_nothing_that_is_decided_later(recording):
    made, examiner = replay(recording), Examiner(most_pods=10)
    for _ in range(3):
        looked(examiner, made)
        assert made.decide(read_cycle(recording.cycle().data)).same


def test_a_group_that_cannot_be_looked_at_keeps_no_other_from_its_verdict(recording, monkeypatch):
    for kind, obj in world_of(a_job("more", gpus=17)):
        recording.state.apply(kind, obj)

    def failing(situation, key, **more):
        if key == LARGE:
            raise ArithmeticError(key)
        return answer_pod_group(situation, key, **more)

    monkeypatch.setattr(examiner_module, "answer_pod_group", failing)
    examiner, made = Examiner(most_pods=10), replay(recording)
    with capture_logs() as logs:
        looks = [looked(examiner, made) for _ in range(2)]
    assert looks[0] == {LARGE: None}
    assert looks[1]["default/more"].code == "TooLarge"
    assert {(each["log_level"], each["pod_group"]) for each in logs if "pod_group" in each} == {
        ("error", LARGE)
    }


def test_who_was_not_looked_at_for_lack_of_time_is_first_the_next_time(recording):
    for number in range(3):
        for kind, obj in world_of(a_job(f"more-{number}", gpus=17 + number)):
            recording.state.apply(kind, obj)
    ticks = iter(range(100))
    examiner = Examiner(most_pods=10, seconds=1.5, clock=lambda: next(ticks))
    made = replay(recording)
    looks = [set(looked(examiner, made)) for _ in range(4)]
    assert len(looks[0]) < 4
    assert set().union(*looks) == {LARGE, "default/more-0", "default/more-1", "default/more-2"}


def test_what_is_found_of_one_holds_for_those_alike_in_their_own_names(recording):
    for kind, obj in world_of(a_job("large-1", gpus=16), a_job("large-1-1", gpus=16), a_job("more", gpus=17)):
        recording.state.apply(kind, obj)
    ticks = iter(range(100))
    examiner = Examiner(most_pods=10, seconds=1.5, clock=lambda: next(ticks))
    found = looked(examiner, replay(recording))
    assert {key: each.text.partition(" asks")[0] for key, each in found.items()} == {
        LARGE: "pod large-0",
        "default/large-1": "pod large-1-0",
        "default/large-1-1": "pod large-1-1-0",
    }
    assert {each.uid for each in found.values()} == {"large", "large-1", "large-1-1"}


def test_one_that_had_its_single_attempt_is_like_none_that_is_tried_still(recording):
    group, pod = a_job("attempted", gpus=16)
    told = SchedulingCondition(type="UnschedulableOnNodePool", node_pool="default", message="no room")
    group.spec.scheduling_backoff = 1
    group.status = PodGroupStatus(scheduling_conditions=[told])
    for kind, obj in world_of([group, pod]):
        recording.state.apply(kind, obj)
    found = looked(Examiner(most_pods=10), replay(recording))
    assert {key: each.code for key, each in found.items()} == {
        LARGE: "TooLarge",
        "default/attempted": "GivenUp",
    }


def test_where_nothing_happens_nothing_is_looked_at_for_a_minute(recording):
    now = [1000.0]
    examiner, made = Examiner(most_pods=10, now=lambda: now[0]), replay(recording)
    looks = []
    for seconds in (0, 10, 59, 61, 62):
        now[0] = 1000.0 + seconds
        looks.append(set(looked(examiner, made)))
    assert looks == [{LARGE}, set(), set(), {LARGE}, set()]
    made.decide(read_cycle(recording.cycle().data))
    assert set(looked(examiner, made)) == {LARGE}


def test_a_cluster_that_is_too_large_to_copy_is_not_looked_at_and_the_log_says_so_once(recording):
    examiner, made = Examiner(most_pods=1), replay(recording)
    with capture_logs() as logged:
        assert [looked(examiner, made) for _ in range(3)] == [{}, {}, {}]
    assert len(logged) == 1


async def test_what_was_found_does_not_stand_in_a_cluster_that_has_grown_too_large(recording, registry):
    verdicts = Verdicts(VerdictMetrics(registry))
    most = len(recording.state.tasks) + 1
    examination = Examination(Examiner(most_pods=most), verdicts, interval=0.01)
    checker = Checker("default", ReplayMetrics(registry), examination=examination)
    try:
        checker.put(recording.base())
        await eventually(lambda: verdicts.of("default").verdicts, lambda found: LARGE in found)
        for kind, obj in world_of(a_job("more", pods=2), a_node("m", gpus=16)):
            recording.state.apply(kind, obj)
        checker.put(recording.base())
        await eventually(lambda: verdicts.of("default").verdicts, lambda found: found == {})
    finally:
        await checker.close()


async def test_looks_are_taken_between_cycles_though_none_comes(recording, registry):
    verdicts = Verdicts(VerdictMetrics(registry))
    examination = Examination(Examiner(most_pods=10), verdicts, interval=0.01)
    checker = Checker("default", ReplayMetrics(registry), examination=examination)
    try:
        checker.put(recording.base())
        value = registry.get_sample_value
        labels = {"verdict": "NEVER", "code": "TooLarge"}
        await eventually(lambda: value("kai_verdict_pod_groups", labels) == 1)
        for kind, obj in world_of(a_node("m", gpus=16)):
            recording.state.apply(kind, obj)
        checker.put(recording.base())
        await eventually(lambda: value("kai_verdict_pod_groups", labels) == 0)
    finally:
        await checker.close()


async def test_a_group_made_anew_is_told_of_though_the_same_is_found(recording, registry):
    verdicts = Verdicts(VerdictMetrics(registry))
    examination = Examination(Examiner(most_pods=10), verdicts, interval=0.01)
    checker = Checker("default", ReplayMetrics(registry), examination=examination)
    try:
        checker.put(recording.base())
        await eventually(lambda: verdicts.of("default").verdicts, lambda found: LARGE in found)
        listening = Listening(verdicts)
        first = await listening.next()
        group, _ = a_job("large", gpus=16)
        group.metadata.uid = "anew"
        recording.state.apply(Kind.POD_GROUP, group)
        checker.put(recording.base())
        assert await listening.next() == first
        await listening.close()
    finally:
        await checker.close()


async def test_a_look_that_fails_ends_nothing(recording, registry, monkeypatch):
    def fails(*_):
        raise ValueError("odd")

    verdicts = Verdicts(VerdictMetrics(registry))
    examiner = Examiner(most_pods=10)
    monkeypatch.setattr(examiner, "find", fails)
    checker = Checker(
        "default",
        ReplayMetrics(registry),
        examination=Examination(examiner, verdicts, interval=0.01),
    )
    try:
        with capture_logs() as logged:
            checker.put(recording.base())
            await eventually(lambda: len(logged) > 1)
        checker.put(recording.cycle())
        await eventually(lambda: registry.get_sample_value("kai_replay_cycles_total") == 1)
        assert registry.get_sample_value("kai_replay_differences_total", {"shard": "default"}) is None
    finally:
        await checker.close()
