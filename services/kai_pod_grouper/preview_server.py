"""Previews over gRPC: which pod groups a manifest would become, by the settings of this installation."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
import msgspec

from kai.grouping.errors import GroupingError
from kai.grouping.offline.preview import preview
from kai.grouping.options import GroupingOptions
from kai.wire.serving import Registration
from kai.wire.v1 import grouping_pb2, grouping_pb2_grpc

SERVICE = "kai.wire.v1.GroupingService"
MANIFEST_AT_MOST_CHARACTERS: Final = 1 << 20


class GroupingServicer(grouping_pb2_grpc.GroupingServiceServicer):
    """Knows no cluster: the manifest is it."""

    def __init__(self, options: GroupingOptions) -> None:
        self._options = options

    async def Preview(  # noqa: N802 (the name in the contract)
        self, request: grouping_pb2.PreviewRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> grouping_pb2.PreviewResponse:
        """Group the pods of the manifest; INVALID_ARGUMENT if it cannot be read."""
        if len(request.manifest) > MANIFEST_AT_MOST_CHARACTERS:
            most = f"a manifest has at most {MANIFEST_AT_MOST_CHARACTERS:,} characters; ask in parts"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, most)
        try:
            # Reading takes a while, and pods are not to wait for it.
            found = await asyncio.to_thread(asyncio.run, preview(request.manifest, self._options))
        except GroupingError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return grouping_pb2.PreviewResponse(
            pod_groups=[msgspec.json.encode(body) for body in found.pod_groups],
            pods=[
                grouping_pb2.PodMembership(
                    namespace=pod.namespace, name=pod.name, pod_group=pod.pod_group, subgroup=pod.sub_group
                )
                for pod in found.pods
            ],
            warnings=found.warnings,
        )


def registration(options: GroupingOptions) -> Registration:
    """Adds the service to a server."""

    def register(server: grpc.aio.Server) -> None:
        grouping_pb2_grpc.add_GroupingServiceServicer_to_server(GroupingServicer(options), server)

    return register
