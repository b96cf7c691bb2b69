"""``python -m kai_local.controllers``: workload controllers and default scheduler of an embedded cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from kai import loading

with loading.of_a_service():
    from kai.kube.client import KubeClient
    from kai_local.controllers.runner import Controllers
    from kai_local.parts.program import Part, run_program
    from kai_local.parts.watches import Watches


def main() -> None:
    """Control workloads until asked to end."""
    parser = argparse.ArgumentParser(prog="python -m kai_local.controllers", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--ready-file", type=Path, help="made when all is known and work begins")
    args = parser.parse_args()

    def make(client: KubeClient) -> list[Part]:
        watches = Watches(client)
        return [watches, Controllers(client, watches)]

    run_program(make, name="controllers", kubeconfig=args.kubeconfig, ready_file=args.ready_file)


if __name__ == "__main__":
    main()
