"""``kai explain``: why anything waits, and what would let it run, proven on a copy of the cluster."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Annotated, Final

import msgspec
import typer

from kai.answers import objects
from kai.answers.answer import Answer, Code, Forecast, Held, Ladder, PastEviction, Reason, Verdict, document
from kai.answers.answering import answer_pod, answer_pod_groups, answer_queue
from kai.answers.forecasting import with_forecast
from kai.answers.situation import Situation
from kai.forecast.learned import Learned
from kai.forecast.runs import lasted
from kai.history.questions import Selection
from kai.history.records import Run
from kai.kube.client import KubeClient
from kai.kube.errors import ApiError, KubeError, NotFound
from kai.kube.resources import CORE_EVENTS, LEASES, POD_GROUPS
from kai.model import names
from kai.model.ids import PodGroupKey
from kai.model.objects import Json, Pod, PodGroup
from kai.model.rules.phases import has_ended
from kai.replay import circumstances
from kai.snapshot import codec
from kai.snapshot.pods import in_group
from kai.snapshot.times import seconds
from kai.wire.chunks import Received
from kai.wire.errors import MalformedMessage, PeerUnavailable, WireError
from kai_cli import output
from kai_cli.connection import Target, ask
from kai_cli.gone import last_words
from kai_cli.logs import note
from kai_cli.looking import installation
from kai_cli.output import Format, FormatOption, fail
from kai_cli.remedies import with_remedies
from kai_cli.subjects import POD, POD_GROUP, QUEUE, NoSubject, Subject, found_subject
from kai_cli.views import answers as view

NamespaceOption = Annotated[
    str, typer.Option("-n", "--namespace", help="Where it is; that of the context if left out.")
]
What = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME", help="job/x, deploy/x, pod/x, podgroup/x, queue/x, any kind/name, or a name."
    ),
]
_GROUPER_WARNING: Final = "PodGrouperWarning"
#: How long insight may take to say what ran; a forecast is done without, if it takes longer.
_PAST_SECONDS: Final = 10.0


def explain(
    context: typer.Context,
    what: What,
    *,
    namespace: NamespaceOption = "",
    output: FormatOption = Format.TABLE,
) -> None:
    """Say why something waits, and what would let it run.

    One verdict (RUNS, WAIT, CHANGE, ESCALATE, NEVER), one reason with numbers, how far it got, and changes of
    which each was tried on a copy of the cluster. Where no scheduler answers, what objects record is told.
    """
    target = Target.of(context)

    async def question() -> Answer:
        async with target.cluster() as client:
            try:
                subject = await found_subject(client, what, namespace=namespace or client.namespace)
            except NoSubject as missing:
                past = await last_words(target, client, missing)
                raise fail(past or str(missing)) from None
            return await _Explanation(target, client, subject).answer()

    found = ask(question)
    if output is Format.TABLE:
        view.show(found)
    else:
        print_document(document(found), output)


def print_document(found: Json, form: Format) -> None:
    """As JSON or YAML."""
    output.document(found, form)


class _Explanation:
    """One question: what objects say comes first, then what the engine says."""

    def __init__(self, target: Target, client: KubeClient, subject: Subject) -> None:
        self.target, self.client, self.subject = target, client, subject
        #: Pod groups by name, and whether they exist.
        self._known: dict[str, bool] = {}
        self._situation: Situation | None = None
        #: Why no scheduler could be asked.
        self._silence = ""
        #: What pods name that are for our schedulers; empty until somebody has told.
        self._ours = ""

    async def answer(self) -> Answer:
        """The answer, about what was asked for."""
        found = await self._found()
        subject = self.subject
        found = objects.with_failed_binds(objects.with_gates(found, subject.pods), subject.pods)
        return msgspec.structs.replace(
            found,
            kind=subject.kind,
            namespace=subject.namespace,
            name=subject.name,
            evictions=await self._evictions(found.pod_group),
        )

    async def _found(self) -> Answer:
        subject = self.subject
        if subject.kind == QUEUE:
            await self._ask()
            return await self._of_engine(None)
        if subject.pods or subject.kind == POD_GROUP:
            await self._ask()
            subject = self.subject = self._completed()
        waiting = [pod for pod in subject.pods if not (pod.spec.node_name or has_ended(pod.status.phase))]
        for pod in waiting or subject.pods[:1]:
            if (told := await self._of_objects(pod)) is not None:
                return await self._with_remedies(told, subject.object, pod)
        if not subject.pods and not self._is_joined():
            owner = await self._owner()
            if owner is not None:
                return await self._with_remedies(objects.without_pods(owner, now=time.time()), owner, None)
        if not subject.groups:
            known = subject.object or {"kind": subject.kind, "metadata": {"name": subject.name}}
            return objects.without_pods(known, now=time.time())
        return await self._of_engine(waiting[0] if waiting else None)

    def _completed(self) -> Subject:
        """With the groups that the scheduler knows of its pods, which they may say a moment later."""
        subject = self.subject
        if self._situation is None:
            return subject
        known = {uid: group for _, uid, group in self._situation.snapshot.memberships()}

        def completed(pod: Pod) -> Pod:
            group = known.get(pod.metadata.uid, "")
            silent = names.POD_GROUP_ANNOTATION not in pod.annotations
            return in_group(pod, group) if group and silent else pod

        return replace(subject, pods=[completed(pod) for pod in subject.pods])

    def _is_joined(self) -> bool:
        """Whether it is a pod group of which the scheduler knows pods that do not say so yet."""
        subject, situation = self.subject, self._situation
        if subject.kind != POD_GROUP or situation is None:
            return False
        members = situation.snapshot.memberships()
        return any(
            (key.rpartition("/")[0], group) == (subject.namespace, subject.name) for key, _, group in members
        )

    async def _owner(self) -> Json | None:
        """Whose pods are to come: the subject itself, or what its pod group was made for."""
        subject = self.subject
        if subject.kind != POD_GROUP or subject.object is None:
            return subject.object
        for owner in subject.object["metadata"].get("ownerReferences") or ():
            try:
                resource = await self.client.discover(owner["apiVersion"], owner["kind"])
                if resource is None:
                    continue
                where = subject.namespace if resource.namespaced else ""
                obj = await self.client.get(resource, owner["name"], namespace=where)
            except ApiError:
                continue
            return {**obj, "kind": resource.kind}
        return None

    # --- objects -----------------------------------------------------------------------------------
    async def _of_objects(self, pod: Pod) -> Answer | None:
        told = objects.without_scheduler(pod, scheduler_name=await self._scheduler_name())
        if told is not None:
            return told
        named = pod.annotations.get(names.POD_GROUP_ANNOTATION, "")
        exists = bool(named) and await self._group_exists(named)
        if exists:
            return None
        return objects.without_group(
            pod,
            exists=False,
            now=time.time(),
            warnings=[] if named else await self._warnings(pod),
            groupers=None if named else await self._groupers(),
        )

    async def _with_remedies(self, told: Answer, owner: Json | None, pod: Pod | None) -> Answer:
        """With what would help: made in the workload if it has a template, else in the pod."""
        if told.verdict is Verdict.RUNS:
            return told
        if self._situation is None:
            await self._ask()
        if owner is not None and ("template" in (owner.get("spec") or {}) or pod is None):
            body = owner
        elif pod is not None:
            body = {"apiVersion": "v1", "kind": POD, **msgspec.to_builtins(pod)}
        return told if self._situation is None else await with_remedies(told, self._situation, body)

    async def _group_exists(self, name: str) -> bool:
        if name not in self._known:
            try:
                await self.client.get(POD_GROUPS, name, namespace=self.subject.namespace)
            except NotFound:
                self._known[name] = False
            except ApiError:  # one may not see them: the scheduler knows what is there
                self._known[name] = True
            else:
                self._known[name] = True
        return self._known[name]

    async def _warnings(self, pod: Pod) -> list[str]:
        events = await self._events("Pod", pod.metadata.name)
        told = [each for each in events if each.get("reason") == _GROUPER_WARNING]
        return [str(each.get("message", "")) for each in told]

    async def _groupers(self) -> int | None:
        """How many pod-groupers hold their Lease now; None where that cannot be seen."""
        try:
            lease = await self.client.get(LEASES, names.POD_GROUPER_LEASE, namespace=self.target.namespace)
        except NotFound:
            return 0
        except ApiError:
            return None
        spec = lease.get("spec") or {}
        lasts = float(spec.get("leaseDurationSeconds") or 15)
        return int(
            bool(spec.get("holderIdentity")) and time.time() - seconds(spec.get("renewTime")) < 2 * lasts
        )

    async def _events(self, kind: str, name: str) -> list[Json]:
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        try:
            return await self.client.list(
                CORE_EVENTS, namespace=self.subject.namespace, field_selector=selector
            )
        except ApiError:  # one may not see them; everything else is told
            return []

    async def _evictions(self, group: str) -> tuple[PastEviction, ...]:
        if not group or self.subject.kind == QUEUE:
            return ()
        return objects.evictions(await self._events(POD_GROUP, group))

    # --- the engine --------------------------------------------------------------------------------
    async def _ask(self) -> None:
        """Have the scheduler tell how things are, or note why it does not."""
        try:
            async with self.target.scheduler(self.client) as scheduler:
                self._situation = _situation(await scheduler.picture())
        except (PeerUnavailable, ApiError) as error:  # its Lease may be for others to read
            self._silence = str(error)

    async def _scheduler_name(self) -> str:
        """What pods name that are for the scheduler that was asked, or for the installation if none was."""
        if self._situation is not None:
            return str(self._situation.snapshot.params.get("scheduler_name") or names.SCHEDULER_NAME)
        if not self._ours:
            installed = await installation.read(self.client, namespace=self.target.namespace)
            self._ours = installed.scheduler_name
        return self._ours

    async def _of_engine(self, waiting: Pod | None) -> Answer:
        if self._situation is None:
            return await self._recorded(self._silence, waiting)
        return await self._with_forecast(self._situation, self._answered(self._situation, waiting))

    async def _with_forecast(self, situation: Situation, found: Answer) -> Answer:
        """With when it starts, where insight says how long others ran."""
        if found.verdict is not Verdict.WAIT or not found.pod_group or self.subject.kind == QUEUE:
            return found
        try:
            async with asyncio.timeout(_PAST_SECONDS), self.target.history(self.client) as history:
                runs, _ = await history.find(Run, Selection())
        except (TimeoutError, WireError, KubeError) as error:
            note(__name__, "there is no forecast", reason=str(error) or "no answer in time")
            return found
        found = with_forecast(found, situation, Learned.of(lasted(runs, now=situation.now)))
        return found if found.forecast is None else await self._kept(situation, found, found.forecast)

    async def _kept(self, situation: Situation, found: Answer, forecast: Forecast) -> Answer:
        """Have insight see what comes of it, and tell what came of others."""
        try:
            async with asyncio.timeout(_PAST_SECONDS), self.target.history(self.client) as history:
                kept = await history.keep_forecast(
                    namespace=found.namespace,
                    pod_group=found.pod_group,
                    at=situation.now,
                    p50=forecast.p50,
                    p90=forecast.p90,
                )
        except (TimeoutError, WireError, KubeError) as error:
            note(__name__, "the forecast is not kept", reason=str(error) or "no answer in time")
            return found
        coverage = {
            "p50": Held(held=kept.held50, of=kept.decided50),
            "p90": Held(held=kept.held90, of=kept.decided90),
        }
        basis = msgspec.structs.replace(forecast.basis, coverage=coverage)
        return msgspec.structs.replace(found, forecast=msgspec.structs.replace(forecast, basis=basis))

    def _answered(self, situation: Situation, waiting: Pod | None) -> Answer:
        subject = self.subject
        if subject.kind == QUEUE:
            found = answer_queue(situation, subject.name)
        elif subject.kind == POD:
            found = answer_pod(situation, subject.key)
        else:
            groups = (
                [waiting.annotations[names.POD_GROUP_ANNOTATION]] if waiting is not None else subject.groups
            )
            found = answer_pod_groups(
                situation, [PodGroupKey(f"{subject.namespace}/{each}") for each in groups]
            )
        return found if found is not None else self._unknown()

    def _unknown(self) -> Answer:
        """It is there, and the scheduler that was asked does not know it."""
        text = (
            "the scheduler that was asked does not know it: it belongs to another node pool, or it is newer "
            "than the last cycle; --scheduler-lease asks another one"
        )
        return self._plain(Code.ANOTHER_SHARD, Verdict.CHANGE, text)

    async def _recorded(self, why: str, waiting: Pod | None) -> Answer:
        """What objects say while no scheduler can be asked."""
        text = why
        if recorded := await self._last_words(waiting):
            text += f"; the last that was recorded: {recorded}"
        return self._plain(Code.SCHEDULER_SILENT, Verdict.ESCALATE, text)

    async def _last_words(self, waiting: Pod | None) -> str:
        if waiting is not None:
            told = [
                c.message for c in waiting.status.conditions or () if c.type == "PodScheduled" and c.message
            ]
            failed = [
                f"the last bind failed: {c.message}"
                for c in waiting.status.conditions or ()
                if (c.type, c.status) == (names.POD_BOUND, "False")
            ]
            if told or failed:
                return "; ".join([*told[-1:], *failed[-1:]])
        for name in self.subject.groups[:1]:
            try:
                group = await self.client.get(
                    POD_GROUPS, name, namespace=self.subject.namespace, type=PodGroup
                )
            except ApiError:  # it may go before its pods, or one may not see it
                return ""
            conditions = (group.status and group.status.scheduling_conditions) or []
            return conditions[-1].message if conditions else ""
        return ""

    def _plain(self, code: Code, verdict: Verdict, text: str) -> Answer:
        reason = Reason(code=code, text=text)
        subject = self.subject
        return Answer(
            kind=subject.kind,
            namespace=subject.namespace,
            name=subject.name,
            pod_group=(subject.groups or [""])[0] if subject.kind != QUEUE else "",
            verdict=verdict,
            reason=reason,
            stages=Ladder().failed(reason),
        )


def _situation(received: Received) -> Situation:
    try:
        told = circumstances.decode(received.circumstances)
        snapshot = codec.decode(received.data)
    except (circumstances.CircumstancesError, codec.SnapshotError) as error:
        raise MalformedMessage(f"{error}; are the scheduler and kai of the same version?") from error
    return Situation(
        snapshot=snapshot,
        now=told.now,
        config=told.config,
        usage=told.usage,
        faults={(each.kind, each.key): each for each in told.faults},
        remainder=told.remainder,
    )
