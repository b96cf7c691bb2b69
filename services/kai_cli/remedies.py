"""What would help work that never reached the scheduler: each is submitted to a copy of the cluster first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from kai.answers.answer import Answer, Code, ToldChange
from kai.answers.situation import Situation
from kai.grouping.errors import GroupingError
from kai.model import names
from kai.model.faults import OutOfBounds
from kai.model.ids import PodGroupKey
from kai.model.merge_patch import merged
from kai.model.objects import Json
from kai.simulate.changes import AddWorkload, ChangeRefused
from kai_cli.submitting import submitted

#: Annotations that keep a pod from being grouped, by what an answer says of it.
_IN_THE_WAY: Final[Mapping[Code, str]] = {
    Code.POD_GROUP_MISSING: names.POD_GROUP_ANNOTATION,
    Code.NOT_GROUPED: names.SKIP_POD_GROUPER,
}
#: Kinds whose template can be changed, and whose pods then come anew.
_TEMPLATES: Final = ("Deployment", "StatefulSet")


async def with_remedies(answer: Answer, situation: Situation, body: Json) -> Answer:
    """The answer with those that place the work at once.

    ``body`` is the pod as the API server has it, or the workload that has its template. What is of no
    namespace is never tried: nobody can tell where its pods would come.
    """
    if not body["metadata"].get("namespace"):
        return answer
    ways = _ways(answer.reason.code, situation, body)
    told = [change for change, after in ways if await asyncio.to_thread(_places, situation, after)]
    return msgspec.structs.replace(answer, changes=(*answer.changes, *told))


def _ways(code: Code, situation: Situation, body: Json) -> Iterator[tuple[ToldChange, Json]]:
    """A change, and the object as it then is."""
    kind, name = body["kind"], body["metadata"]["name"]
    where = f"{kind.lower()}/{name} -n {body['metadata']['namespace']}"
    if code is Code.SUSPENDED:
        patch: Json = {"suspend": False}
        if not body["spec"].get("suspend"):
            patch = {"runPolicy": patch}
        command = f"kubectl patch {where} --type=merge -p '{json.dumps({'spec': patch})}'"
        yield ToldChange(text=f"resume {kind} {name}", command=command), merged(body, {"spec": patch})
    elif code in (Code.MISSPELT_SCHEDULER, Code.ANOTHER_SCHEDULER):
        ours = situation.snapshot.params.get("scheduler_name") or names.SCHEDULER_NAME
        patch = {"spec": {"schedulerName": ours}}
        if "template" in body["spec"]:
            patch = {"spec": {"template": patch}}
        able = kind in _TEMPLATES
        command = f"kubectl patch {where} --type=merge -p '{json.dumps(patch)}'"
        text = f"let {kind} {name} have schedulerName {ours!r}"
        yield (
            ToldChange(text=text if able else f"{text}, made anew", command=command if able else None),
            merged(body, patch),
        )
    elif (key := _IN_THE_WAY.get(code, "")) in (body["metadata"].get("annotations") or {}):
        command = f"kubectl annotate {where} {key}-"
        text = f"take the annotation {key} from {kind} {name}, so that the pod-grouper groups it"
        yield (
            ToldChange(text=text, command=command),
            merged(body, {"metadata": {"annotations": {key: None}}}),
        )


def _places(situation: Situation, body: Json) -> bool:
    """Whether the work has a place in the next cycle, and keeps it."""
    meta = {"name": f"{body['metadata']['name']}-then", "namespace": body["metadata"]["namespace"]}
    meta |= {key: body["metadata"].get(key) or {} for key in ("labels", "annotations")}
    text = json.dumps({**body, "metadata": meta, "status": None})
    try:
        made = submitted(situation.state, text, now=situation.now, namespace=meta["namespace"])
        keys = [
            PodGroupKey(group.key)
            for each in made.changes
            if isinstance(each, AddWorkload)
            for group in each.groups
        ]
        return bool(keys) and situation.places(keys[0], *made.changes)
    except (GroupingError, ChangeRefused, OutOfBounds):
        return False
