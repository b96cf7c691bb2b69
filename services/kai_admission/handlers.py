"""From an admission request to our answer; one function for each webhook path."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kai.model.objects import Container, Json, Pod, Topology
from kai.model.sharing import NoSuchContainer
from kai.runtime.webhook import AdmissionRequest, AdmissionResponse, Handler
from kai.validation import granted, pods, topologies
from kai.validation.pods import PodRules
from kai.validation.registration import (
    EPHEMERAL_CONTAINERS,
    MUTATE_POD,
    VALIDATE_POD,
    VALIDATE_TOPOLOGY,
)
from kai.validation.verdict import Verdict
from kai_admission.mutation import Mutator, mutators
from kai_admission.mutation.device_access import hide_from_added
from kai_admission.mutation.draft import PodDraft
from kai_admission.mutation.patch import difference
from kai_admission.settings import AdmissionSettings

_ALLOWED: Final = AdmissionResponse()


def handlers(settings: AdmissionSettings) -> dict[str, Handler]:
    """All that this service answers, by path."""
    chain = mutators(settings)
    rules = settings.pod_rules
    return {
        MUTATE_POD: _for_pods_of(
            settings.scheduler_name,
            lambda request, pod: mutate_pod(request, pod, chain),
            lambda request, pod: complete_added(request, pod, rules),
        ),
        VALIDATE_POD: _for_pods_of(
            settings.scheduler_name,
            lambda request, pod: validate_pod(request, pod, rules),
            lambda request, pod: validate_added(request, pod, rules),
        ),
        VALIDATE_TOPOLOGY: validate_topology,
    }


def mutate_pod(request: AdmissionRequest, pod: Json, chain: Sequence[Mutator]) -> AdmissionResponse:
    """The pod completed by every mutator in turn, as a JSON patch."""
    try:
        draft = PodDraft(pod)
        metadata = draft.json.setdefault("metadata", {})
        if not metadata.get("namespace"):
            metadata["namespace"] = request.namespace
        elif request.namespace and metadata["namespace"] != request.namespace:
            return _refused(
                f"pod {metadata.get('name', '')}: metadata.namespace is {metadata['namespace']} "
                f"but the request is for {request.namespace}; make them agree",
                code=400,
            )
        for mutate in chain:
            mutate(draft)
    except NoSuchContainer as error:
        return _refused(f"pod {request.namespace}/{_name(pod)}: {error}")
    return AdmissionResponse(patch=list(difference(pod, draft.json)))


def validate_pod(request: AdmissionRequest, pod: Json, rules: PodRules) -> AdmissionResponse:
    """Whether the pod may be stored; what is being deleted must be able to lose its finalizers."""
    understood = msgspec.convert(pod, Pod)
    understood.metadata.namespace = understood.metadata.namespace or request.namespace
    before = None if request.old_object is None else msgspec.convert(request.old_object, Pod)
    if before is not None:
        verdict = granted.check_update(before, understood)
        if not verdict.allowed:
            return _answer(verdict)
    if understood.metadata.deletion_timestamp:
        return _ALLOWED
    if request.operation == "CREATE":
        return _answer(pods.check_new(understood, rules))
    return _answer(pods.check(understood, rules, before=before))


def complete_added(request: AdmissionRequest, pod: Json, rules: PodRules) -> AdmissionResponse:
    """The ephemeral containers that are added, without devices where these are blocked."""
    changed: Json = msgspec.json.decode(msgspec.json.encode(pod))
    if rules.block_visible_devices:
        hide_from_added(_added(changed, request.old_object))
    return AdmissionResponse(patch=list(difference(pod, changed)))


def validate_added(request: AdmissionRequest, pod: Json, rules: PodRules) -> AdmissionResponse:
    """Whether these ephemeral containers may be added. Those that are there already stay as they are."""
    added = msgspec.convert(_added(pod, request.old_object), list[Container])
    understood = msgspec.convert(pod, Pod)
    understood.metadata.namespace = understood.metadata.namespace or request.namespace
    return _answer(pods.check_added(understood, added, rules))


def _added(pod: Json, old: Json | None) -> list[Json]:
    """The ephemeral containers of a pod that it had not before, to be changed in place.

    Raises:
        msgspec.ValidationError: they are no containers.
    """
    found: list[Json] = _part(pod, "spec").get("ephemeralContainers") or []
    msgspec.convert(found, list[Container])
    known = msgspec.convert(_part(old or {}, "spec").get("ephemeralContainers") or [], list[Container])
    before = {one.name for one in known}
    return [one for one in found if one.get("name") not in before]


def validate_topology(request: AdmissionRequest) -> AdmissionResponse:
    """Whether the topology may be stored."""
    if request.object is None or request.keeps_spec:
        return _ALLOWED
    try:
        return _answer(topologies.check(msgspec.convert(request.object, Topology)))
    except msgspec.ValidationError as error:
        return _refused(f"topology {request.name}: {error}", code=400)


def _for_pods_of(
    scheduler_name: str,
    answer: Callable[[AdmissionRequest, Json], AdmissionResponse],
    answer_added: Callable[[AdmissionRequest, Json], AdmissionResponse],
) -> Handler:
    """Answers for pods of our scheduler, and for containers that are added to them while they run.

    Everybody else's pods go on untouched, whatever is in them.
    """

    def handle(request: AdmissionRequest) -> AdmissionResponse:
        pod = request.object
        if pod is None or request.sub_resource not in ("", EPHEMERAL_CONTAINERS):
            return _ALLOWED
        if _part(pod, "spec").get("schedulerName") != scheduler_name:
            return _ALLOWED
        try:
            return (answer_added if request.sub_resource else answer)(request, pod)
        except msgspec.ValidationError as error:
            return _refused(f"pod {request.namespace}/{_name(pod)}: {error}", code=400)

    return handle


def _answer(verdict: Verdict) -> AdmissionResponse:
    return AdmissionResponse(allowed=verdict.allowed, message=verdict.message, warnings=verdict.warnings)


def _refused(message: str, *, code: int = 403) -> AdmissionResponse:
    return AdmissionResponse(
        allowed=False, message=message, code=code, reason="BadRequest" if code == 400 else "Forbidden"
    )


def _name(pod: Json) -> str:
    metadata = _part(pod, "metadata")
    return str(metadata.get("name") or f"{metadata.get('generateName', '')}*")


def _part(pod: Json, field: str) -> Json:
    """A part of what may not be a pod at all."""
    found = pod.get(field)
    return found if isinstance(found, dict) else {}
