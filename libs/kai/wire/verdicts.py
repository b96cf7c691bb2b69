"""Following what insight finds about pod groups that wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from kai.kube.client import KubeClient
from kai.model import names
from kai.model.ids import PodGroupKey
from kai.model.verdicts import GroupVerdict
from kai.wire.channel import TlsFiles
from kai.wire.following import follow, one_by_one
from kai.wire.permissions import Role
from kai.wire.v1 import verdict_pb2 as pb
from kai.wire.v1.verdict_pb2_grpc import VerdictServiceStub

#: A message is sent at least so often, that who listens knows that it is heard.
HEARTBEAT_SECONDS: Final = 30.0
#: Verdicts in one message, which may have 4 MiB.
_MOST: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictNews:
    """What changed. Of a group that is not named nothing has."""

    told: tuple[GroupVerdict, ...] = ()
    #: Pod groups (namespace/name).
    forgotten: tuple[str, ...] = ()
    #: It begins all that somebody knows who did not speak before.
    anew: bool = False


def encode_verdicts(news: VerdictNews) -> Iterator[pb.Verdicts]:
    """The messages that carry it: one at least."""
    told, forgotten = news.told, news.forgotten
    for start in range(0, max(len(told), len(forgotten), 1), _MOST):
        part = slice(start, start + _MOST)
        yield pb.Verdicts(told=map(_encoded, told[part]), forgotten=forgotten[part])


def _encoded(found: GroupVerdict) -> pb.GroupVerdict:
    return pb.GroupVerdict(
        pod_group=found.pod_group, uid=found.uid, verdict=found.verdict, code=found.code, text=found.text
    )


def decode_verdicts(message: pb.Verdicts, *, anew: bool = False) -> VerdictNews:
    """The inverse, of one message."""
    return VerdictNews(
        told=tuple(
            GroupVerdict(
                pod_group=PodGroupKey(each.pod_group),
                uid=each.uid,
                verdict=each.verdict,
                code=each.code,
                text=each.text,
            )
            for each in message.told
        ),
        forgotten=tuple(message.forgotten),
        anew=anew,
    )


async def watch_verdicts(
    client: KubeClient, *, namespace: str, tls: TlsFiles | None = None
) -> AsyncIterator[VerdictNews]:
    """What the insight that leads finds, for ever; nothing comes while none does. First comes all it knows.

    Raises:
        KubeError: the Lease cannot be followed any more (our credentials are refused).
    """

    async for news in follow(
        client,
        lease_name=names.INSIGHT_LEASE,
        namespace=namespace,
        tls=tls,
        ask=lambda channel: VerdictServiceStub(channel).WatchVerdicts(pb.WatchVerdictsRequest()),
        read=one_by_one(decode_verdicts),
        what="verdicts",
        longest_pause=15.0,
        server=Role.INSIGHT,
    ):
        yield news
