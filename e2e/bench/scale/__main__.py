"""How the whole pipeline bears a large cluster: ``make scale``, or ``python -m e2e.bench.scale``.

On a real control plane, or with ``--embedded`` on the embedded one: etcd, API server, controllers,
nodes and all our services are on this machine. Each case says how long it took, what every process
spent meanwhile, and whether the result is right: all bound exactly once, on devices of their own, and what
cannot run marked with the right reason. A case that is wrong fails the run, however fast it was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from e2e.bench.scale import report
from e2e.bench.scale.cases import CASES, Case, Result
from e2e.bench.scale.meter import Reading
from e2e.bench.scale.world import Size, World
from e2e.harness import Cluster, kai
from kai.kube.client import KubeClient
from kai_local.real import binaries


def chains(wanted: list[str]) -> list[list[Case]]:
    """The cases to run, those in one list one after the other on the same cluster."""
    found = []
    for first in (case for case in CASES if not case.after):
        others = [case for case in CASES if case.after == first.name and case.name in wanted]
        if first.name in wanted or others:
            found.append([first, *others])
    return found


async def run(options: argparse.Namespace, screen: Console) -> dict[Case, Result]:
    """Run the cases; the results of those that were asked for, in the order of the table."""
    size, wanted = Size(options.nodes), options.case or [case.name for case in CASES]
    results: dict[Case, Result] = {}
    for chain in chains(wanted):
        with cluster(options) as (name, kubeconfig), Progress(console=screen) as progress:
            async with KubeClient.connect(str(kubeconfig), user_agent="bench") as client:
                world = World(Cluster(kubeconfig=kubeconfig, client=client, name=name), size, progress)
                await world.furnish()
                following = asyncio.create_task(world.pods.run())
                await world.pods.synced.wait()
                for case in chain:
                    result = await attempt(case, world)
                    progress.print(
                        f"{case.title(size)}: {result.told} s, {'; '.join(result.faults) or 'right'}",
                        highlight=False,
                    )
                    if case.name in wanted:
                        results[case] = result
                    if result.seconds is None:
                        break  # what comes after it finds no cluster as it needs one
                following.cancel()
    return {case: results[case] for case in CASES if case in results}


async def attempt(case: Case, world: World) -> Result:
    """Run a case; one that does not come to its end is a result, too."""
    try:
        return await case.run(world)
    except Exception as error:  # noqa: BLE001 (whatever it is, the other cases keep their results)
        told = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        return Result(None, 1, Reading(), [told])


@contextmanager
def cluster(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Name and kubeconfig of a fresh cluster; it ends with the block."""
    name = f"scale-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="kai-scale-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        flags = (f"--nodes={options.nodes}", f"--binders={options.binders}", f"--kubeconfig={kubeconfig}")
        plane = () if options.embedded else ("--real",)
        # Executed, as each is in its container: what forked ones share would be counted with each of them.
        kai("local", "up", f"--name={name}", *flags, *plane, "--no-fork", "--detach")
        try:
            yield name, kubeconfig
        finally:
            if options.keep_logs:
                _keep_logs(name, options.keep_logs)
            kai("local", "down", f"--name={name}")


def _keep_logs(name: str, folder: Path) -> None:
    import shutil

    from kai_local.box.state import ClusterFiles

    shutil.copytree(ClusterFiles.of(name).logs, folder / name)


def main() -> int:
    """Measure; exit status 1 if a result is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.bench.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int, default=500, help="of 8 GPUs each; at least 10")
    parser.add_argument("--binders", type=int, default=1)
    parser.add_argument(
        "--case", action="append", choices=[case.name for case in CASES], help="only this one"
    )
    parser.add_argument("--embedded", action="store_true", help="on the embedded API server")
    parser.add_argument("--json", type=Path, help="write the report here, too")
    parser.add_argument("--plot", type=Path, help="draw it here, as .png or .svg")
    parser.add_argument("--keep-logs", type=Path, metavar="FOLDER", help="keep what the processes logged")
    options = parser.parse_args()
    if options.nodes < 10:
        parser.error("--nodes: the gangs need ten nodes at least")
    if not options.embedded:
        try:
            binaries.find()
        except binaries.BinariesMissing as missing:
            parser.error(f"{missing}; or take --embedded")
    screen, load = Console(), os.getloadavg()
    results, size = asyncio.run(run(options, screen)), Size(options.nodes)
    report.show(size, results, screen)
    conditions = {
        "control_plane": "embedded" if options.embedded else "real",
        "binders": options.binders,
        "cores": os.cpu_count(),
        "load_before": load,
    }
    screen.print(
        f"\n{os.cpu_count()} cores, load {load[0]:.1f} before; {conditions['control_plane']} control plane"
    )
    if options.json:
        options.json.write_text(json.dumps(report.as_json(size, results, conditions), indent=2) + "\n")
    if options.plot:
        report.draw(size, results, options.plot)
    return 1 if any(result.faults for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
