"""``python -m kai_local.embedded.machinery``: kubelets and controllers of an embedded cluster in one process.

``python -m kai_local.kubelet`` and ``python -m kai_local.controllers`` are the same as two, each of which
carries 50 MiB of the same libraries and watches the same pods.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kai import loading

with loading.of_a_service():
    from kai.kube.client import KubeClient
    from kai_local.controllers.runner import Controllers
    from kai_local.kubelet.__main__ import add_shape, kubelets
    from kai_local.parts.program import Part, run_program
    from kai_local.parts.watches import Watches


def main() -> None:
    """Play the nodes and control workloads until asked to end."""
    parser = argparse.ArgumentParser(prog="python -m kai_local.embedded.machinery", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--ready-file", type=Path, help="made when nodes are up and controllers run")
    add_shape(parser)
    args = parser.parse_args()

    def make(client: KubeClient) -> list[Part]:
        watches = Watches(client)
        return [
            watches,
            kubelets(client, watches, args),
            Controllers(client, watches, chart_elsewhere=args.chart),
        ]

    run_program(make, name="machinery", kubeconfig=args.kubeconfig, ready_file=args.ready_file)


if __name__ == "__main__":
    main()
