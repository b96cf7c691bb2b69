"""The cases of ``cases.yaml``, and the operators' part in them. The file says what its keys mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from e2e.harness import Cluster
from e2e.manifests import as_yaml
from kai.model.documents import load_written
from kai.model.objects import PodGroup

_CONTENT = load_written(Path(__file__).with_name("cases.yaml").read_text())
_CASES: dict[str, dict[str, Any]] = {case["case"]: case for case in _CONTENT["cases"]}
#: Kinds by API group, with their versions.
DEFINITIONS: dict[str, dict[str, str]] = _CONTENT["definitions"]
#: API groups whose kinds the chart does not grant.
RIGHTS: list[str] = _CONTENT["rights"]
NAMES = list(_CASES)
#: Whose controllers make the pods.
_CONTROLLED = ("apps/v1", "batch/v1")
_POD = next(anchor for anchor in _CONTENT["anchors"] if "containers" in anchor)


@dataclass(frozen=True, slots=True)
class Member:
    """A pod as its operator writes it, and what shall become of it. ``name`` may be only its beginning."""

    name: str
    of: str
    group: str
    part: str = ""
    gpus: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    made_by_controller: bool = False


@dataclass(slots=True)
class Case:
    """One workload in a namespace. ``uids`` fill as its objects are made."""

    body: dict[str, Any]
    namespace: str
    queue: str
    uids: dict[str, str] = field(default_factory=dict)
    _made: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, name: str, *, namespace: str, queue: str) -> Case:
        """The case of this name."""
        return cls(_filled(_CASES[name], {"namespace": namespace, "queue": queue}), namespace, queue)

    @property
    def members(self) -> list[Member]:
        """The pods that come at first, in their order."""
        return self._members(self.body)

    @property
    def later(self) -> list[tuple[list[Member], dict[str, str]]]:
        """The pods that come when all before them run, and what the groups need then."""
        return [
            (self._members(step), step.get("groups", self.body["groups"]))
            for step in self.body.get("then", ())
        ]

    def _members(self, step: dict[str, Any]) -> list[Member]:
        return [
            self._member(entry, number) for entry in step["pods"] for number in range(entry.get("count", 1))
        ]

    def _member(self, entry: dict[str, Any], number: int) -> Member:
        objects, labels = self.body["objects"], entry.get("labels", {})
        of = entry.get("of", next(reversed(objects), ""))
        return Member(
            name=entry["name"].replace("%d", str(number)),
            of=of,
            group=entry.get("group", next(iter(self.body["groups"]))),
            part=entry.get("part", ""),
            gpus=entry.get("gpus", 0),
            labels={key: value.replace("%d", str(number)) for key, value in labels.items()},
            made_by_controller=of in objects and objects[of]["kind"].startswith(_CONTROLLED),
        )

    @property
    def waits_for_all(self) -> bool:
        """Whether it is a gang of which no pod starts before the last one is there."""
        return bool(
            self.body.get("gang", True)
            and len(self.members) > 1
            and not any(member.made_by_controller for member in self.members)
        )

    @property
    def priority(self) -> str:
        """The priority class that its groups shall have."""
        return str(self.body.get("priority", "train"))

    @property
    def running(self) -> list[str]:
        """Of the first pods that shall run, the parts that they are."""
        return sorted(self.body.get("running", [member.part for member in self.members]))

    def named(self, group: str) -> str:
        """The name of a group, once what it is named after has been made."""
        return group.format_map(self.uids)

    async def submit(self, cluster: Cluster) -> None:
        """Make the objects, owners first."""
        for key in self.body["objects"]:
            await self._make(cluster, key)

    async def _make(self, cluster: Cluster, key: str) -> None:
        if key in self._made:
            return
        entry = self.body["objects"][key]
        if "of" in entry:
            await self._make(cluster, entry["of"])
        api_version, kind = entry["kind"].split()
        metadata: dict[str, Any] = {
            "name": entry.get("name", key),
            "namespace": self.namespace,
            "labels": self._labels(key, entry.get("labels", {})),
            "annotations": entry.get("annotations", {}),
        }
        content = {part: entry[part] for part in ("spec", "status") if part in entry}
        await self._apply(cluster, key, {"apiVersion": api_version, "kind": kind, **content}, metadata, entry)

    async def add(self, cluster: Cluster, *members: Member) -> None:
        """Make pods, as the operator would."""
        for member in members:
            if not member.made_by_controller:
                metadata = {
                    "name": member.name,
                    "namespace": self.namespace,
                    "labels": self._labels("pods", member.labels),
                }
                pod = {"apiVersion": "v1", "kind": "Pod", "spec": _pod_spec(member.gpus)}
                await self._apply(cluster, member.name, pod, metadata, {"of": member.of})

    async def _apply(
        self,
        cluster: Cluster,
        key: str,
        body: dict[str, Any],
        metadata: dict[str, Any],
        entry: dict[str, Any],
    ) -> None:
        if entry.get("of"):
            owner = self._made[entry["of"]]
            reference = {part: owner[part] for part in ("apiVersion", "kind")}
            reference |= {part: owner["metadata"][part] for part in ("name", "uid")}
            metadata["ownerReferences"] = [reference | {"controller": True}]
        [made] = await cluster.apply(as_yaml(body | {"metadata": metadata}))
        self._made[key], self.uids[key] = made, made["metadata"]["uid"]

    def _labels(self, key: str, labels: dict[str, str]) -> dict[str, str]:
        top = next((name for name, entry in self.body["objects"].items() if "of" not in entry), "pods")
        queued = self.body.get("queue-on", top) == key
        return ({"kai.scheduler/queue": self.queue} if queued else {}) | labels


def _pod_spec(gpus: int) -> dict[str, Any]:
    if not gpus:
        return _POD
    [container] = _POD["containers"]
    resources = container["resources"] | {"limits": {"nvidia.com/gpu": gpus}}
    return _POD | {"containers": [container | {"resources": resources}]}


def _filled(value: Any, by: dict[str, str]) -> Any:
    """A copy in which texts have ``$name`` replaced."""
    if isinstance(value, dict):
        return {key: _filled(inner, by) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, by) for inner in value]
    return Template(value).substitute(by) if isinstance(value, str) else value


def tree(group: PodGroup) -> str:
    """What a group needs, in the words of the cases."""
    parts = [
        f"{part.parent + '/' if part.parent else ''}{part.name}:{_needed(part)}"
        for part in group.spec.sub_groups or ()
    ]
    return " ".join([_needed(group.spec), *parts])


def _needed(part: Any) -> str:
    return f">{part.min_sub_group}" if part.min_sub_group is not None else str(part.min_member)
