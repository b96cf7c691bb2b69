"""What a pod's condition says of its bind."""

from kai.model.condition_texts import MOST_BYTES
from kai.model.decisions import BindDecision, PodRef
from kai_binder.binding import PodBinder


class Writes:
    """Takes what is written of pods, and events."""

    def __init__(self):
        self.conditions = []

    async def patch(self, res, name, patch, **options):
        self.conditions += patch["status"]["conditions"]

    def emit(self, *event, **options):
        pass


async def test_a_failure_of_any_length_is_told_as_far_as_conditions_go():
    writes = Writes()
    binder = PodBinder(
        writes,
        pods=None,
        reservations=None,
        plugins=(),
        events=writes,
        node_pool_label="pool",
        sync_soon=lambda node: None,
    )
    pod = PodRef(uid="u", namespace="team", name="p", pod_group="team/g")
    await binder.tell_failed(BindDecision(pod=pod, node="n"), "claim " * MOST_BYTES)
    (condition,) = writes.conditions
    assert condition["message"].startswith("claim claim")
    assert len(condition["message"].encode()) == MOST_BYTES
