"""What can be asked about the cluster as it is now: paths, parameters, rights and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kai.kube.resources import NODES, POD_GROUPS, QUEUES, Resource
from kai.live.told import Change, Findings, Frame, NamedGroups, NodeTold, Slots, Told, Waiting
from kai.live.waiting import Sort
from kai_insight.http.endpoints import ROOT, Form, Parameter
from kai_insight.live.told import ForecastTold, Health, Overview, WhatIfTold, WorkloadTold

#: Keys of groups that names are asked for at once.
MOST_KEYS: Final = 500
#: Of kai what-if.
CHANGES_TO_ASK: Final = (
    *("quota", "limit", "weight", "priority", "preemptibility", "minimum"),
    *("delete", "drain", "remove", "nodes", "delete-queue"),
)
_MOST_FOUND: Final = 200
_MOST_WAITING: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEndpoint:
    """A question: who may ask it, and the answer. ``rights`` are what one must be able to list everywhere."""

    name: str
    summary: str
    told: type[Told]
    rights: tuple[Resource, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    #: Whether the answer has what lies in namespaces of which somebody may see some and others not.
    of_namespaces: bool = False
    #: Whether events come, of which each has such an answer.
    streams: bool = False

    @property
    def path(self) -> str:
        """Where it is asked."""
        return f"{ROOT}/{self.name}"


def _text(name: str, meaning: str, **more: Any) -> Parameter:
    return Parameter(name=name, meaning=meaning, **more)


SHARD: Final = _text("shard", "Which scheduler's part of the cluster; the default one if left out.")
VERSION: Final = _text("version", "Of the frame, or of the last change.", required=True)
KEYS: Final = Parameter(
    name="keys",
    form=Form.KEYS,
    meaning=f"Keys of groups as the frame has them, with commas between; at most {MOST_KEYS}.",
    most=MOST_KEYS,
    required=True,
)
TEXT: Final = _text("text", "Any part of a name, in any case.", required=True)
NAME: Final = _text("name", "Its name.", required=True)
NAMESPACE: Final = _text("namespace", "Its namespace.", required=True)
FOUND_LIMIT: Final = Parameter(
    name="limit",
    form=Form.ROWS,
    meaning=f"The most that are told, up to {_MOST_FOUND}; 50 if left out.",
    most=_MOST_FOUND,
    usual=50,
)
WAITING_LIMIT: Final = Parameter(
    name="limit",
    form=Form.ROWS,
    meaning=f"The most rows, up to {_MOST_WAITING}; 200 if left out.",
    most=_MOST_WAITING,
    usual=200,
)
SORT: Final = Parameter(
    name="sort",
    form=Form.CHOICE,
    choices=tuple(Sort),
    meaning="In which order rows come; the oldest first if left out.",
)

LIVE: Final = LiveEndpoint(name="live", summary="Who asks, and which shards there are.", told=Overview)
CLUSTER: Final = LiveEndpoint(
    name="live/cluster",
    summary="All of a cluster: nodes, who sits on which GPU, queues.",
    told=Frame,
    rights=(NODES, QUEUES),
    parameters=(SHARD,),
    of_namespaces=True,
)
CHANGES: Final = LiveEndpoint(
    name="live/changes",
    summary="What changes in it, as server-sent events: change, or anew where one has to ask for all again.",
    told=Change,
    rights=(NODES, QUEUES),
    parameters=(SHARD, VERSION),
    of_namespaces=True,
    streams=True,
)
GROUPS: Final = LiveEndpoint(
    name="live/groups",
    summary="Which pod groups stand behind keys.",
    told=NamedGroups,
    parameters=(SHARD, KEYS),
    of_namespaces=True,
)
WAITING: Final = LiveEndpoint(
    name="live/waiting",
    summary="Pod groups that wait, and why.",
    told=Waiting,
    parameters=(
        SHARD,
        _text("namespace", "Only of this namespace."),
        _text("queue", "Only of this queue and those below it."),
        _text("verdict", "Only those of which this was found; empty: of which nothing was found yet."),
        _text("code", "Only those that wait for this reason."),
        _text("text", "Only those with this in a name or in the reason, in any case."),
        SORT,
        WAITING_LIMIT,
    ),
    of_namespaces=True,
)
SEARCH: Final = LiveEndpoint(
    name="live/search",
    summary="Queues, nodes and pod groups by their names.",
    told=Findings,
    rights=(NODES, QUEUES),
    parameters=(SHARD, TEXT, FOUND_LIMIT),
    of_namespaces=True,
)
NODE: Final = LiveEndpoint(
    name="live/node",
    summary="A node, and who is on it.",
    told=NodeTold,
    rights=(NODES,),
    parameters=(SHARD, NAME),
    of_namespaces=True,
)
SLOTS: Final = LiveEndpoint(
    name="live/slots",
    summary="How many pods of 1, 2, 4 and 8 GPUs still find room, in all and by domain.",
    told=Slots,
    rights=(NODES,),
    parameters=(SHARD,),
)

WORKLOAD: Final = LiveEndpoint(
    name="live/workload",
    summary="A pod group: why it is where it is, what would help, and its pods.",
    told=WorkloadTold,
    parameters=(SHARD, NAMESPACE, NAME),
    of_namespaces=True,
)
FORECAST: Final = LiveEndpoint(
    name="live/forecast",
    summary="When a pod group starts; it takes seconds.",
    told=ForecastTold,
    parameters=(SHARD, NAMESPACE, NAME),
    of_namespaces=True,
)
CHANGE: Final = Parameter(
    name="change",
    form=Form.CHOICE,
    choices=CHANGES_TO_ASK,
    meaning="What would be otherwise.",
    required=True,
)
TARGET: Final = _text(
    "target",
    "A queue; or a workload, as namespace/name of its pod group; or nodes, with commas between.",
    required=True,
)
VALUE: Final = _text("value", "To what, as for kai what-if: gpu=8, a class, a number.")
WITHIN: Final = _text("within", "For how long to look ahead, as 10m or 2h; 1h if left out.")
WHAT_IF: Final = LiveEndpoint(
    name="live/what-if",
    summary="What would follow from a change: who would be evicted, who would start. Nothing is changed.",
    told=WhatIfTold,
    rights=(POD_GROUPS, QUEUES, NODES),
    parameters=(SHARD, CHANGE, TARGET, VALUE, WITHIN),
)
#: The same of manifests, which are the body of the question; only where work can be grouped (``kai ui``).
WHAT_IF_MANIFESTS: Final = LiveEndpoint(
    name="live/what-if",
    summary="What would follow if manifests were submitted.",
    told=WhatIfTold,
    rights=(POD_GROUPS, QUEUES, NODES),
    parameters=(SHARD, _text("namespace", "Of manifests that name none; default if left out."), WITHIN),
)
HEALTH: Final = LiveEndpoint(
    name="live/health",
    summary="Who leads, how cycles are followed, what is set aside, and how forecasts hold.",
    told=Health,
    rights=(QUEUES,),
    parameters=(SHARD,),
    of_namespaces=True,
)

LIVE_ENDPOINTS: Final = (
    *(LIVE, CLUSTER, CHANGES, GROUPS, WAITING, SEARCH, NODE, SLOTS),
    *(WORKLOAD, FORECAST, WHAT_IF, HEALTH),
)
