"""What a board shows: nodes in order, who sits on which device, what waits, and how much room there is."""

import msgspec
import pytest

from kai.live import details, waiting
from kai.live.board import CORDONED, NOT_READY, READY, SET_ASIDE, Board
from kai.live.search import search
from kai.live.slots import slots
from kai.live.structure import natural
from kai.live.waiting import Filters, Known, Sort
from kai.model.ids import PodGroupKey
from kai.model.objects import OwnerReference, Taint
from kai.model.verdicts import GroupVerdict
from kai.snapshot.kinds import Kind
from libs.tests.engine.builders import (
    NOW,
    SLICE,
    a_group,
    a_job,
    a_node,
    a_pod,
    a_queue,
    a_state,
    a_topology,
    add,
    slices,
)
from libs.tests.live.looking import Looking, slots_of


def a_board(state, *, fair=None):
    state.settle(NOW)
    board = Board()
    board.refresh(state, None, fair=fair or {})
    return board


def shown(state, sight=None):
    return Looking(a_board(state), sight).shown


def seats(state):
    return slots_of(shown(state))


# --- nodes --------------------------------------------------------------------------------------------
def test_nodes_stand_by_domain_and_then_by_name_with_numbers_counted():
    state = a_state(
        a_topology("zone", "rack"),
        a_node("n-10", gpus=1, labels={"zone": "b", "rack": "r1"}),
        a_node("n-2", gpus=1, labels={"zone": "b", "rack": "r1"}),
        a_node("n-1", gpus=1, labels={"zone": "b", "rack": "r0"}),
        a_node("x", gpus=1, labels={"zone": "a"}),
        a_node("lost", gpus=1),
    )
    found = shown(state)
    assert found["nodes"]["name"] == ["lost", "x", "n-1", "n-2", "n-10"]
    domains = found["domains"]
    tree = list(zip(domains["level"], domains["name"], domains["parent"], strict=True))
    assert tree == [("zone", "a", -1), ("zone", "b", -1), ("rack", "r0", 1), ("rack", "r1", 1)]
    assert found["nodes"]["domain"] == [-1, 0, 2, 3, 3]


def test_numbers_in_names_are_counted_wherever_they_stand():
    assert sorted(["a10", "a9b", "a9", "9", "b"], key=natural) == ["9", "a9", "a9b", "a10", "b"]


def test_a_node_says_why_it_takes_nothing():
    cordoned = a_node("cordoned")
    cordoned.spec = msgspec.structs.replace(cordoned.spec, unschedulable=True)
    state = a_state(cordoned, a_node("broken", ready=False), a_node("good"), a_node("refusing"))
    for namespace in ("a", "b"):
        for _ in range(3):
            state.refusals.refused("refusing", namespace=namespace, now=NOW)
    board = a_board(state)
    assert dict(zip(board.structure.name, board.states, strict=True)) == {
        "cordoned": CORDONED,
        "broken": NOT_READY,
        "good": READY,
        "refusing": SET_ASIDE,
    }
    why = {name: details.node(state, board, name, None).why for name in board.structure.name}
    assert why["good"] == ""
    assert why["cordoned"] == "node is unschedulable"
    assert why["broken"] == "node is not ready"
    assert why["refusing"].startswith("it refused the last pods that it was given, and gets none until 2030-")


def test_a_node_that_was_set_aside_takes_pods_again_by_time_alone():
    state = a_state(a_node("n"))
    for namespace in ("a", "b"):
        for _ in range(3):
            state.refusals.refused("n", namespace=namespace, now=NOW)
    board = a_board(state)
    assert board.states == [SET_ASIDE]
    state.settle(NOW + 31)
    assert board.refresh(state, (), fair={}).nodes == {0}
    assert board.states == [READY]


# --- devices ------------------------------------------------------------------------------------------
def test_who_sits_somewhere_stays_there_while_others_come_and_go():
    state = a_state(a_node("n", gpus=4), *(a_job(f"j{each}", gpus=1, on="n") for each in range(4)))
    board = a_board(state)
    looking = Looking(board, None)
    (before,) = looking.devices
    assert sorted(before) == [0, 1, 2, 3]
    state.remove(Kind.POD, "default/j1-0")
    state.settle(NOW)
    looking.follow(board.refresh(state, [PodGroupKey("default/j1")], fair={}))
    (after,) = looking.devices
    gone = before.index(1)
    assert after == [*before[:gone], -1, *before[gone + 1 :]]


def test_who_shares_a_device_is_seen_with_his_part():
    state = a_state(
        a_node("n", gpus=2, gpu_memory_mib=10_000),
        a_group("a", queue="team"),
        a_group("b", queue="team"),
        a_pod("a-0", group="a", fraction=0.5, node="n", groups=("dev",)),
        a_pod("b-0", group="b", gpu_memory_mib=2_500, node="n", groups=("dev",)),
    )
    assert seats(state) == [[[[0, 50], [1, 25]], -1]]
    pods = told(details.node(state, a_board(state), "n", None))["pods"]
    assert [(pod["name"], pod["devices"], pod["portion"]) for pod in pods] == [
        ("a-0", [0], 0.5),
        ("b-0", [0], 0.25),
    ]


def test_devices_that_are_cut_are_filled_one_after_the_other():
    labels = {"nvidia.com/gpu.count": "2"}
    state = a_state(
        a_node("n", gpus=0, labels=labels, extra={SLICE: "14"}), slices(a_job("a", on=["n", "n"]), 3)
    )
    (cells,) = seats(state)
    assert cells == [[[0, 86]], -1]
    pods = told(details.node(state, a_board(state), "n", None))["pods"]
    assert [pod["devices"] for pod in pods] == [[0], [0]]


def test_what_is_being_released_is_held_until_it_is_free():
    state = a_state(
        a_node("n", gpus=1),
        a_group("a", queue="team"),
        a_pod("a-0", group="a", gpus=1, node="n", deleted=NOW - 5),
    )
    found = shown(state)
    assert (found["slots"], found["groups"]["state"]) == ([0], [2])


def test_a_pod_of_no_group_is_a_holder_of_its_own():
    state = a_state(a_node("n", gpus=1), a_pod("alone", gpus=1, node="n", scheduler="other"))
    board = a_board(state)
    (number,) = Looking(board, None).shown["groups"]["key"]
    (named,) = details.groups(state, board, [number], None).items
    assert (named.name, named.workload, named.queue) == ("alone", "Pod/alone", "")


# --- groups and queues --------------------------------------------------------------------------------
def test_names_of_groups_are_told_to_those_who_see_them():
    state = a_state(a_node("n"), a_job("a", gpus=1, on="n"))
    board = a_board(state)
    (number,) = Looking(board, None).shown["groups"]["key"]
    unseen = details.groups(state, board, [number, 99], frozenset())
    assert (unseen.items, unseen.hidden) == ([], 1)
    (named,) = details.groups(state, board, [number], frozenset({"default"})).items
    assert (named.namespace, named.name, named.queue) == ("default", "a", "team")


def test_names_say_whose_keys_they_are_of_for_another_board_has_others():
    state = a_state(a_node("n"), a_job("a", gpus=1, on="n"))
    board = a_board(state)
    named = details.groups(state, board, [1], None)
    assert named.numbering == Looking(board, None).shown["numbering"]
    assert named.numbering != shown(state)["numbering"]


def test_those_who_may_not_be_seen_are_one_group_without_name():
    state = a_state(a_node("n", gpus=2), a_job("a", gpus=1, on="n"), a_job("b", gpus=1, on="n"))
    found = shown(state, frozenset())
    assert (found["slots"], found["groups"]) == ([0, 0], {"queue": [-1], "state": [0], "key": [0]})
    assert found["hidden"] == {"groups": 2, "namespaces": 1}


def test_what_is_hidden_is_counted_anew_as_it_comes_and_goes():
    state = a_state(a_node("n", gpus=2), a_job("a", gpus=1, on="n"))
    board = a_board(state)
    some, everything = Looking(board, frozenset({"default"})), Looking(board, None)
    for there, hidden in ((True, {"groups": 1, "namespaces": 1}), (False, {"groups": 0, "namespaces": 0})):
        if there:
            add(state, a_group("b", queue="team", namespace="other"))
        else:
            state.remove(Kind.POD_GROUP, "other/b")
        state.settle(NOW)
        news = board.refresh(state, {PodGroupKey("other/b")}, fair={})
        assert news
        for each in (some, everything):
            each.follow(news)
        assert some.shown["hidden"] == some.anew()["hidden"] == hidden
        assert everything.shown["version"].endswith("/0")


def test_what_waits_counts_in_all_queues_above():
    state = a_state(
        a_queue("top", gpu=8), a_queue("team", parent="top", gpu=4, limit=6), a_node("n"), a_job("a", gpus=2)
    )
    queues = shown(state)["queues"]
    assert queues["name"] == ["top", "team"]
    assert queues["parent"] == [-1, 0]
    assert (queues["waitingGroups"], queues["waitingGpus"]) == ([1, 1], [2, 2])
    assert (queues["gpu"]["quota"], queues["gpu"]["limit"]) == ([8, 4], [-1, 6])
    assert queues["gpu"]["requested"] == [2, 2]


def test_a_queue_that_comes_begins_the_picture_anew():
    state = a_state(a_queue("top"), a_queue("team", parent="top"), a_node("n"), a_job("a", gpus=1, on="n"))
    board = a_board(state)
    add(state, a_queue("other", parent="top"))
    state.settle(NOW)
    assert board.refresh(state, (), fair={}).anew
    assert [name for name, *_ in board.structure.queues] == ["top", "other", "team"]


# --- what waits ---------------------------------------------------------------------------------------
WAITING = [
    a_queue("top"),
    a_queue("team", parent="top"),
    a_queue("rest", parent="top"),
    a_node("n", gpus=0),
    a_job("old", gpus=1, queue="team", created=NOW - 300),
    a_job("large", gpus=4, queue="rest", created=NOW - 200),
    a_job("new", gpus=2, queue="team", created=NOW - 100),
]
FOUND = Known(
    verdicts={
        PodGroupKey("default/old"): GroupVerdict(
            pod_group=PodGroupKey("default/old"), verdict="WAIT", code="Protected", text="until noon"
        ),
        PodGroupKey("default/large"): GroupVerdict(
            pod_group=PodGroupKey("default/large"), verdict="NEVER", code="TooLarge", text="no node"
        ),
    },
    places={PodGroupKey("default/new"): (0, 2), PodGroupKey("default/old"): (1, 2)},
)


def told(answer):
    """As JSON has it."""
    return msgspec.to_builtins(answer)


def rows(sight=None, *, sort=Sort.AGE, limit=10, **filters):
    state = a_state(*WAITING)
    found = waiting.waiting(
        state,
        a_board(state),
        sight,
        filters=Filters(**filters),
        sort=sort,
        limit=limit,
        known=FOUND,
    )
    return told(found)


def called(found):
    return [each["name"] for each in found["items"]]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        (Sort.AGE, ["old", "large", "new"]),
        (Sort.GPUS, ["large", "new", "old"]),
        (Sort.NAME, ["large", "new", "old"]),
        (Sort.POSITION, ["new", "old", "large"]),
    ],
)
def test_rows_come_in_the_order_that_is_asked_for(sort, order):
    assert called(rows(sort=sort)) == order


@pytest.mark.parametrize(
    ("filters", "order"),
    [
        ({"queue": "team"}, ["old", "new"]),
        ({"queue": "top"}, ["old", "large", "new"]),
        ({"verdict": "NEVER"}, ["large"]),
        ({"verdict": ""}, ["new"]),
        ({"code": "Protected"}, ["old"]),
        ({"text": "NOON"}, ["old"]),
        ({"text": "larg"}, ["large"]),
        ({"namespace": "other"}, []),
    ],
)
def test_only_what_is_asked_for_comes(filters, order):
    assert called(rows(**filters)) == order


def test_counts_are_of_all_that_match_what_else_is_asked():
    found = rows(limit=1, verdict="NEVER")
    assert (called(found), found["more"], found["total"]) == (["large"], False, 1)
    assert found["verdicts"] == {"WAIT": 1, "NEVER": 1, "": 1}
    assert found["codes"] == {"TooLarge": 1}
    assert rows(limit=1)["more"]


def test_of_what_is_hidden_the_number_is_told():
    found = rows(frozenset())
    assert (found["items"], found["hidden"], found["total"], found["verdicts"]) == ([], 3, 0, {})


def test_a_pod_of_no_group_is_not_found_by_its_name_in_texts_about_others():
    state = a_state(*WAITING)
    state.apply(Kind.NAMESPACE, {"metadata": {"name": "secret"}})
    key = PodGroupKey("default/large")
    said = GroupVerdict(pod_group=key, verdict="WAIT", code="Fragmented", text="secret/alone is in the way")
    for text, number in (("somebody's work is in the way", 1), ("alone", 0)):
        found = waiting.waiting(
            state,
            a_board(state),
            frozenset({"default"}),
            filters=Filters(text=text),
            sort=Sort.AGE,
            limit=10,
            known=Known(verdicts={key: said}),
        )
        assert found.total == number


def test_a_row_says_whose_it_is_and_what_it_asks_for():
    group = a_group("mine", queue="team", min_member=2, created=NOW - 50)
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="train", uid="u", controller=True)
    group.metadata = msgspec.structs.replace(group.metadata, owner_references=[owner], labels={"user": "ann"})
    pods = [a_pod(f"mine-{each}", group="mine", gpus=2, created=NOW - 40) for each in range(2)]
    state = a_state(a_node("n", gpus=0), group, *pods)
    found = waiting.waiting(
        state, a_board(state), None, filters=Filters(), sort=Sort.AGE, limit=1, known=Known()
    )
    (row,) = told(found)["items"]
    assert (row["workload"], row["user"], row["queue"]) == ("Job/train", "ann", "team")
    assert (row["gpus"], row["cpuMillis"], row["minMember"], row["pods"]) == (4, 2000, 2, 2)
    assert (row["waitingSince"], row["verdict"], row["position"]) == (NOW - 40, "", None)


# --- details ------------------------------------------------------------------------------------------
def test_a_node_tells_of_what_it_offers_and_of_those_whom_one_may_see():
    node = a_node("n", gpus=2, cpu="10", memory="10G", labels={"nvidia.com/gpu.product": "H100"})
    node.spec = msgspec.structs.replace(node.spec, taints=[Taint(key="k", value="v", effect="NoSchedule")])
    state = a_state(node, a_job("a", gpus=1, on="n"), a_pod("other", namespace="secret", node="n", cpu="2"))
    found = told(details.node(state, a_board(state), "n", frozenset({"default"})))
    assert (found["model"], found["gpus"], found["gpusUsed"]) == ("H100", 2, 1)
    assert found["taints"] == ["k=v:NoSchedule"]
    assert found["cpu"] == {"offered": 10_000, "allocated": 3_000}
    assert (found["hidden"], [pod["podGroup"] for pod in found["pods"]]) == (1, ["a"])
    assert details.node(state, a_board(state), "elsewhere", None) is None


def test_the_pods_of_a_workload_are_told_with_their_places():
    state = a_state(a_node("n", gpus=2), a_job("a", gpus=1, on=["n", "n"]))
    board = a_board(state)
    pods, more = details.pods(board, state.jobs[PodGroupKey("default/a")])
    assert not more
    assert [(pod.name, pod.node, pod.gpus) for pod in pods] == [("a-0", "n", 1), ("a-1", "n", 1)]
    assert sorted(pod.devices for pod in pods) == [[0], [1]]


def test_names_are_found_by_any_part_in_any_case_and_only_what_one_may_see():
    state = a_state(a_node("alpha"), a_job("ALPHA-job", gpus=1, on="alpha"), a_job("beta", gpus=1))
    board = a_board(state)
    found = told(search(state, board, "alph", None, limit=10))
    assert [(each["kind"], each["name"], each["node"]) for each in found["items"]] == [
        ("node", "alpha", 0),
        ("group", "ALPHA-job", None),
    ]
    assert found["items"][1]["key"] is not None
    seen = search(state, board, "a", frozenset(), limit=10).items
    assert [each.kind for each in seen] == ["queue", "node"]
    assert search(state, board, "a", None, limit=1).more


def test_room_is_told_by_size_and_domain_and_not_on_nodes_that_take_nothing():
    state = a_state(
        a_topology("zone"),
        a_node("a", gpus=8, labels={"zone": "x"}),
        a_node("b", gpus=8, labels={"zone": "y"}),
        a_node("c", gpus=8, labels={"zone": "y"}, ready=False),
        a_job("j", gpus=2, on="a"),
    )
    found = told(slots(a_board(state)))
    assert dict(zip(found["shapes"], found["all"], strict=True)) == {1: 14, 2: 7, 4: 3, 8: 1}
    assert found["domains"] == [{"index": 0, "slots": [6, 3, 1, 0]}, {"index": 1, "slots": [8, 4, 2, 1]}]
