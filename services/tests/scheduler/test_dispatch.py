"""No decision is lost and none is contradicted, whatever binders do."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kai.model.decisions import BindDecision, PodRef, ResourceType
from kai.wire.decisions import BIND_SECONDS, InFlight, Result, ResultStatus
from kai_scheduler.dispatch import (
    ABANDONED,
    DECISION_SECONDS,
    EXECUTION_MARGIN,
    LOST_BINDER_SECONDS,
    NOBODY,
    SILENT,
    Cut,
    Dispatcher,
    Inherited,
    Send,
    Settled,
    Verdict,
)

NOW = 1_000_000.0
EXECUTION_SECONDS = BIND_SECONDS + EXECUTION_MARGIN


def a_decision(pod="p", *, node="n1", group="", fraction=False):
    return BindDecision(
        pod=PodRef(uid=f"uid-{pod}", namespace="ns", name=pod, pod_group=group),
        node=node,
        resource_type=ResourceType.FRACTION if fraction else ResourceType.REGULAR,
        gpu_groups=("g",) if fraction else (),
    )


def sent(instructions):
    return {
        item.decision.pod.name: (send.binder, item)
        for send in instructions
        if isinstance(send, Send)
        for item in send.assignments
    }


def settled(instructions):
    return {item.decision.pod.name: item for item in instructions if isinstance(item, Settled)}


def bound(assignment):
    return Result(
        decision_id=assignment.decision_id, pod_uid=assignment.decision.pod.uid, status=ResultStatus.BOUND
    )


def prepared(assignment):
    return Result(
        decision_id=assignment.decision_id, pod_uid=assignment.decision.pod.uid, status=ResultStatus.PREPARED
    )


def failed(assignment, reason="no room"):
    return Result(
        decision_id=assignment.decision_id,
        pod_uid=assignment.decision.pod.uid,
        status=ResultStatus.FAILED,
        reason=reason,
    )


def a_dispatcher(*binders):
    dispatcher = Dispatcher(epoch=7)
    for binder in binders:
        dispatcher.connect(binder, capacity=10, now=NOW)
    return dispatcher


def test_a_decision_goes_out_at_once_and_its_result_settles_it():
    dispatcher = a_dispatcher("b1")
    binder, item = sent(dispatcher.decide([a_decision("p")], now=NOW))["p"]
    assert binder == "b1"
    assert not item.prepare_only
    result = settled(dispatcher.results("b1", [bound(item)], now=NOW + 1))["p"]
    assert result.bound
    assert len(dispatcher) == 0


def test_all_decisions_of_a_node_go_to_one_binder_even_when_another_comes():
    dispatcher = a_dispatcher("b1")
    first = sent(dispatcher.decide([a_decision(f"p{i}", node=f"n{i}") for i in range(50)], now=NOW))
    for number in range(2, 6):
        dispatcher.connect(f"b{number}", capacity=10, now=NOW)
    second = sent(dispatcher.decide([a_decision(f"q{i}", node=f"n{i}") for i in range(50)], now=NOW))
    assert {second[f"q{i}"][0] for i in range(50)} == {"b1"}
    for _, item in [*first.values(), *second.values()]:
        dispatcher.results("b1", [bound(item)], now=NOW)
    third = sent(dispatcher.decide([a_decision(f"r{i}", node=f"n{i}") for i in range(50)], now=NOW))
    assert {binder for binder, _ in third.values()} == {"b1", "b2", "b3", "b4", "b5"}


def test_a_binder_that_leaves_moves_only_its_own_nodes():
    def owners(binders):
        decisions = [a_decision(f"p{i}", node=f"n{i}") for i in range(200)]
        out = sent(a_dispatcher(*binders).decide(decisions, now=NOW))
        return {name: binder for name, (binder, _) in out.items()}

    before, after = owners(["b1", "b2", "b3"]), owners(["b1", "b3"])
    assert {before[name] for name in before if before[name] != after[name]} == {"b2"}
    assert min(Counter(before.values()).values()) > 40


def test_a_binder_with_more_capacity_gets_more_nodes():
    dispatcher = Dispatcher(epoch=1)
    dispatcher.connect("small", capacity=10, now=NOW)
    dispatcher.connect("large", capacity=30, now=NOW)
    out = sent(dispatcher.decide([a_decision(f"p{i}", node=f"n{i}") for i in range(400)], now=NOW))
    share = Counter(binder for binder, _ in out.values())
    assert 2 < share["large"] / share["small"] < 4.5


def test_without_binders_decisions_wait_then_expire():
    dispatcher = a_dispatcher()
    assert dispatcher.decide([a_decision("p")], now=NOW) == []
    assert dispatcher.tick(now=NOW + DECISION_SECONDS) == []
    result = settled(dispatcher.tick(now=NOW + DECISION_SECONDS + 1))["p"]
    assert (result.bound, result.reason, result.node_at_fault) == (False, NOBODY, False)


def test_a_waiting_decision_goes_to_the_first_binder_that_comes():
    dispatcher = a_dispatcher()
    dispatcher.decide([a_decision("p")], now=NOW)
    assert sent(dispatcher.connect("b1", capacity=1, now=NOW + 5))["p"][0] == "b1"


def test_what_a_lost_binder_had_goes_unchanged_to_another():
    dispatcher = a_dispatcher("b1")
    _, before = sent(dispatcher.decide([a_decision("p")], now=NOW))["p"]
    dispatcher.connect("b2", capacity=1, now=NOW)
    binder, after = sent(dispatcher.disconnect("b1", now=NOW + 1))["p"]
    assert (binder, after) == ("b2", before)


def test_a_failure_is_believed_only_once_the_lost_binder_cannot_act_any_more():
    dispatcher = a_dispatcher("b1")
    _, item = sent(dispatcher.decide([a_decision("p")], now=NOW))["p"]
    dispatcher.connect("b2", capacity=1, now=NOW)
    dispatcher.disconnect("b1", now=NOW)
    assert settled(dispatcher.results("b2", [failed(item)], now=NOW + 1)) == {}
    assert settled(dispatcher.tick(now=NOW + LOST_BINDER_SECONDS)) == {}
    result = settled(dispatcher.tick(now=NOW + LOST_BINDER_SECONDS + 1))["p"]
    assert (result.bound, result.reason) == (False, "no room")


def test_the_lost_binder_may_still_report_that_it_has_bound():
    dispatcher = a_dispatcher("b1")
    _, item = sent(dispatcher.decide([a_decision("p")], now=NOW))["p"]
    dispatcher.connect("b2", capacity=1, now=NOW)
    dispatcher.disconnect("b1", now=NOW)
    dispatcher.connect("b1", capacity=1, now=NOW + 2)
    assert settled(dispatcher.results("b1", [bound(item)], now=NOW + 2))["p"].bound
    assert dispatcher.results("b2", [bound(item)], now=NOW + 3) == []


def test_a_binder_that_reconnects_keeps_what_it_could_not_stop():
    dispatcher = a_dispatcher("b1")
    _, item = sent(dispatcher.decide([a_decision("p")], now=NOW))["p"]
    dispatcher.disconnect("b1", now=NOW)
    in_flight = [InFlight(decision_id=item.decision_id, pod_uid="uid-p", node="n1", epoch=7)]
    assert sent(dispatcher.connect("b1", capacity=1, in_flight=in_flight, now=NOW + 1)) == {}
    assert settled(dispatcher.results("b1", [bound(item)], now=NOW + 2))["p"].bound


def test_what_a_binder_does_for_an_earlier_leader_is_told_and_so_is_its_end():
    dispatcher = a_dispatcher()
    in_flight = [InFlight(decision_id="3-9", pod_uid="u", node="n1", epoch=3)]
    assert dispatcher.connect("b1", capacity=1, in_flight=in_flight, now=NOW) == [Inherited("u", "n1")]
    late = Result(decision_id="3-9", pod_uid="u", status=ResultStatus.FAILED)
    assert dispatcher.results("b1", [late], now=NOW) == [Inherited("u", "n1", bound=False)]
    assert dispatcher.results("b1", [late], now=NOW) == []


EARLIER = [InFlight(decision_id="3-9", pod_uid="uid-p", node="n1", epoch=3)]


def test_what_a_lost_binder_did_for_an_earlier_leader_ends_once_it_cannot_act_any_more():
    dispatcher = a_dispatcher()
    dispatcher.connect("b1", capacity=1, in_flight=EARLIER, now=NOW)
    dispatcher.disconnect("b1", now=NOW + 1)
    assert dispatcher.tick(now=NOW + 1 + LOST_BINDER_SECONDS) == []
    assert dispatcher.tick(now=NOW + 2 + LOST_BINDER_SECONDS) == [Inherited("uid-p", "n1", bound=False)]
    assert dispatcher.tick(now=NOW + 3 + LOST_BINDER_SECONDS) == []


def test_it_goes_on_where_the_binder_is_back_with_it_and_ends_where_it_is_back_without():
    dispatcher = a_dispatcher()
    late = NOW + 3 + LOST_BINDER_SECONDS
    for in_flight, told in ((EARLIER, []), ([], [Inherited("uid-p", "n1", bound=False)])):
        dispatcher.connect("b1", capacity=1, in_flight=EARLIER, now=NOW)
        dispatcher.disconnect("b1", now=NOW + 1)
        dispatcher.connect("b1", capacity=1, in_flight=in_flight, now=NOW + 2)
        assert dispatcher.tick(now=late) == told


def test_a_binder_that_does_not_tell_how_it_ends_is_cut_off():
    dispatcher = a_dispatcher()
    dispatcher.connect("b1", capacity=1, in_flight=EARLIER, now=NOW)
    assert dispatcher.tick(now=NOW + EXECUTION_SECONDS) == []
    assert dispatcher.tick(now=NOW + EXECUTION_SECONDS + 1) == [Cut("b1")]


def test_where_a_decision_of_ours_is_about_the_pod_nothing_of_an_earlier_one_is_told():
    late = Result(decision_id="3-9", pod_uid="uid-p", status=ResultStatus.FAILED)
    before, after = a_dispatcher("b2"), a_dispatcher("b2")
    before.decide([a_decision("p")], now=NOW)
    assert before.connect("b1", capacity=1, in_flight=EARLIER, now=NOW) == []
    after.connect("b1", capacity=1, in_flight=EARLIER, now=NOW)
    after.decide([a_decision("p")], now=NOW)
    for dispatcher in (before, after):
        assert dispatcher.results("b1", [late], now=NOW) == []


def test_a_decision_of_ours_that_nobody_took_is_inherited_from_a_binder_that_does_it_after_all():
    dispatcher = a_dispatcher("b1")
    _, item = sent(dispatcher.decide([a_decision("p")], now=NOW))["p"]
    dispatcher.disconnect("b1", now=NOW)
    later = NOW + 1 + max(DECISION_SECONDS, LOST_BINDER_SECONDS)
    assert settled(dispatcher.tick(now=later))["p"].reason == NOBODY
    in_flight = [InFlight(decision_id=item.decision_id, pod_uid="uid-p", node="n1", epoch=7)]
    told = dispatcher.connect("b1", capacity=1, in_flight=in_flight, now=later)
    assert told == [Inherited("uid-p", "n1")]
    told = dispatcher.results("b1", [failed(item)], now=later)
    assert told == [Inherited("uid-p", "n1", bound=False)]


def test_a_binder_without_results_is_cut_off():
    dispatcher = a_dispatcher("b1")
    dispatcher.decide([a_decision("p")], now=NOW)
    assert dispatcher.tick(now=NOW + EXECUTION_SECONDS) == []
    assert dispatcher.tick(now=NOW + EXECUTION_SECONDS + 1) == [Cut("b1")]


def test_what_a_binder_was_silent_about_fails_with_its_stream_and_the_rest_goes_to_another():
    """Else it would be sent again, and hang again, for ever."""
    dispatcher = a_dispatcher("b1")
    dispatcher.decide([a_decision("p")], now=NOW)
    late = NOW + EXECUTION_SECONDS + 1
    _, other = sent(dispatcher.decide([a_decision("q")], now=late - 1))["q"]
    dispatcher.connect("b2", capacity=1, now=late)
    assert sent(dispatcher.disconnect("b1", now=late)) == {"q": ("b2", other)}
    assert settled(dispatcher.tick(now=late + LOST_BINDER_SECONDS)) == {}
    result = settled(dispatcher.tick(now=late + LOST_BINDER_SECONDS + 1))["p"]
    assert (result.bound, result.reason, result.node_at_fault) == (False, SILENT, False)


def test_what_it_was_silent_about_and_still_does_when_it_is_back_ends_by_its_result():
    dispatcher = a_dispatcher("b1")
    _, item = sent(dispatcher.decide([a_decision("p")], now=NOW))["p"]
    late = NOW + EXECUTION_SECONDS + 1
    dispatcher.disconnect("b1", now=late)
    in_flight = [InFlight(decision_id=item.decision_id, pod_uid="uid-p", node="n1", epoch=7)]
    assert dispatcher.connect("b1", capacity=1, in_flight=in_flight, now=late + 1) == []
    assert dispatcher.tick(now=late + LOST_BINDER_SECONDS + 1) == []
    assert settled(dispatcher.results("b1", [bound(item)], now=late + LOST_BINDER_SECONDS + 2))["p"].bound


def test_a_binder_whose_binds_may_take_longer_is_waited_for_longer():
    dispatcher = Dispatcher(epoch=7)
    longer = 300.0
    dispatcher.connect("b1", capacity=10, longest_bind=BIND_SECONDS + longer, in_flight=EARLIER, now=NOW)
    dispatcher.connect("b2", capacity=10, longest_bind=BIND_SECONDS + longer, now=NOW)
    dispatcher.decide([a_decision(f"p{i}", node=f"n{i}") for i in range(20)], now=NOW)
    assert dispatcher.tick(now=NOW + EXECUTION_SECONDS + longer) == []
    cut = dispatcher.tick(now=NOW + EXECUTION_SECONDS + longer + 1)
    assert cut == [Cut("b1"), Cut("b2")]


# --- gangs -------------------------------------------------------------------------------------
def a_gang(*names, fraction=True):
    return [a_decision(name, node=f"n-{name}", group="ns/g", fraction=fraction) for name in names]


def test_a_gang_without_preparation_is_bound_directly():
    out = sent(a_dispatcher("b1").decide(a_gang("p", "q", fraction=False), now=NOW))
    assert [item.prepare_only for _, item in out.values()] == [False, False]


def test_one_member_that_needs_preparation_makes_the_whole_gang_wait():
    decisions = [*a_gang("p"), *a_gang("q", fraction=False)]
    out = sent(a_dispatcher("b1").decide(decisions, now=NOW))
    assert [item.prepare_only for _, item in out.values()] == [True, True]


def test_pods_of_a_group_that_is_no_gang_do_not_wait_for_each_other():
    out = sent(a_dispatcher("b1").decide(a_gang("p", "q"), now=NOW, is_gang=lambda group: False))
    assert [item.prepare_only for _, item in out.values()] == [False, False]


def test_the_gang_is_bound_when_the_last_member_is_prepared():
    dispatcher = a_dispatcher("b1")
    out = sent(dispatcher.decide(a_gang("p", "q"), now=NOW))
    (_, p), (_, q) = out["p"], out["q"]
    assert dispatcher.results("b1", [prepared(p)], now=NOW) == []
    (verdict,) = dispatcher.results("b1", [prepared(q)], now=NOW)
    assert verdict == Verdict("b1", bind=(p.decision_id, q.decision_id))
    assert all(
        item.bound for item in settled(dispatcher.results("b1", [bound(p), bound(q)], now=NOW)).values()
    )


def test_when_one_member_fails_the_others_are_undone():
    dispatcher = a_dispatcher("b1")
    out = sent(dispatcher.decide(a_gang("p", "q"), now=NOW))
    (_, p), (_, q) = out["p"], out["q"]
    dispatcher.results("b1", [prepared(p)], now=NOW)
    told = dispatcher.results("b1", [failed(q)], now=NOW)
    assert settled(told)["q"].reason == "no room"
    assert Verdict("b1", abandon=(p.decision_id,)) in told
    assert settled(dispatcher.results("b1", [failed(p, ABANDONED)], now=NOW))["p"].reason == ABANDONED


def test_a_prepared_member_whose_binder_is_lost_is_prepared_again_by_another():
    dispatcher = a_dispatcher("b1")
    out = sent(dispatcher.decide(a_gang("p", "q"), now=NOW))
    dispatcher.results("b1", [prepared(out["p"][1])], now=NOW)
    dispatcher.connect("b2", capacity=1, now=NOW)
    again = sent(dispatcher.disconnect("b1", now=NOW))
    assert {(binder, item.prepare_only) for binder, item in again.values()} == {("b2", True)}
    told = dispatcher.results("b2", [prepared(item) for _, item in again.values()], now=NOW + 1)
    assert [len(item.bind) for item in told if isinstance(item, Verdict)] == [2]


def test_after_the_verdict_a_lost_member_is_bound_directly_by_another():
    dispatcher = a_dispatcher("b1")
    out = sent(dispatcher.decide(a_gang("p", "q"), now=NOW))
    dispatcher.results("b1", [prepared(item) for _, item in out.values()], now=NOW)
    dispatcher.connect("b2", capacity=1, now=NOW)
    again = sent(dispatcher.disconnect("b1", now=NOW))
    assert {(binder, item.prepare_only) for binder, item in again.values()} == {("b2", False)}


def test_a_gang_of_which_a_binder_was_silent_about_one_is_undone():
    dispatcher = a_dispatcher("b1")
    out = sent(dispatcher.decide(a_gang("p", "q"), now=NOW))
    dispatcher.results("b1", [prepared(out["p"][1])], now=NOW)
    late = NOW + EXECUTION_SECONDS + 1
    dispatcher.connect("b2", capacity=1, now=late)
    assert sent(dispatcher.disconnect("b1", now=late)) == {}
    told = settled(dispatcher.tick(now=late + LOST_BINDER_SECONDS + 1))
    assert {name: end.reason for name, end in told.items()} == {"p": ABANDONED, "q": SILENT}


def test_a_gang_with_a_member_that_nobody_takes_expires_as_a_whole():
    dispatcher = a_dispatcher()
    dispatcher.decide(a_gang("p", "q"), now=NOW)
    assert set(settled(dispatcher.tick(now=NOW + DECISION_SECONDS + 1))) == {"p", "q"}
    assert len(dispatcher) == 0


# --- any order of events -----------------------------------------------------------------------
class AnyOrder(RuleBasedStateMachine):
    """Binders here do with their assignments what they like, and stop when they must."""

    def __init__(self):
        super().__init__()
        self.now = NOW
        self.dispatcher = Dispatcher(epoch=7)
        self.count = 0
        #: Binder -> decision id -> assignment that it works on.
        self.working = {}
        #: Decision id -> until when a lost binder may act on it.
        self.shadows = {}
        self.given = {}
        self.ended = {}
        self.verdicts = {}

    def take(self, instructions):
        for item in instructions:
            match item:
                case Send(binder, deadline, assignments):
                    assert binder in self.working
                    assert deadline >= self.now
                    for assignment in assignments:
                        assert not any(assignment.decision_id in work for work in self.working.values())
                        self.working[binder][assignment.decision_id] = assignment
                case Settled(decision_id, _, is_bound, _, _):
                    assert decision_id not in self.ended, "settled twice"
                    self.ended[decision_id] = is_bound
                    if not is_bound:
                        assert not any(decision_id in work for work in self.working.values())
                        assert self.shadows.get(decision_id, 0) < self.now, "a lost binder may still bind it"
                case Verdict(binder, bind, abandon):
                    assert binder in self.working
                    for decision_id in (*bind, *abandon):
                        self.verdicts[decision_id] = decision_id in bind
                case Cut(binder):
                    self.lose(binder)
                case _:
                    raise AssertionError(item)

    @rule(nodes=st.lists(st.integers(0, 3), min_size=1, max_size=4), fraction=st.booleans())
    def decide(self, nodes, fraction):
        group = f"ns/g{self.count}"
        decisions = []
        for node in nodes:
            self.count += 1
            name = f"p{self.count}"
            decisions.append(a_decision(name, node=f"n{node}", group=group, fraction=fraction))
        before = set(self.dispatcher.outstanding())
        told = self.dispatcher.decide(decisions, now=self.now)
        self.given |= dict.fromkeys(set(self.dispatcher.outstanding()) - before)
        self.take(told)

    @rule(binder=st.sampled_from("abc"), keeps=st.booleans())
    def connect(self, binder, keeps):
        before = self.working.get(binder, {})
        kept = {}
        if keeps:
            kept = {
                key: item for key, item in before.items() if not item.prepare_only or self.verdicts.get(key)
            }
        self.lose(binder, tell=False)
        self.working[binder] = {}
        in_flight = [
            InFlight(decision_id=key, pod_uid=item.decision.pod.uid, node=item.decision.node, epoch=7)
            for key, item in kept.items()
        ]
        # What it keeps may now be given to it alone.
        self.working[binder] |= kept
        self.take(self.dispatcher.connect(binder, capacity=2, in_flight=in_flight, now=self.now))

    def lose(self, binder, *, tell=True):
        for key in self.working.pop(binder, {}):
            self.shadows[key] = self.now + LOST_BINDER_SECONDS
        if tell:
            self.take(self.dispatcher.disconnect(binder, now=self.now))

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def disconnect(self, data):
        self.lose(data.draw(st.sampled_from(sorted(self.working))))

    @precondition(lambda self: any(self.working.values()))
    @rule(data=st.data(), good=st.booleans())
    def result(self, data, good):
        binder = data.draw(st.sampled_from(sorted(name for name, work in self.working.items() if work)))
        key = data.draw(st.sampled_from(sorted(self.working[binder])))
        assignment = self.working[binder][key]
        verdict = self.verdicts.get(key)
        if good and assignment.prepare_only and verdict is None:
            self.take(self.dispatcher.results(binder, [prepared(assignment)], now=self.now))
            return
        del self.working[binder][key]
        outcome = bound(assignment) if good and verdict is not False else failed(assignment)
        self.take(self.dispatcher.results(binder, [outcome], now=self.now))

    @rule(seconds=st.floats(0.1, 40) | st.just(EXECUTION_SECONDS + 1))
    def wait(self, seconds):
        self.now += seconds
        self.take(self.dispatcher.tick(now=self.now))

    @invariant()
    def nothing_is_lost(self):
        assert set(self.given) == set(self.ended) | set(self.dispatcher.outstanding())
        assert not set(self.ended) & set(self.dispatcher.outstanding())

    def teardown(self):
        for binder in list(self.working):
            self.lose(binder)
        self.wait(DECISION_SECONDS + LOST_BINDER_SECONDS + 1)
        self.wait(1)
        assert set(self.ended) == set(self.given)
        assert len(self.dispatcher) == 0


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestAnyOrder = AnyOrder.TestCase
