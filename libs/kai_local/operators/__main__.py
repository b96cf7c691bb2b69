"""``python -m kai_local.operators``: plays the operators of some projects, and has their kinds served."""

from __future__ import annotations

import argparse
from pathlib import Path

from kai import loading

with loading.of_a_service():
    from kai.kube.client import KubeClient
    from kai_local.operators.playing import Operators
    from kai_local.operators.projects import kinds_of, named
    from kai_local.parts.program import Part, run_program
    from kai_local.parts.watches import Watches


def main() -> None:
    """Play until asked to end."""
    parser = argparse.ArgumentParser(prog="python -m kai_local.operators", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--ready-file", type=Path, help="made when all is known and work begins")
    parser.add_argument("--projects", required=True, help="names, with commas between them")
    args = parser.parse_args()
    kinds = kinds_of(named(args.projects.split(",")))

    def make(client: KubeClient) -> list[Part]:
        watches = Watches(client)
        return [watches, Operators(client, watches, kinds)]

    run_program(make, name="operators", kubeconfig=args.kubeconfig, ready_file=args.ready_file)


if __name__ == "__main__":
    main()
