"""``kai local``: an embedded cluster on this machine, for trying things out and for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from kai_cli import local_options
from kai_cli.connection import Target
from kai_cli.output import Column, Format, FormatOption, document, emit, fail, table
from kai_cli.views.amounts import count
from kai_local.box import health
from kai_local.box.ending import take_down
from kai_local.box.kubeconfig import KubeconfigError
from kai_local.box.options import ClusterOptions
from kai_local.box.progress import for_stream, replay
from kai_local.box.state import DEFAULT_NAME, ClusterFiles, ClusterRecord, known_clusters
from kai_local.box.up import command_line
from kai_local.errors import ClusterError
from kai_local.node import store
from kai_local.node.network import MOST_NODES
from kai_local.operators.projects import PROJECTS
from kai_local.processes.ending import become
from kai_local.processes.records import ProcessRecord
from kai_local.real import binaries
from kai_local.real.plane import BUILD_NODES

if TYPE_CHECKING:
    import psutil

app = typer.Typer(
    no_args_is_help=True,
    help="A cluster in a box: API server, simulated nodes, Redis and all services, on this machine.",
)

NameOption = Annotated[str, typer.Option("--name", help="Which cluster; any number run side by side.")]


@app.command()
def up(
    *,
    name: NameOption = DEFAULT_NAME,
    nodes: Annotated[int, typer.Option(min=0, help="Simulated nodes.")] = 2,
    gpus_per_node: Annotated[int, typer.Option(min=0, help="GPUs of each node.")] = 8,
    binders: Annotated[int, typer.Option(min=1, help="Binder processes.")] = 1,
    cpus_per_node: Annotated[int, typer.Option("--cpus", min=1, help="CPU cores of each node.")] = 64,
    memory_per_node: Annotated[
        str, typer.Option("--memory", callback=local_options.a_quantity, help="Memory of each node.")
    ] = "512Gi",
    gpu_memory: Annotated[int, typer.Option(min=1, help="MiB of memory of each GPU.")] = 81559,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Write this kubeconfig and leave the user's own alone.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the API server; 0 takes a free one.")] = 0,
    webhooks: Annotated[bool, typer.Option(help="Have admission look at pods, queues and groups.")] = True,
    services: Annotated[bool, typer.Option(help="Run the services; without, use `kai run`.")] = True,
    autoscaling: Annotated[
        bool, typer.Option("--autoscaling", help="Run the node-scale-adjuster as well.")
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Run insight as well, which records what happens.")
    ] = False,
    real: Annotated[
        bool, typer.Option("--real", help="etcd, kube-apiserver and KWOK instead of our own API server.")
    ] = False,
    kubelets: Annotated[
        int,
        typer.Option(
            min=0, max=MOST_NODES, help="Real nodes beside them, with containerd; needs root and --real."
        ),
    ] = 0,
    archives: Annotated[
        list[Path] | None,
        typer.Option("--image", metavar="ARCHIVE", help="Images that real nodes have; repeatable."),
    ] = None,
    chart: Annotated[
        bool, typer.Option("--chart", help="Have helm install the chart, its roles in force.")
    ] = False,
    runtime_config: Annotated[
        str,
        typer.Option(
            metavar="GROUP/VERSION=BOOL,...",
            help="Versions that the API server has, as kube-apiserver's flag; ours: of resource.k8s.io.",
        ),
    ] = "",
    projects: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="PROJECT,...",
            help=f"Serve the kinds of other projects and play their operators: {', '.join(PROJECTS)}.",
        ),
    ] = "",
    flags: Annotated[
        list[str] | None,
        typer.Option("--flag", metavar="SERVICE:FLAG=VALUE", help="A flag for a service; repeatable."),
    ] = None,
    fork: Annotated[
        bool,
        typer.Option(
            help="Fork processes from one that has imported what they need. With --no-fork each is executed, "
            "which takes longer, and holds as much memory as in a container."
        ),
    ] = True,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when it is up.")] = False,
    page: Annotated[
        bool, typer.Option("--ui", help="Open the page over it, as `kai ui` does; Ctrl-C ends both.")
    ] = False,
) -> None:
    """Bring a cluster up and make it the current context; Ctrl-C or `kai local down` ends it."""
    asked_for = {
        "--autoscaling": autoscaling,
        "--history": history,
        "--binders": binders != 1,
        "--chart": chart,
    }
    if not services:
        unused = [option for option, wanted in asked_for.items() if wanted]
        local_options.refuse_unused(unused, "no services run with --no-services: leave one of the two out")
    if not webhooks:
        local_options.refuse_unused(
            ["--chart"] if chart else [], "the chart brings webhooks: leave --no-webhooks out"
        )
    run = local_options.services_to_run(autoscaling=autoscaling, history=history) if services else ()
    options = ClusterOptions(
        name=name,
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        cpus_per_node=cpus_per_node,
        memory_per_node=memory_per_node,
        gpu_memory_mib=gpu_memory,
        binders=binders,
        port=port,
        kubeconfig=None if kubeconfig is None else kubeconfig.absolute(),
        webhooks=webhooks and services,
        services=run,
        real=real,
        kubelets=local_options.real_nodes(kubelets, real=real, services=services),
        archives=local_options.archive_files(archives or [], kubelets=kubelets),
        chart=chart,
        runtime_config=runtime_config if real else local_options.versions(runtime_config),
        projects=local_options.project_names(projects),
        fork=fork,
        # Without webhooks there is nothing to do for admission.
        flags=local_options.service_flags(
            flags or [], running=[one for one in run if webhooks or one != "admission"]
        ),
    )
    local_options.find_programs(_files(name), real=real, chart=chart, kubelets=kubelets)
    if page and detach:
        raise typer.BadParameter("the page is there as long as the command; `kai ui` opens it later")
    if page:
        raise typer.Exit(_up_with_page(options))
    if detach:
        raise typer.Exit(_start_detached(options))
    become(command_line(options))


@app.command()
def down(*, name: NameOption = DEFAULT_NAME) -> None:
    """End a cluster and remove all that it has left."""
    if not _take_down(_files(name)):
        raise fail(f"there is no cluster {name!r}{_others()}")
    typer.echo(f"Cluster {name!r} is gone.")


@app.command()
def status(*, name: NameOption = DEFAULT_NAME, output: FormatOption = Format.TABLE) -> None:
    """Show the processes of a cluster; status 0 if it is up."""
    record = _record(name)
    if output is Format.TABLE:
        _print_status(record)
    else:
        document(_status_document(record), output)
    if _phase(record) != "ready":
        raise typer.Exit(1)


@app.command()
def images(
    load: Annotated[
        list[Path] | None, typer.Option("--load", metavar="ARCHIVE", help="Put these in first; repeatable.")
    ] = None,
    *,
    name: NameOption = DEFAULT_NAME,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show which images the real nodes of a cluster have; nothing else can run on them."""
    record = _record(name)
    try:
        stores = store.of(record.processes, ctr=binaries.find(("ctr",), target=BUILD_NODES)["ctr"])
        for archive in load or []:
            for each in stores:
                each.load(archive)
        found = [image for each in stores for image in each.images()]
    except ClusterError as error:
        raise fail(str(error)) from error
    if output is not Format.TABLE:
        document([{"node": each.node, "name": each.name, "size": each.size} for each in found], output)
        return
    headings = [Column("NODE"), Column("IMAGE"), Column("SIZE", number=True)]
    emit(table(headings, [[each.node, each.name, each.size] for each in found]))


@app.command()
def logs(
    service: Annotated[str, typer.Argument(help="A service, as `kai local status` calls it.")],
    *,
    name: NameOption = DEFAULT_NAME,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more is written.")] = False,
    lines: Annotated[int, typer.Option("--tail", "-n", help="Only so many last lines; -1 is all.")] = -1,
) -> None:
    """Print what a process of a cluster has logged."""
    _record(name)
    folder = _files(name).logs
    log = folder / f"{service}.log"
    if "/" in service or not log.exists():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.log")))
        raise fail(f"there is no log of {service!r}; there are {known}")
    try:
        for part in _read_log(log, lines=lines, follow=follow):
            typer.echo(part, nl=False)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _start_detached(options: ClusterOptions) -> int:
    """Start the cluster's process, show its progress, and return when it is up or has failed."""
    progress = for_stream(sys.stdout)
    process = subprocess.Popen(
        command_line(options, detached=True),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            replay(line, progress)
    except KeyboardInterrupt:
        process.send_signal(signal.SIGTERM)
        process.wait()
        return 130
    try:
        record = _files(options.name).read()
    except ClusterError:  # which the process has told
        record = None
    if record is not None and record.phase == "ready" and record.supervisor.pid == process.pid:
        return 0
    return process.wait() or 1


def _up_with_page(options: ClusterOptions) -> int:
    """A cluster for as long as somebody looks at it."""
    from kai_cli.ui import show

    status = _start_detached(options)
    if status != 0:
        return status
    files = _files(options.name)
    try:
        show(Target(kubeconfig=files.admin_kubeconfig))
    finally:
        _take_down(files)
        typer.echo(f"Cluster {options.name!r} is gone.")
    return 0


def _take_down(files: ClusterFiles) -> bool:
    try:
        return take_down(files)
    except (ClusterError, KubeconfigError) as error:
        raise fail(str(error)) from error


def _files(name: str) -> ClusterFiles:
    try:
        return ClusterFiles.of(name)
    except ClusterError as error:
        raise fail(str(error), status=2) from error


def _record(name: str) -> ClusterRecord:
    try:
        record = _files(name).read()
    except ClusterError as error:
        raise fail(str(error)) from error
    if record is None:
        raise fail(f"there is no cluster {name!r}{_others()}")
    return record


def _others() -> str:
    names = ", ".join(files.name for files in known_clusters())
    return f"; there are {names}" if names else "; start one with `kai local up`"


def _phase(record: ClusterRecord) -> str:
    """What it said last, unless its process is gone."""
    identity = record.supervisor.identity
    return record.phase if identity is not None and identity.alive else "dead"


def _print_status(record: ClusterRecord) -> None:
    context = record.kubeconfig.context if record.kubeconfig else "-"
    size = f"{count(record.nodes, 'node')} x {count(record.gpus_per_node, 'GPU')}"
    typer.echo(f"Cluster {record.name!r} is {_phase(record)}: {size}, {record.server}, context {context}")
    headings = [
        Column("PROCESS"),
        Column("STATE"),
        Column("PID", number=True),
        Column("RESTARTS", number=True),
        Column("MEMORY", number=True),
        Column("CPU TIME", number=True),
        Column("ADDRESS"),
    ]
    processes = _processes(record)
    rows = [
        [
            process["name"],
            process["state"],
            str(process["pid"] or "-"),
            str(process["restarts"]),
            f"{process['memoryBytes'] / 2**20:.0f} MiB",
            f"{process['cpuSeconds']:.1f} s",
            process["address"] or "-",
        ]
        for process in processes
    ]
    memory, cpu = _total(processes)
    rows.append(["total", "", "", "", f"{memory / 2**20:.0f} MiB", f"{cpu:.1f} s", ""])
    emit(table(headings, rows))
    for process in processes:
        if process["apiAddress"]:
            typer.echo(f"{process['name']}: questions over HTTP at {process['apiAddress']}")
        for note in process["notes"]:
            typer.echo(f"{process['name']}: {note}")


def _total(processes: list[dict[str, Any]]) -> tuple[int, float]:
    """Bytes and CPU seconds of all together."""
    cpu = sum(process["cpuSeconds"] for process in processes)
    return sum(process["memoryBytes"] for process in processes), round(cpu, 2)


def _status_document(record: ClusterRecord) -> dict[str, Any]:
    processes = _processes(record)
    memory, cpu = _total(processes)
    return {
        "name": record.name,
        "phase": _phase(record),
        "server": record.server,
        "context": record.kubeconfig.context if record.kubeconfig else None,
        "nodes": record.nodes,
        "gpusPerNode": record.gpus_per_node,
        "memoryBytes": memory,
        "cpuSeconds": cpu,
        "processes": processes,
    }


def _processes(record: ClusterRecord) -> list[dict[str, Any]]:
    told = health.ask(record.processes)
    return [_process(process, told.get(process.name)) for process in [record.supervisor, *record.processes]]


def _process(process: ProcessRecord, told: health.Health | None) -> dict[str, Any]:
    import psutil

    memory, cpu, identity = 0, 0.0, process.identity
    alive = identity is not None and identity.alive
    if alive:
        try:
            running = psutil.Process(process.pid)
            memory, times = _memory(running), running.cpu_times()
            cpu = times.user + times.system
        except psutil.Error:
            alive = False
    state = process.state if alive or not process.pid else "dead"
    if state == "ready" and told is not None and not told.ready:
        state = "not ready"
    return {
        "name": process.name,
        "state": state,
        "pid": process.pid or None,  # between two runs there is none, and 0 would be the reader's own group
        "restarts": process.restarts,
        "memoryBytes": memory,
        "cpuSeconds": round(cpu, 2),
        "address": process.address,
        "apiAddress": process.api_address,
        "notes": list(told.notes) if told is not None and alive else [],
    }


def _memory(process: psutil.Process) -> int:
    """Bytes; what is shared with other processes counts by its part, where the platform tells that."""
    import psutil

    try:
        full = process.memory_full_info()
    except psutil.AccessDenied:
        return int(process.memory_info().rss)
    return int(getattr(full, "pss", full.rss))


def _read_log(log: Path, *, lines: int, follow: bool) -> Iterator[str]:
    """The text of a log, and what is added to it until its cluster is gone.

    Where another process takes the name, as when pods are replaced, its log is gone on with.
    """
    while True:
        try:
            file = log.open(errors="replace")
        except FileNotFoundError:
            return
        with file:
            text = file.read()
            yield text if lines < 0 else "".join(text.splitlines(keepends=True)[-lines or len(text) :])
            while follow and _is_at(log, file):
                if more := file.read():
                    yield more
                else:
                    time.sleep(0.2)
            if follow and (rest := file.read()):
                yield rest
        if not follow:
            return
        lines = -1


def _is_at(log: Path, file: IO[str]) -> bool:
    """Whether it is this file that the path leads to."""
    try:
        return os.path.samestat(log.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
