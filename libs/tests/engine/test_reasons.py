"""What was found about pod groups that wait alike is kept once, and told in the names of each."""

from kai.engine.reasons import Errors, Unschedulable
from kai.model.decisions import Reason
from kai.model.ids import PodGroupKey

FIRST, SECOND, THIRD = (PodGroupKey(f"team/{name}") for name in ("first", "second", "third"))
NO_ROOM = Unschedulable(Reason.POD_SCHEDULING_ERRORS, "no room", (("too few GPUs", 3),), pod="team/first-0")
OVER = Unschedulable(Reason.OVER_LIMIT, "queue 'team' is full")


def found() -> Errors:
    errors = Errors()
    errors.of(FIRST).add(NO_ROOM)
    errors.of(FIRST).pods["team/first-0"] = "no room"
    errors.share(FIRST, [(SECOND, "team/second-0"), (THIRD, "team/third-0")])
    return errors


def texts(errors: Errors, key: PodGroupKey) -> list[str]:
    known = errors.get(key)
    return [] if known is None else [entry.text for entry in known.entries]


def test_each_is_told_of_its_own_pod() -> None:
    errors = found()
    assert texts(errors, FIRST) == ["pod team/first-0: no room: 3 too few GPUs"]
    assert texts(errors, SECOND) == ["pod team/second-0: no room: 3 too few GPUs"]
    second = errors.get(SECOND)
    assert second is not None
    assert second.pods == {"team/second-0": "no room"}
    assert errors.common(SECOND) is errors.common(THIRD) is not None
    assert errors.common(FIRST) is None


def test_what_is_found_about_one_of_them_is_told_of_that_one_alone() -> None:
    errors = found()
    errors.of(SECOND).add(OVER)
    assert texts(errors, SECOND) == ["pod team/second-0: no room: 3 too few GPUs", OVER.text]
    assert texts(errors, THIRD) == ["pod team/third-0: no room: 3 too few GPUs"]
    assert errors.common(SECOND) is None


def test_what_was_found_before_stays() -> None:
    errors = Errors()
    errors.of(FIRST).add(NO_ROOM)
    errors.of(SECOND).add(OVER)
    errors.share(FIRST, [(SECOND, "team/second-0")])
    assert texts(errors, SECOND) == [OVER.text, "pod team/second-0: no room: 3 too few GPUs"]
    assert texts(errors, THIRD) == []


def test_all_can_be_gone_through_and_added_to() -> None:
    errors = found()
    for each in errors.all():
        for pod in each.pods:
            each.pods[pod] = "looked at closely"
    third = errors.get(THIRD)
    assert third is not None
    assert third.pods == {"team/third-0": "looked at closely"}


def test_where_each_node_has_a_reason_of_its_own_those_of_most_nodes_are_told() -> None:
    counts = (*((f"taint {number}", 1) for number in range(1000)), ("too few GPUs", 7))
    text = Unschedulable(Reason.POD_SCHEDULING_ERRORS, "no room", counts).text
    assert "7 too few GPUs" in text
    assert "1 taint 30" in text
    assert "taint 31" not in text
    assert text.endswith(". \nand 969 more reasons")
