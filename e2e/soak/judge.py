"""Puts what was seen before the rules, and keeps what they find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from e2e.soak.frame import Breach, Frame, LogLine, ProcessSample
from e2e.soak.journal import Clock, Journal
from e2e.soak.plan import NEW_WORK
from e2e.soak.rules import accounts, constraints, groups, placement, processes, queues, scaling
from e2e.soak.rules.coverage import every_form_of_work_runs
from e2e.soak.rules.latency import Placed, probes_are_placed_soon
from e2e.soak.rules.pace import PACE
from e2e.soak.rules.telling import Mistake, mistakes_are_told

#: For so long after trouble has ended it may still be felt; on an idle machine.
GRACE_SECONDS = 12.0
#: Programs that stand in for a cluster: what they say is not the product's.
SURROUNDINGS = frozenset({"apiserver", "fork-server", "machinery", "redis", "supervisor", "prepare"})
#: What a process says last that ends and is started anew, since the API server is away for too long:
#: a leader that could not renew its lease, and one that has just begun and was never answered.
_GAVE_UP = ("leadership lost", "\nerror: get version: ", "accepts connections but does not answer")
_LOGGED_SECONDS = 5.0

#: What must hold at every moment, and for how long it may not, since changes of several objects are not seen
#: at once; on an idle machine.
States = Sequence[tuple[Callable[[Frame], Iterable[Breach]], float]]
Changes = Sequence[Callable[[Frame, Frame], Iterable[Breach]]]
STATES: States = (
    (placement.devices_have_one_owner, 3.0),
    (placement.devices_are_reserved_once, 3.0),
    (placement.nodes_have_room, 3.0),
    (placement.claims_have_devices_of_their_own, 3.0),
    (placement.claims_are_reserved_for_pods_that_exist, 30.0),
    (placement.nodes_take_what_is_bound, 0.0),
    (groups.gangs_are_whole, 45.0),
    (constraints.gangs_are_in_one_domain, 5.0),
    (constraints.who_must_be_apart_is, 5.0),
    (constraints.zones_have_room, 5.0),
    (constraints.claims_are_served_where_their_pod_is, 5.0),
    (constraints.devices_asked_for_as_a_resource_are_given, 10.0),
    (constraints.who_runs_is_not_told_to_wait, 60.0),
    (accounts.groups_are_charged_what_their_pods_hold, 60.0),
    (accounts.queues_are_charged_what_is_in_them, 60.0),
    (scaling.scaling_pods_stand_for_who_waits, 60.0),
)
CHANGES: Changes = (
    placement.nobody_moves,
    constraints.closed_nodes_get_nothing,
    queues.limits_are_kept,
    queues.firm_work_keeps_to_quotas,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A breach, when it was found, and what may explain it."""

    at: float
    rule: str
    subject: str
    message: str
    #: What the soak last did to the object, and made fail.
    actions: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether no slowness of the machine explains it."""
        return self.rule not in PACE


class Judge:
    """Each finding is kept once, and told when it is made. ``excerpts`` gives log lines about a name."""

    def __init__(
        self,
        journal: Journal,
        *,
        excerpts: Callable[[str], list[str]],
        load: Callable[[], float] = Clock.load,
        tell: Callable[[str], None] = lambda text: None,
        states: States = STATES,
        changes: Changes = CHANGES,
    ) -> None:
        self.findings: list[Finding] = []
        self._journal = journal
        self._excerpts = excerpts
        self._load = load
        self._tell = tell
        self._states, self._changes = states, changes
        self._known: set[tuple[str, str]] = set()
        self._since: dict[tuple[str, str], float] = {}

    def look(self, before: Frame, now: Frame, restarts: Mapping[str, int] | None = None) -> None:
        """Judge a moment, and what happened since the last one. ``restarts`` are counted by process."""
        self._note(now.at, list(self._lasting(now, restarts or {})))
        for change in self._changes:
            self._note(now.at, change(before, now))

    def read(self, before: Frame, now: Frame, lines: Sequence[LogLine]) -> None:
        """Judge what was logged."""
        self._note(now.at, groups.firm_pods_stay(before, now, lines))
        for line in lines:
            if any(words in line.text for words in _GAVE_UP) and self._excused(line.at):
                self._journal.killed[line.process] += 1
        ours = [line for line in lines if line.process not in SURROUNDINGS]
        causeless = [line for line in ours if "Traceback" in line.text or not self._excused(line.at)]
        self._note(now.at, processes.nobody_complains(causeless))

    def listen(self, now: Frame, warned: Collection[str]) -> None:
        """Judge what users were told; ``warned``: the objects with a warning, as ``Kind namespace/name``."""
        mistakes = [
            Mistake(entry.at, entry.what, entry.subjects[-1].rpartition("/")[2], entry.subjects[-1])
            for entry in self._journal.entries
            if entry.malformed and entry.taken
        ]
        self._note(now.at, mistakes_are_told(mistakes, now, warned, load=self._load()))

    def note(self, at: float, breaches: Iterable[Breach]) -> None:
        """Take over what somebody else has judged."""
        self._note(at, breaches)

    def conclude(self, at: float, *, placed: list[Placed], samples: Iterable[ProcessSample]) -> None:
        """Judge what only the whole shows."""
        self._note(at, probes_are_placed_soon(placed, load=self._load()))
        works = [
            (what.removeprefix(NEW_WORK), entry.subjects[0].partition(" ")[2])
            for entry in self._journal.entries
            if (what := entry.what).startswith(NEW_WORK) and entry.taken
        ]
        self._note(at, every_form_of_work_runs(works, {one.pod for one in placed}))
        ours = (sample for sample in samples if sample.name not in SURROUNDINGS)
        self._note(at, processes.sizes_level_off(ours))

    def _excused(self, at: float) -> bool:
        return self._journal.troubled(at, at, grace=GRACE_SECONDS * self._load())

    def _lasting(self, now: Frame, restarts: Mapping[str, int]) -> Iterator[Breach]:
        """Breaches of states that have lasted for long enough."""
        standing: set[tuple[str, str]] = set()
        states = [(rule(now), patience) for rule, patience in self._states]
        ended = processes.nothing_restarts_by_itself(restarts, self._journal.killed)
        for breaches, patience in (*states, (ended, _LOGGED_SECONDS)):
            for breach in breaches:
                key = (breach.rule, breach.subject)
                standing.add(key)
                if now.at - self._since.setdefault(key, now.at) >= patience * self._load():
                    yield breach
        for key in self._since.keys() - standing:
            del self._since[key]

    def _note(self, at: float, breaches: Iterable[Breach]) -> None:
        for breach in breaches:
            key = (breach.rule, breach.subject if breach.rule != "error in a log" else breach.message[:60])
            if key in self._known:
                continue
            self._known.add(key)
            self._tell(f"{at:8.1f} s  {breach.rule.upper()}: {breach.subject}: {breach.message[:300]}")
            name = breach.subject.rpartition("/")[2].rpartition(" ")[2]
            self.findings.append(
                Finding(
                    at=round(at, 1),
                    rule=breach.rule,
                    subject=breach.subject,
                    message=breach.message,
                    actions=(*self._journal.about(breach.subject), *self._journal.around(at)),
                    logs=tuple(self._excerpts(name)),
                )
            )
