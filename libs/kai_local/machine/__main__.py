"""``python -m kai_local.machine OPTIONS``: run the pods of the chart until asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

from kai import loading

with loading.of_a_service():
    from kai.kube.client import KubeClient
    from kai_local.machine.agent import Machine
    from kai_local.machine.options import MachineOptions, decode

_CONNECT_SECONDS = 60.0


def main() -> None:
    """Serve until a signal comes."""
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_serve(decode(sys.argv[1])))


async def _serve(options: MachineOptions) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    options.ready_file.unlink(missing_ok=True)
    options.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    kubeconfig = str(options.kubeconfig)
    connection = KubeClient.connect(kubeconfig, user_agent="kai-local-machine", wait=_CONNECT_SECONDS)
    async with connection as client:
        await Machine(client, options).run()


if __name__ == "__main__":
    main()
