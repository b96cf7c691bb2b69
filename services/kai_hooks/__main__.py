"""``python -m kai_hooks HOOK``: one step of an installation, an upgrade or a removal."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from kai import loading

with loading.of_a_service():
    from kai.kube.client import KubeClient
    from kai.kube.errors import KubeError
    from kai.model import names
    from kai_hooks.abandoned import tell_abandoned
    from kai_hooks.definitions import InvalidDefinition, apply_definitions
    from kai_hooks.edits import InvalidManifest, overwrite_edits
    from kai_hooks.handover import keep
    from kai_hooks.refusals import Refused
    from kai_hooks.removal import refuse_while_installed, remove_leftovers, remove_scaling_pods
    from kai_hooks.topologies import copy_topologies

#: How long to wait for an API server at the start.
_WAIT_SECONDS: Final = 60.0

Say = Callable[[str], None]


async def _upgrade(client: KubeClient, options: argparse.Namespace, say: Say) -> None:
    """Bring the custom resources up to date, and keep what an operator is to take over."""
    await apply_definitions(client, options.folder, say)
    if options.release:
        place, _, name = options.reservation_account.partition("/")
        await keep(
            client,
            namespace=options.namespace,
            release=options.release,
            say=say,
            account=(place, name) if name else None,
        )


async def _topologies(client: KubeClient, _: argparse.Namespace, say: Say) -> None:
    """Copy the topologies of Kueue that there are none of ours of the same name of."""
    await copy_topologies(client, say)


async def _removal(client: KubeClient, options: argparse.Namespace, say: Say) -> None:
    """Delete what an operator has left behind, and have Config and shards that stay say so."""
    place, refused = options.namespace, list[str]()
    await refuse_while_installed(client, namespace=place)
    try:
        await remove_leftovers(client, namespace=place, scheduler_name=options.scheduler_name, say=say)
    except (KubeError, Refused) as error:  # what stays is served by nobody, whatever else stays
        refused.append(str(error))
    try:
        await tell_abandoned(client, say, namespace=place)
    except (KubeError, Refused) as error:
        refused.append(str(error))
    if refused:
        raise Refused("; ".join(dict.fromkeys(refused)))


async def _scaling(client: KubeClient, options: argparse.Namespace, say: Say) -> None:
    """Delete the pods by which cluster autoscalers add nodes, where nobody makes such pods any more."""
    await remove_scaling_pods(
        client, namespace=options.scaling_namespace, installation=options.namespace, say=say
    )


async def _edits(client: KubeClient, options: argparse.Namespace, say: Say) -> None:
    """Have what a release says win over what was edited by hand."""
    await overwrite_edits(client, options.folder, say)


HOOKS: Final[dict[str, Callable[[KubeClient, argparse.Namespace, Say], Awaitable[None]]]] = {
    "upgrade": _upgrade,
    "topologies": _topologies,
    "edits": _edits,
    "removal": _removal,
    "scaling": _scaling,
}


def main() -> None:
    """Run a hook; what fails is told in one line, with status 1, and may be tried again."""
    parser = argparse.ArgumentParser(prog="python -m kai_hooks", description=__doc__)
    parser.add_argument("hook", choices=HOOKS)
    parser.add_argument("--namespace", required=True, help="namespace of the installation")
    parser.add_argument("--release", default="", help="name of the release that is upgraded")
    parser.add_argument(
        "--reservation-account",
        default="",
        help="NAMESPACE/NAME of the account of pods that hold shared devices (upgrade)",
    )
    parser.add_argument(
        "--scheduler-name",
        default=names.SCHEDULER_NAME,
        help="what schedulers lead by (removal)",
    )
    parser.add_argument(
        "--scaling-namespace",
        default=names.SCALE_ADJUST_NAMESPACE,
        help="namespace of scaling pods (scaling)",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("/crds"), help="with definitions (upgrade) or manifests (edits)"
    )
    parser.add_argument("--kubeconfig", default=None, help="else the environment's, else our pod's")
    options = parser.parse_args()
    try:
        asyncio.run(_run(options))
    except (KubeError, Refused, InvalidDefinition, InvalidManifest, OSError) as error:
        sys.exit(f"error: {error}")


async def _run(options: argparse.Namespace) -> None:
    from os import environ

    kubeconfig = options.kubeconfig or environ.get("KAI_KUBECONFIG")
    connection = KubeClient.connect(kubeconfig, user_agent="kai-hooks", wait=_WAIT_SECONDS)
    async with connection as client:
        await HOOKS[options.hook](client, options, lambda line: print(line, flush=True))  # noqa: T201


if __name__ == "__main__":
    main()
