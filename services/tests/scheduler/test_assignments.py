"""Whenever a pod's group is told, what comes of it is as if the pod had said so from the start."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kai.bench.objects import a_group, a_pod, a_queue
from kai.kube.reflector import Removed, Synced, Unreadable, Upserted
from kai.model import names
from kai.model.ids import PodUid
from kai.snapshot import codec
from kai.snapshot.changes import Changes, take_in
from kai.snapshot.state import ClusterState, Kind
from kai.wire.assignments import Assignment, AssignmentNews
from kai_scheduler.assignments import Assignments

KEYS = ("default/a", "default/b", "default/c")


def bare(key="default/a", *, number=1, scheduler=names.SCHEDULER_NAME, node=""):
    """A pod that does not say in which group it is."""
    name = key.partition("/")[2]
    pod = a_pod(name, gpus=1, node=node)
    pod.metadata.uid, pod.metadata.annotations = f"{name}-{number}", {"own": "x"}
    pod.spec.scheduler_name = scheduler
    return pod


def group_of(pod):
    return f"pg-{pod.metadata.uid}"


def annotated(pod, group=""):
    annotations = {**pod.annotations, names.POD_GROUP_ANNOTATION: group or group_of(pod)}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations)
    )


def an_assignment(pod, group=""):
    meta = pod.metadata
    return Assignment(
        uid=PodUid(meta.uid), namespace=meta.namespace, name=meta.name, pod_group=group or group_of(pod)
    )


def told(*pods, **more):
    return AssignmentNews(told=tuple(map(an_assignment, pods)), **more)


class Taker:
    """What is told of pods behind the assignments."""

    def __init__(self, **more):
        self.changes = []
        self.assignments = Assignments(self.changes.append, scheduler_name=names.SCHEDULER_NAME, **more)

    def pod(self, pod):
        self.assignments(Upserted(pod, old_known=False))

    def gone(self, pod):
        self.assignments(Removed(pod.key, pod.metadata.uid, pod))

    def news(self, news):
        self.assignments.take(news)

    @property
    def groups(self):
        """Of each version of a pod that was told, its group."""
        return [
            change.obj.annotations.get(names.POD_GROUP_ANNOTATION)
            for change in self.changes
            if isinstance(change, Upserted)
        ]


@pytest.fixture
def taker():
    return Taker()


# --- one after the other ---------------------------------------------------------------------------
def test_a_pod_that_came_before_its_assignment_is_told_again(taker):
    taker.pod(bare())
    taker.news(told(bare()))
    assert taker.changes == [Upserted(bare(), False), Upserted(annotated(bare()), True)]


def test_a_pod_that_comes_after_its_assignment_is_told_once(taker):
    taker.news(told(bare()))
    assert taker.changes == []
    taker.pod(bare())
    assert taker.changes == [Upserted(annotated(bare()), False)]


def test_versions_without_the_annotation_get_it_until_one_has_it(taker):
    taker.news(told(bare()))
    taker.pod(bare())
    taker.pod(bare(node="n"))
    taker.pod(annotated(bare(node="n")))
    assert taker.groups == ["pg-a-1"] * 3
    assert taker.assignments.kept == 0


def test_what_a_pod_says_itself_counts(taker):
    taker.pod(annotated(bare(), "own"))
    taker.news(told(bare()))
    taker.pod(annotated(bare(), "own"))
    assert taker.groups == ["own", "own"]


def test_another_word_of_the_grouper_counts_and_the_same_is_no_news(taker):
    taker.pod(bare())
    for group in ("one", "one", "two"):
        taker.news(AssignmentNews(told=(an_assignment(bare(), group),)))
    assert taker.groups == [None, "one", "two"]


def test_pods_of_other_schedulers_stay_as_they_are(taker):
    theirs = bare(scheduler="theirs")
    taker.news(told(theirs))
    taker.pod(theirs)
    assert taker.changes == [Upserted(theirs, False)]


def test_another_pod_of_the_same_name_gets_nothing_of_it(taker):
    taker.pod(bare(number=1))
    taker.news(told(bare(number=1)))
    taker.pod(bare(number=2))  # nobody told that the first is gone
    assert taker.groups == [None, "pg-a-1", None]
    assert taker.assignments.kept == 0
    taker.news(told(bare(number=2)))
    assert taker.groups[-1] == "pg-a-2"


def test_a_pod_that_cannot_be_read_is_not_told_as_it_was(taker):
    taker.pod(bare())
    taker.assignments(Unreadable("default/a", "a-1", "broken"))
    taker.news(told(bare()))
    assert isinstance(taker.changes[-1], Unreadable)
    taker.pod(bare())
    assert taker.groups == [None, "pg-a-1"]


def test_a_pod_that_is_gone_is_forgotten(taker):
    taker.pod(bare())
    taker.news(told(bare()))
    taker.gone(bare())
    assert taker.changes[-1] == Removed("default/a", "a-1", bare())
    assert taker.assignments.kept == 0


def test_what_the_grouper_forgets_before_our_watch_says_why_still_counts(taker):
    """It sees the pod's annotation first; a version in between must not lose the group."""
    taker.pod(bare())
    taker.news(told(bare()))
    taker.news(AssignmentNews(forgotten=(PodUid("a-1"),)))
    taker.pod(bare(node="n"))
    assert taker.groups == [None, "pg-a-1", "pg-a-1"]


def test_of_pods_that_never_came_nothing_is_left_once_the_grouper_forgets_or_begins_anew(taker):
    taker.news(told(bare(number=1), bare(number=2)))
    taker.news(AssignmentNews(forgotten=(PodUid("a-1"),)))
    assert taker.assignments.kept == 1
    taker.news(AssignmentNews(anew=True))
    assert taker.assignments.kept == 0


def test_a_grouper_that_begins_anew_and_does_not_know_a_pod_yet_takes_no_group_from_it(taker):
    taker.pod(bare())
    taker.news(told(bare()))
    taker.news(AssignmentNews(anew=True))
    taker.pod(bare(node="n"))
    assert taker.groups == [None, "pg-a-1", "pg-a-1"]


def test_there_are_only_so_many_and_the_log_says_once_that_there_were_more():
    taker = Taker(most=2)
    pods = [bare(key) for key in KEYS]
    with capture_logs() as logs:
        taker.news(told(*pods))
        taker.news(told(pods[2], bare(number=4)))
        taker.news(AssignmentNews(told=(an_assignment(pods[0], "other"),)))
    assert taker.assignments.kept == 2
    [error] = logs
    assert (error["log_level"], error["most"]) == ("error", 2)
    for pod in pods:
        taker.pod(pod)
    assert taker.groups == ["other", "pg-b-1", None]
    taker.pod(annotated(pods[0]))
    taker.news(told(pods[2]))
    assert taker.groups[-1] == "pg-c-1"


def test_everything_else_goes_through(taker):
    taker.assignments(Synced())
    assert taker.changes == [Synced()]


# --- in any order ----------------------------------------------------------------------------------
class World:
    """Pods on an API server, a pod-grouper beside them, and the two streams of which a scheduler learns."""

    def __init__(self):
        self.pods = {}
        self.watched = []
        self.news = []
        self.book = {}
        self.created = 0
        self.taker = Taker()

    # What happens to pods.
    def create(self, key):
        if key not in self.pods:
            self.created += 1
            self.pods[key] = bare(key, number=self.created)
            self.watched.append(Upserted(self.pods[key], old_known=False))

    def change(self, key):
        if key in self.pods:
            self._update(key, lambda pod: pod)

    def bind(self, key):
        """As a binder does whose scheduler knows the group."""
        self._update(
            key, lambda pod: annotated(on_node(pod), pod.annotations.get(names.POD_GROUP_ANNOTATION))
        )

    def bind_otherwise(self, key):
        self._update(key, on_node)

    def annotate(self, key):
        self._update(key, lambda pod: annotated(pod, pod.annotations.get(names.POD_GROUP_ANNOTATION)))

    def delete(self, key):
        pod = self.pods.pop(key, None)
        if pod is not None:
            self.watched.append(Removed(key, pod.metadata.uid, pod))
            self._forget(pod.metadata.uid)

    def _update(self, key, change):
        if key in self.pods:
            pod = self.pods[key] = change(self.pods[key])
            self.watched.append(Upserted(pod, old_known=True))
            if names.POD_GROUP_ANNOTATION in pod.annotations:
                self._forget(pod.metadata.uid)

    # What the pod-grouper does about them.
    def tell(self, key):
        pod = self.pods.get(key)
        if pod is not None and names.POD_GROUP_ANNOTATION not in pod.annotations:
            self.book[pod.metadata.uid] = an_assignment(pod)
            self.news.append(told(pod))

    def tell_late(self, key):
        """Before its own watch told that the pod says it itself."""
        pod = self.pods.get(key)
        if pod is not None and names.POD_GROUP_ANNOTATION in pod.annotations:
            self.book[pod.metadata.uid] = an_assignment(pod)
            self.news.append(told(pod))
            self._forget(pod.metadata.uid)

    def restart(self, key):
        """Nobody knows what of the old stream was still on its way."""
        self.book.clear()
        self.news = [AssignmentNews(anew=True)]

    def reconnect(self, key):
        self.news = [AssignmentNews(told=tuple(self.book.values()), anew=True)]

    def _forget(self, uid):
        if self.book.pop(uid, None):
            self.news.append(AssignmentNews(forgotten=(PodUid(uid),)))

    # What the scheduler hears.
    def hear_of_pods(self, key):
        if self.watched:
            self.taker.assignments(self.watched.pop(0))

    def hear_of_groups(self, key):
        if self.news:
            self.taker.news(self.news.pop(0))

    def settle(self):
        """Everybody hears of everything, the pod-grouper first."""
        for key in KEYS:
            self.tell(key)
        while self.watched or self.news:
            self.hear_of_groups("")
            self.hear_of_pods("")


def on_node(pod):
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n"))


DEEDS = [name for name, deed in vars(World).items() if not name.startswith("_") and name != "settle"]


def state_of(changes):
    """What a scheduler makes of these changes."""
    state = ClusterState()
    state.apply(Kind.QUEUE, a_queue("q"))
    for key in KEYS:
        for number in range(61):
            name = f"pg-{key.partition('/')[2]}-{number}"
            state.apply(Kind.POD_GROUP, a_group(name, queue="q"))
    for change in changes:
        gone = isinstance(change, Removed)
        key = change.obj_key if gone else change.obj.key
        taken = take_in(state, Changes(objects={Kind.POD: {key: None if gone else change.obj}}))
        assert not taken.rejections
    state.check()
    return codec.cut(state).digest


@settings(max_examples=300)
@given(deeds=st.lists(st.tuples(st.sampled_from(DEEDS), st.sampled_from(KEYS[:2])), max_size=60))
def test_in_whatever_order_all_is_heard_the_state_is_that_in_which_pods_said_so_from_the_start(deeds):
    world = World()
    for deed, key in deeds:
        getattr(world, deed)(key)
    world.settle()
    said = {}
    for change in world.taker.changes:
        if isinstance(change, Upserted):
            uid, group = change.obj.metadata.uid, change.obj.annotations.get(names.POD_GROUP_ANNOTATION)
            assert group in (None, group_of(change.obj))
            assert group is not None or not said.get(uid), "a pod has lost its group again"
            said[uid] = group
    from_the_start = [
        Upserted(annotated(pod, pod.annotations.get(names.POD_GROUP_ANNOTATION)), False)
        for pod in world.pods.values()
    ]
    assert state_of(world.taker.changes) == state_of(from_the_start)
    waiting = [pod for pod in world.pods.values() if names.POD_GROUP_ANNOTATION not in pod.annotations]
    assert world.taker.assignments.kept == len(waiting)
