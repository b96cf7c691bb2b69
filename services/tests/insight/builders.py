"""Builders of what insight sees."""

import msgspec

from kai.history.records import Run
from kai.kube.reflector import Removed, Upserted
from kai.model.objects import PodGroup
from kai.snapshot.times import rfc3339
from kai_insight.decisions import SessionBook
from kai_insight.pods import PodRecord
from kai_insight.runs import RunLedger
from kai_insight.surroundings import Surroundings

NOON = 1_800_000_000.0


def at(seconds):
    """A moment, as Kubernetes writes it; seconds after noon."""
    return rfc3339(NOON + seconds)


def a_pod(name="a", *, bound=None, phase="Running", ended=None, group="train", going=None, gpus="1", **more):
    """Times are seconds after noon."""
    conditions = []
    if bound is not None:
        conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}]
    statuses = []
    if ended is not None:
        statuses = [{"name": "c", "state": {"terminated": {"finishedAt": at(ended)}}}]
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "creationTimestamp": at(-60),
        "annotations": {"pod-group-name": group, **more.pop("annotations", {})},
    }
    if going is not None:
        metadata |= {"deletionTimestamp": at(going + 30), "deletionGracePeriodSeconds": 30}
    requests = {"cpu": "1500m", "memory": "1Gi", **({"nvidia.com/gpu": gpus} if gpus else {})}
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": "n1" if bound is not None else "",
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses},
    }


def a_group(name="train", *, queue="research", user="ada", owner="", annotations=None):
    made = {"apiVersion": "batch/v1", "kind": "Job", "name": owner or name, "uid": "j", "controller": True}
    metadata = {"name": name, "namespace": "team", "labels": {"user": user}, "ownerReferences": [made]}
    metadata |= {"annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"queue": queue}}


class Seen:
    """A ledger and a book of sessions with a clock, and the records that they made, by key."""

    def __init__(self):
        self.clock = NOON
        self.records = {}
        self.surroundings = Surroundings(
            lambda group: self.runs.regrouped(group), gone=lambda group: self.sessions.gone(group)
        )
        self.runs = RunLedger(self.surroundings, put=self.put, now=lambda: self.clock)
        self.sessions = SessionBook(
            self.surroundings,
            put=self.put,
            run_of=self.runs.get,
            evicted=lambda uid, moment: self.runs.evicted(uid, at=moment),
            now=lambda: self.clock,
        )

    def put(self, record):
        key = tuple(getattr(record, name) for name in record.key)
        self.records[type(record), key] = record

    def of(self, kind):
        return [record for record in self.records.values() if type(record) is kind]

    def spans(self):
        """Of each run its pod, seconds from noon, and how it ended."""
        found = sorted(self.of(Run), key=lambda run: (run.pod, run.began))
        return [(r.pod, r.began - NOON, None if r.ended is None else r.ended - NOON, r.ending) for r in found]

    def pod(self, *args, **options):
        pod = msgspec.convert(a_pod(*args, **options), PodRecord)
        self.runs.pod_sink(Upserted(pod, old_known=False))

    def removed(self, name="a", **options):
        last = msgspec.convert(a_pod(name, **options), PodRecord) if options else None
        self.runs.pod_sink(Removed(f"team/{name}", f"uid-{name}", last))

    def group(self, *args, **options):
        group = msgspec.convert(a_group(*args, **options), PodGroup)
        self.surroundings.group_sink(Upserted(group, old_known=False))

    def group_removed(self, name="train"):
        self.surroundings.group_sink(Removed(f"team/{name}", "", None))

    def begin(self, *, running=(), recorded=(), seen=None):
        self.runs.begin(running, recorded=set(recorded), seen=None if seen is None else NOON + seen)
