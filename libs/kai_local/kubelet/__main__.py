"""``python -m kai_local.kubelet``: all simulated nodes of an embedded cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

from kai import loading

with loading.of_a_service():
    from kai.kube.client import KubeClient
    from kai_local.kubelet.kubelet import Kubelets
    from kai_local.kubelet.nodes import NodeShape
    from kai_local.parts.program import Part, run_program
    from kai_local.parts.watches import Watches


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how many nodes there are, and of what kind."""
    shape = NodeShape()
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gpus-per-node", type=int, default=shape.gpus)
    parser.add_argument("--cpus-per-node", type=int, default=shape.cpus)
    parser.add_argument("--memory-per-node", default=shape.memory)
    parser.add_argument("--gpu-memory", type=int, default=shape.gpu_memory_mib, help="MiB of each GPU")
    parser.add_argument("--chart", action="store_true", help="the chart's own pods are run by somebody else")


def kubelets(client: KubeClient, watches: Watches, args: argparse.Namespace) -> Kubelets:
    """The kubelets that the flags of :func:`add_shape` ask for."""
    shape = NodeShape(
        gpus=args.gpus_per_node,
        cpus=args.cpus_per_node,
        memory=args.memory_per_node,
        gpu_memory_mib=args.gpu_memory,
    )
    return Kubelets(client, watches, count=args.nodes, shape=shape)


def main() -> None:
    """Play the nodes until asked to end."""
    parser = argparse.ArgumentParser(prog="python -m kai_local.kubelet", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--ready-file", type=Path, help="made when the nodes are up")
    add_shape(parser)
    args = parser.parse_args()

    def make(client: KubeClient) -> list[Part]:
        watches = Watches(client)
        return [watches, kubelets(client, watches, args)]

    run_program(make, name="kubelet", kubeconfig=args.kubeconfig, ready_file=args.ready_file)


if __name__ == "__main__":
    main()
