"""Whatever is said on one side is heard on the other, and nothing else is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai.model.decisions import (
    BindDecision,
    Eviction,
    Explanation,
    Nomination,
    Outcome,
    PodGroupOutcome,
    PodRef,
    QueuedGroup,
    QueueShare,
    ResourceType,
)
from kai.wire.columns import join, pack, split, unpack
from kai.wire.decisions import (
    Assignment,
    DecisionBatch,
    InFlight,
    Result,
    ResultStatus,
    decode_batch,
    decode_in_flight,
    decode_results,
    encode_batch,
    encode_in_flight,
    encode_results,
)
from kai.wire.errors import MalformedMessage
from kai.wire.session_codec import (
    SessionUpdate,
    decode_service_order,
    decode_update,
    encode_service_order,
    encode_update,
)
from kai.wire.v1 import decision_pb2, session_pb2

LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=12)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
NAME = st.from_regex(r"[a-z0-9-]{1,12}", fullmatch=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TRIPLE = st.tuples(FINITE, FINITE, FINITE)
JSON = st.dictionaries(
    NAME, st.one_of(st.integers(-(2**53), 2**53), st.text(max_size=5), st.none()), max_size=3
)
PODS = st.builds(PodRef, uid=NAME, namespace=NAME, name=NAME, pod_group=LINE)

DECISIONS = st.builds(
    BindDecision,
    pod=PODS,
    node=NAME,
    resource_type=st.sampled_from(ResourceType),
    gpu_count=st.integers(0, 2**31 - 1),
    gpu_portion=FINITE,
    gpu_groups=st.lists(NAME, max_size=3).map(tuple),
    claim_allocations=st.lists(JSON, max_size=2).map(tuple),
    extended_claim=st.none() | JSON,
    numa_zones=st.lists(JSON, max_size=2).map(tuple),
    node_pool=st.just("pool-a"),
)
BATCHES = st.builds(
    DecisionBatch,
    epoch=st.integers(0, 2**64 - 1),
    deadline=FINITE,
    assignments=st.lists(
        st.builds(Assignment, decision_id=NAME, decision=DECISIONS, prepare_only=st.booleans()), max_size=6
    ).map(tuple),
)
RESULTS = st.builds(Result, decision_id=NAME, pod_uid=NAME, status=st.sampled_from(ResultStatus), reason=TEXT)
IN_FLIGHT = st.builds(InFlight, decision_id=NAME, pod_uid=NAME, node=NAME, epoch=st.integers(0, 2**64 - 1))
SHARES = st.builds(
    QueueShare,
    queue=NAME,
    display_name=LINE,
    parent=LINE,
    priority=st.integers(-(2**31), 2**31 - 1),
    deserved=TRIPLE,
    limit=TRIPLE,
    over_quota_weight=TRIPLE,
    fair_share=TRIPLE,
    allocated=TRIPLE,
    allocated_non_preemptible=TRIPLE,
    requested=TRIPLE,
    usage=TRIPLE,
)
EXPLANATIONS = st.builds(Explanation, reason=TEXT, message=TEXT, details=st.none() | JSON)
OUTCOMES = st.builds(
    PodGroupOutcome,
    pod_group=NAME,
    outcome=st.sampled_from(Outcome),
    message=TEXT,
    explanations=st.lists(EXPLANATIONS, max_size=2).map(tuple),
    pod_messages=st.dictionaries(NAME, TEXT, max_size=2),
    invalid_pods=st.lists(NAME, max_size=2).map(tuple),
    staleness=st.text(max_size=20),
    annotations=st.dictionaries(NAME, st.none() | TEXT, max_size=3),
    write_condition=st.booleans(),
    clear_conditions=st.booleans(),
)
EVICTIONS = st.lists(
    st.builds(
        Eviction, pod=PODS, action=NAME, message=TEXT, gang_size=st.integers(0, 2**32 - 1), evictor=TEXT
    ),
    max_size=2,
).map(tuple)
UPDATES = st.builds(
    SessionUpdate,
    version=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**64 - 1),
    opened_at=FINITE,
    full=st.booleans(),
    digest=TEXT,
    shard=TEXT,
    node_pool=TEXT,
    shares=st.lists(SHARES, max_size=3).map(tuple),
    outcomes=st.lists(OUTCOMES, max_size=3).map(tuple),
    forgotten=st.lists(NAME, max_size=3).map(tuple),
    evictions=EVICTIONS,
    kept=st.lists(st.tuples(st.integers(0, 2**64 - 1), EVICTIONS), max_size=2).map(tuple),
    nominations=st.lists(st.builds(Nomination, pod=PODS, node=NAME), max_size=2).map(tuple),
    binds=st.integers(0, 2**32 - 1),
    capacity=st.none() | st.tuples(FINITE, FINITE, FINITE),
)


@settings(max_examples=40)
@given(BATCHES)
def test_a_batch_of_decisions_survives_the_wire(batch):
    message = decision_pb2.DecisionBatch.FromString(encode_batch(batch).SerializeToString())
    assert decode_batch(message) == batch


@given(
    st.lists(
        st.builds(Result, decision_id=NAME, pod_uid=NAME, status=st.sampled_from(ResultStatus), reason=TEXT)
    )
)
def test_results_survive_the_wire(results):
    message = decision_pb2.Results.FromString(encode_results(results).SerializeToString())
    assert decode_results(message) == tuple(results)


@given(
    st.lists(st.builds(InFlight, decision_id=NAME, pod_uid=NAME, node=NAME, epoch=st.integers(0, 2**64 - 1)))
)
def test_what_a_binder_could_not_stop_survives_the_wire(items):
    assert decode_in_flight(encode_in_flight(items)) == tuple(items)


@given(
    st.lists(
        st.builds(
            QueuedGroup,
            pod_group=NAME,
            queue=NAME,
            priority=st.integers(-(2**31), 2**31 - 1),
            ahead_by=st.sampled_from(("priority", "age", "")),
        )
    )
)
def test_the_order_of_service_survives_the_wire(line):
    message = session_pb2.GetServiceOrderResponse.FromString(encode_service_order(line).SerializeToString())
    assert decode_service_order(message) == tuple(line)
    message.rows += 1
    with pytest.raises(MalformedMessage):
        decode_service_order(message)


@settings(max_examples=40)
@given(UPDATES)
def test_a_session_update_survives_the_wire(update):
    message = session_pb2.WatchSessionsResponse.FromString(encode_update(update).SerializeToString())
    assert decode_update(message) == update


@settings(max_examples=40)
@given(
    BATCHES.filter(lambda batch: batch.assignments), st.sampled_from(["pod_uids", "gpu_count", "gpu_portion"])
)
def test_a_column_of_the_wrong_length_is_refused_by_name(batch, field):
    message = encode_batch(batch)
    value = getattr(message, field)
    setattr(message, field, value + ("\nx" if isinstance(value, str) else b"\0"))
    with pytest.raises(MalformedMessage, match=f"DecisionBatch.{field}"):
        decode_batch(message)


@pytest.mark.parametrize("index", [-1, 7])
def test_a_node_that_is_not_in_the_dictionary_is_refused(index):
    pod = PodRef(uid="u", namespace="ns", name="p")
    message = encode_batch(
        DecisionBatch(
            epoch=1,
            deadline=2.0,
            assignments=(Assignment(decision_id="d", decision=BindDecision(pod=pod, node="n")),),
        )
    )
    message.node_index = np.array([index], dtype="<i4").tobytes()
    with pytest.raises(MalformedMessage):
        decode_batch(message)


def test_a_newline_in_an_identity_is_refused_instead_of_shifting_the_rows():
    with pytest.raises(MalformedMessage, match="pods"):
        join(["a", "b\nc"], field="pods")


def test_one_empty_text_is_not_no_text():
    assert split(join([""], field="x"), rows=1, field="x") == [""]
    assert split(join([], field="x"), rows=0, field="x") == []


def test_numbers_are_little_endian_arrays():
    numbers = tuple(map(float, range(6)))
    assert pack(numbers, "d") == np.array(numbers, dtype="<f8").tobytes()
    assert unpack(pack(numbers, "d"), "d", count=6, field="x") == numbers
