"""The page of a pod group says who may take what of it."""

import pytest

from kai.wire.v1 import explain_pb2
from kai_cli.explain import pod_group_document, print_pod_group


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"preemptible": True}, "preemptible"),
        ({}, "non-preemptible"),
        ({"semi_preemptible": True}, "semi-preemptible"),
    ],
)
def test_it_says_whether_others_may_take_all_nothing_or_some_of_it(capsys, said, word):
    answer = explain_pb2.ExplainPodGroupResponse(found=True, queue="team", priority=50, min_member=2, **said)
    print_pod_group(pod_group_document("default", "group", answer))
    assert f"priority 50 ({word}), minimum 2" in capsys.readouterr().out
