"""``kai group``: which pod groups a manifest would become."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from kai.grouping.errors import GroupingError
from kai.grouping.offline.preview import Preview, preview
from kai.grouping.options import GroupingOptions
from kai.grouping.rules import known_kinds
from kai.model import names
from kai.model.words import counted
from kai_cli import output
from kai_cli.files import text_of
from kai_cli.output import Column, Format, FormatOption


def group(
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "-f", "--filename", help="Manifests of owners and pods, - for standard input; may be repeated."
        ),
    ] = None,
    form: FormatOption = Format.TABLE,
    kinds: Annotated[
        bool, typer.Option("--kinds", help="List the kinds that are known, and their rules.")
    ] = False,
    scheduler_name: Annotated[
        str, typer.Option(help="Pods of other schedulers are left alone.")
    ] = names.SCHEDULER_NAME,
    queue_label_key: Annotated[str, typer.Option(help="Label that names the queue.")] = names.QUEUE_LABEL,
    nodepool_label_key: Annotated[
        str, typer.Option(help="Label that names the node pool.")
    ] = names.NODE_POOL_LABEL,
    search_legacy_pg: Annotated[bool, typer.Option(help="Keep groups that earlier releases made.")] = True,
    knative_gang_schedule: Annotated[bool, typer.Option(help="Make a gang of each Knative revision.")] = True,
    generic_karta_fallback: Annotated[
        bool, typer.Option(help="Use Karta definitions for other kinds.")
    ] = True,
    default_priorities_configmap_name: Annotated[
        str, typer.Option(help="ConfigMap of defaults by kind; else the one in FILE with a key types.")
    ] = "",
    default_priorities_configmap_namespace: Annotated[str, typer.Option(help="Its namespace.")] = "default",
) -> None:
    """Show which pod groups the workloads in a file would become, without a cluster.

    The file is the cluster: its objects exist as they are, others do not. Pods are taken in its order.
    """
    if kinds:
        _print_kinds(form)
        return
    if not files:
        raise output.fail("name a manifest with -f FILE, or list the known kinds with --kinds", status=2)
    options = GroupingOptions(
        scheduler_name=scheduler_name,
        queue_label_key=queue_label_key,
        node_pool_label_key=nodepool_label_key,
        search_legacy_pg=search_legacy_pg,
        knative_gang_schedule=knative_gang_schedule,
        generic_karta_fallback=generic_karta_fallback,
    )
    name, namespace = default_priorities_configmap_name, default_priorities_configmap_namespace
    defaults = f"{namespace}/{name}" if name else ""
    try:
        manifest = "\n---\n".join(text_of(path) for path in files)
        found = asyncio.run(preview(manifest, options, defaults=defaults))
    except (OSError, UnicodeDecodeError) as error:
        raise output.fail(f"cannot read the manifest: {error}") from error
    except GroupingError as error:
        raise output.fail(str(error)) from error
    _print(found, form)


def _print_kinds(form: Format) -> None:
    rows = sorted((kind.kind, kind.api_version, kind.summary) for kind in known_kinds().values())
    rows.append(("any other", "", "as a Karta definition says, else one group, at least 1 pod"))
    if form is Format.TABLE:
        output.emit(output.table([Column("KIND"), Column("APIVERSION"), Column("RULE", prose=True)], rows))
    else:
        output.document([{"kind": k, "apiVersion": v, "rule": rule} for k, v, rule in rows], form)


def _print(found: Preview, form: Format) -> None:
    if form is Format.JSON:
        output.document(_as_json(found), form)
        return
    if form is Format.YAML:
        for body in found.pod_groups:
            typer.echo("---")
            output.document(body, form)
    else:
        _print_tables(found)
    for warning in found.warnings:
        output.say(f"warning: {warning}", err=True)
    for note in found.notes:
        output.say(f"note: {note}", err=True)


def _as_json(found: Preview) -> dict[str, Any]:
    pods = [
        {"namespace": pod.namespace, "name": pod.name, "podGroup": pod.pod_group, "subGroup": pod.sub_group}
        for pod in found.pods
    ]
    return {"podGroups": list(found.pod_groups), "pods": pods, "warnings": list(found.warnings)}


def _print_tables(found: Preview) -> None:
    groups = [Column("NAMESPACE"), Column("POD GROUP"), Column("QUEUE"), Column("PRIORITY"), Column("NEEDS")]
    groups += [Column("SUBGROUPS"), Column("OWNER")]
    pods = [Column("NAMESPACE"), Column("POD"), Column("POD GROUP"), Column("SUBGROUP")]
    rows = [(pod.namespace, pod.name, pod.pod_group or "-", pod.sub_group or "-") for pod in found.pods]
    output.emit(
        output.table(groups, [_group_row(body) for body in found.pod_groups]), "", output.table(pods, rows)
    )


def _group_row(body: dict[str, Any]) -> tuple[str, ...]:
    meta, spec = body["metadata"], body["spec"]
    owner = (meta.get("ownerReferences") or [{"kind": "", "name": ""}])[0]
    return (
        meta["namespace"],
        meta["name"],
        spec.get("queue", ""),
        spec.get("priorityClassName", ""),
        _needs(spec),
        _tree(spec.get("subGroups") or [], "") or "-",
        f"{owner['kind']}/{owner['name']}",
    )


def _needs(part: dict[str, Any]) -> str:
    if "minSubGroup" in part:
        return counted(part["minSubGroup"], "subgroup")
    return counted(part.get("minMember", 0), "pod")


def _tree(parts: list[dict[str, Any]], parent: str) -> str:
    """``name(needed)`` for leaves, ``name(children)`` for the rest."""
    shown = []
    for part in parts:
        if part.get("parent", "") == parent and part["name"] != parent:
            below = _tree(parts, part["name"])
            shown.append(f"{part['name']}({below or part.get('minMember', 0)})")
    return ", ".join(shown)
