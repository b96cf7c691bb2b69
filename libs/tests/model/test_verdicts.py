"""The code of a verdict is found behind what the scheduler says."""

from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict, code_behind


def test_the_code_is_found_where_a_verdict_was_written() -> None:
    found = GroupVerdict(
        pod_group=PodGroupKey("team/pg"), verdict="WAIT", code="NotEnoughFree", text="4 GPUs (NotThis): asked"
    )
    assert code_behind(found.after("no node has room (Other): 3 nodes")) == "NotEnoughFree"
    assert code_behind("no node has room (Other): 3 nodes") == code_behind("") == ""
