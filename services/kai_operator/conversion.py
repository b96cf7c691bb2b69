"""Queues are not converted any more."""

from __future__ import annotations

from typing import Final

import structlog

from kai.kube.client import KubeClient
from kai.kube.errors import KubeError, NotFound
from kai.kube.resources import CRDS, QUEUES
from kai_operator.kinds import definition_name

QUEUE_DEFINITION: Final = definition_name(QUEUES)

_log = structlog.get_logger(__name__)


async def stop_conversion(client: KubeClient) -> None:
    """A release of long ago had a webhook convert queues; it is gone, so that no queue could be read.

    Where it cannot be switched off that is logged; the next pass tries again.
    """
    try:
        await client.patch(CRDS, QUEUE_DEFINITION, {"spec": {"conversion": None}})
    except NotFound:
        return
    except KubeError as error:
        _log.warning("conversion of queues not switched off", error=str(error))
    else:
        _log.info("conversion of queues switched off")
