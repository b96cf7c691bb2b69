"""What the options of ``kai local up`` may say: it is looked at while nothing has been started."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

import typer

from kai.model import quantity
from kai_cli.output import fail
from kai_local.apiserver.kinds.runtime_config import InvalidRuntimeConfig, served_versions
from kai_local.box.state import ClusterFiles
from kai_local.errors import ClusterError
from kai_local.installation.chart import find_helm
from kai_local.operators.projects import UnknownProject, named
from kai_local.real.plane import look_for_programs
from kai_local.services.suite import USUAL, UnknownService, parse_flags

#: Services that run where an option asks for them.
_ASKED_FOR: Final = {"node-scale-adjuster": "autoscaling", "insight": "history"}


def services_to_run(*, autoscaling: bool, history: bool) -> tuple[str, ...]:
    """Those that run in a cluster, in the order in which they are started."""
    wanted = {"autoscaling": autoscaling, "history": history}
    return (*USUAL, *(service for service, option in _ASKED_FOR.items() if wanted[option]))


def a_quantity(text: str) -> str:
    """Refuse what is not a Kubernetes quantity, or nothing, while nothing has been started."""
    try:
        amount = quantity.parse(text)
    except quantity.InvalidQuantity as error:
        raise typer.BadParameter(str(error)) from error
    if amount <= 0:
        raise typer.BadParameter(f"{text!r} is not more than nothing")
    return text


def find_programs(files: ClusterFiles, *, real: bool, chart: bool, kubelets: int) -> None:
    """Say what is missing while nothing has been started."""
    try:
        if real:
            look_for_programs(files.directory, kubelets=kubelets)
        elif chart:
            find_helm()
    except ClusterError as missing:
        raise fail(str(missing)) from missing


def versions(text: str) -> str:
    """Refuse versions that there are not while nothing has been started."""
    try:
        served_versions(text)
    except InvalidRuntimeConfig as error:
        raise typer.BadParameter(str(error), param_hint="--runtime-config") from error
    return text


def real_nodes(count: int, *, real: bool, services: bool) -> int:
    """Refuse what does not go together while nothing has been started."""
    if count and not real:
        raise typer.BadParameter("real nodes need a real control plane: give --real", param_hint="--kubelets")
    if count and services:
        problem = "what runs on real nodes is installed by helm, as on any cluster: give --no-services"
        raise typer.BadParameter(problem, param_hint="--kubelets")
    return count


def refuse_unused(written: Iterable[str], why: str) -> None:
    """Refuse what nothing would come of while nothing has been started."""
    for option in written:
        raise typer.BadParameter(why, param_hint=option)


def archive_files(paths: list[Path], *, kubelets: int) -> tuple[Path, ...]:
    """Refuse images that no node would have, or that are not there."""
    if paths and not kubelets:
        raise typer.BadParameter("only real nodes have images: give --kubelets", param_hint="--image")
    if missing := [path for path in paths if not path.is_file()]:
        raise typer.BadParameter(f"there is no file {missing[0]}", param_hint="--image")
    return tuple(path.absolute() for path in paths)


def service_flags(written: list[str], *, running: Collection[str]) -> dict[str, dict[str, str]]:
    """Refuse flags of services that there are not, or that do not run."""
    try:
        flags = parse_flags(written)
    except UnknownService as error:
        raise typer.BadParameter(str(error), param_hint="--flag") from error
    if idle := [service for service in flags if service not in running]:
        remedy = f": give --{_ASKED_FOR[idle[0]]}" if running and idle[0] in _ASKED_FOR else ""
        raise typer.BadParameter(f"{idle[0]} does not run{remedy}", param_hint="--flag")
    return flags


def project_names(written: str) -> tuple[str, ...]:
    """Refuse projects that there are not."""
    try:
        return named(written.split(","))
    except UnknownProject as error:
        raise typer.BadParameter(str(error), param_hint="--with") from error
