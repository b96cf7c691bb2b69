"""Following which pod groups pods belong to, before their annotations say so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from kai.kube.client import KubeClient
from kai.model import names
from kai.model.ids import PodUid
from kai.wire.channel import TlsFiles
from kai.wire.errors import MalformedMessage
from kai.wire.following import follow, one_by_one
from kai.wire.permissions import Role
from kai.wire.v1 import assignment_pb2 as pb
from kai.wire.v1.assignment_pb2_grpc import AssignmentServiceStub

#: A message is sent at least so often, that who listens knows that it is heard.
HEARTBEAT_SECONDS: Final = 30.0
#: Assignments in one message, which may have 4 MiB.
_MOST: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A pod, and the name of its group in the same namespace."""

    uid: PodUid
    namespace: str
    name: str
    pod_group: str

    @property
    def key(self) -> str:
        """``namespace/name`` of the pod."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentNews:
    """What changed. Of a pod that is not named nothing has."""

    told: tuple[Assignment, ...] = ()
    #: Pods (uids) of which nothing is to be said any more.
    forgotten: tuple[PodUid, ...] = ()
    #: It begins all that somebody knows who did not speak before.
    anew: bool = False


def encode_assignments(news: AssignmentNews) -> Iterator[pb.Assignments]:
    """The messages that carry it: one at least."""
    told, forgotten = news.told, news.forgotten
    for start in range(0, max(len(told), len(forgotten), 1), _MOST):
        part = slice(start, start + _MOST)
        yield pb.Assignments(told=map(_encoded, told[part]), forgotten=forgotten[part])


def _encoded(each: Assignment) -> pb.Assignment:
    return pb.Assignment(pod_uid=each.uid, namespace=each.namespace, name=each.name, pod_group=each.pod_group)


def decode_assignments(message: pb.Assignments, *, anew: bool = False) -> AssignmentNews:
    """The inverse, of one message.

    Raises:
        MalformedMessage: an assignment does not say all that it must.
    """
    return AssignmentNews(
        told=tuple(map(_decoded, message.told)),
        forgotten=tuple(map(PodUid, message.forgotten)),
        anew=anew,
    )


def _decoded(each: pb.Assignment) -> Assignment:
    for field in ("pod_uid", "namespace", "name", "pod_group"):
        if not getattr(each, field):
            raise MalformedMessage(
                f"assignment of pod {each.namespace}/{each.name}: {field} is empty; "
                "are scheduler and pod-grouper of the same version?"
            )
    return Assignment(
        uid=PodUid(each.pod_uid), namespace=each.namespace, name=each.name, pod_group=each.pod_group
    )


async def watch_assignments(
    client: KubeClient, *, namespace: str, tls: TlsFiles | None = None
) -> AsyncIterator[AssignmentNews]:
    """What the pod-grouper that leads finds, for ever; nothing comes while none does.

    Raises:
        KubeError: the Lease cannot be followed any more (our credentials are refused).
    """

    async for news in follow(
        client,
        lease_name=names.POD_GROUPER_LEASE,
        namespace=namespace,
        tls=tls,
        ask=lambda channel: AssignmentServiceStub(channel).WatchAssignments(pb.WatchAssignmentsRequest()),
        read=one_by_one(decode_assignments),
        what="assignments",
        longest_pause=2.0,
        server=Role.POD_GROUPER,
    ):
        yield news
