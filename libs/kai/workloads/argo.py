"""Argo: workflows, and the pods of all their steps, also of those that come later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kai.model.objects import Json
from kai.workloads.parts import Maker, at, listed, pod, text

#: Templates that are pods themselves.
_PODS: Final = ("container", "script", "containerSet", "resource", "data")
#: What a workflow says for all pods, and a template for its own.
_PLACED: Final = ("schedulerName", "nodeSelector", "tolerations", "affinity", "serviceAccountName")
#: More steps within steps than this are not looked into: who calls himself goes on for ever.
_DEEPEST: Final = 50


def _workflow(workflow: Json) -> Iterator[Json]:
    """A pod for each step whose template is one; conditions are taken to hold, unknown lists as one."""
    spec, meta = at(workflow, "spec"), workflow["metadata"]
    if spec.get("suspend") is True:
        return
    templates = _Templates(spec)
    begin = str(spec.get("entrypoint", ""))
    labels = {**at(spec, "podMetadata", "labels"), "workflows.argoproj.io/workflow": meta["name"]}
    number = 0
    for name in (begin, str(spec.get("onExit", ""))):
        for template in templates.pods(templates.named(name)):
            alone = name == begin and template is templates.named(begin)
            suffix = f"-{text(template, 'name') or 'step'}-{number}"
            number += 1
            body = {
                "metadata": {
                    "labels": at(template, "metadata", "labels"),
                    "annotations": {
                        **at(spec, "podMetadata", "annotations"),
                        **at(template, "metadata", "annotations"),
                    },
                },
                "spec": _pod_spec(spec, template),
            }
            yield pod(workflow, body, meta["name"] if alone else meta["name"] + suffix, labels=labels)


def _pod_spec(spec: Json, template: Json) -> Json:
    placed: Json = {key: each[key] for each in (spec, template) for key in _PLACED if key in each}
    main = [{"name": "main", **(at(template, "container") or at(template, "script"))}]
    containers = listed(template, "containerSet", "containers") or main
    return {
        **placed,
        "restartPolicy": "Never",
        "volumes": [*listed(spec, "volumes"), *listed(template, "volumes")],
        "initContainers": listed(template, "initContainers"),
        "containers": [*containers, *listed(template, "sidecars")],
    }


class _Templates:
    """The templates of one workflow."""

    def __init__(self, spec: Json) -> None:
        self._usual = at(spec, "templateDefaults")
        self._by_name = {
            str(each.get("name", "")): {**self._usual, **each} for each in listed(spec, "templates")
        }
        self._empty: dict[int, bool] = {}

    def named(self, name: str) -> Json:
        return self._by_name.get(name, {})

    def pods(self, template: Json, depth: int = 0) -> Iterator[Json]:
        """Templates of the pods that come of one, in order."""
        if any(at(template, key) for key in _PODS):
            yield template
        elif depth < _DEEPEST:
            for step in _steps(template):
                called = at(step, "inline") or self.named(str(step.get("template", "")))
                if self._makes_any(called, depth + 1):
                    for _ in range(_times(step)):
                        yield from self.pods(called, depth + 1)

    def _makes_any(self, template: Json, depth: int) -> bool:
        """So that nobody goes round in what makes nothing; who calls himself makes nothing by that."""
        known = id(template)
        if known not in self._empty:
            self._empty[known] = True
            self._empty[known] = next(self.pods(template, depth), None) is None
        return not self._empty[known]


def _steps(template: Json) -> Iterator[Json]:
    yield from listed(template, "dag", "tasks")
    groups = template.get("steps")
    for group in groups if isinstance(groups, list) else ():
        yield from listed({"group": group}, "group")


def _times(step: Json) -> int:
    """How often a step is taken; once where only its run says."""
    items = step.get("withItems")
    if isinstance(items, list):
        return len(items)
    sequence = at(step, "withSequence")
    if "count" in sequence:
        return _number(sequence, "count", 1)
    if "end" in sequence:
        return abs(_number(sequence, "end", 0) - _number(sequence, "start", 0)) + 1
    return 1


def _number(sequence: Json, key: str, otherwise: int) -> int:
    said = str(sequence.get(key, otherwise))
    return int(said) if said.isascii() and said.isdigit() and len(said) < 10 else otherwise


MAKERS: Final[dict[tuple[str, str], Maker]] = {("argoproj.io", "Workflow"): _workflow}
