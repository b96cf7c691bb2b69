"""What is known of something that is not there any more: who took its place, or how it ended."""

from __future__ import annotations

import asyncio
from typing import Final

from kai.answers import objects
from kai.history.questions import Selection
from kai.history.records import Run
from kai.kube.client import KubeClient
from kai.kube.errors import ApiError, KubeError
from kai.kube.resources import CORE_EVENTS
from kai.snapshot.times import rfc3339
from kai.wire.errors import WireError
from kai_cli.connection import Target
from kai_cli.logs import note
from kai_cli.subjects import POD, NoSubject

#: How long insight may take.
_PATIENCE_SECONDS: Final = 3.0


async def last_words(target: Target, client: KubeClient, missing: NoSubject) -> str:
    """What events, or else insight, tell of something that was not found; empty if neither knows it."""
    return await _of_events(client, missing) or await _of_insight(target, client, missing)


async def _of_events(client: KubeClient, missing: NoSubject) -> str:
    if missing.kind not in ("", POD):  # what a workload once lost is not how it ended
        return ""
    selector = f"involvedObject.kind={POD},involvedObject.name={missing.name}"
    try:
        events = await client.list(CORE_EVENTS, namespace=missing.namespace, field_selector=selector)
    except ApiError:  # one may not see them
        return ""
    lost = objects.evictions(events)
    return f"{missing.namespace}/{missing.name} was evicted at {lost[0].at}: {lost[0].why}" if lost else ""


async def _of_insight(target: Target, client: KubeClient, missing: NoSubject) -> str:
    kinds = [missing.kind] if missing.kind else ["Job"]
    asked = [{"pod": missing.name}] if missing.kind in ("", POD) else []
    asked += [{"workload": f"{kind}/{missing.name}"} for kind in kinds if kind != POD]
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS), target.history(client) as history:
            for equal in asked:
                wanted = Selection(equal={"namespace": missing.namespace, **equal})
                runs, _ = await history.find(Run, wanted, most=1)
                if runs:
                    return _told(runs[0])
    except (TimeoutError, WireError, KubeError) as error:
        note(__name__, "nothing of the past is known", reason=str(error) or "no answer in time")
    return ""


def _told(run: Run) -> str:
    ended = f"until {rfc3339(run.ended)} ({run.ending})" if run.ended is not None else "when last seen"
    return (
        f"{run.workload or run.pod} is gone: pod {run.pod} ran on {run.node} {ended}; "
        f"`kai history pod {run.pod} -n {run.namespace}` tells more"
    )
