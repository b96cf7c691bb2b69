"""``kai render``: the objects of an installation, for those who want no operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from kai.model import documents, names, spelling
from kai.operands import (
    CONFIG_NAME,
    OPTIONAL_KINDS,
    ConfigSpec,
    Facts,
    InvalidSpec,
    Shard,
    missing_kinds,
    operands_of_config,
    operands_of_shard,
    read_config,
    read_shard,
    remarks,
    rivals,
)
from kai.operands.certificates import WEBHOOKS
from kai.operands.spec.config import name_of
from kai_cli import output
from kai_cli.files import text_of
from kai_cli.new_secrets import new_secrets

Manifest = dict[str, Any]

_VERSION: Final = names.CONFIG_API_VERSION
_READ: Final = ("Config", "SchedulingShard")
_KINDS: Final = {kind.rpartition("/")[2]: kind for kind in OPTIONAL_KINDS}
_DEFAULTS: Final = Facts()


def render(
    files: Annotated[
        list[Path],
        typer.Option("-f", "--filename", help="A Config and SchedulingShards, - for standard input."),
    ],
    served: Annotated[
        list[str] | None,
        typer.Option(help=f"Kind that the cluster has, of {', '.join(_KINDS)}; may be repeated."),
    ] = None,
    cdi: Annotated[bool, typer.Option("--cdi", help="The device plugin uses CDI.")] = False,
    fake_gpus: Annotated[
        bool, typer.Option("--fake-gpus", help="Nodes only play their devices (label run.ai/fake.gpu=true).")
    ] = False,
    openshift: Annotated[bool, typer.Option("--openshift", help="The cluster gives out user ids.")] = False,
    api_server_port: Annotated[
        list[int] | None,
        typer.Option(min=1, max=65535, help="Port of the API server, which closes what else goes out."),
    ] = None,
    registry: Annotated[str, typer.Option(help="Where images are that the Config does not place.")] = (
        _DEFAULTS.repository
    ),
    tag: Annotated[str, typer.Option(help="Tag of images that have none in the Config.")] = _DEFAULTS.tag,
    ca_bundle: Annotated[
        Path | None, typer.Option(help="Authority of the webhooks' certificates, a PEM file.")
    ] = None,
    with_certificates: Annotated[
        bool,
        typer.Option("--with-certificates", help="Make new certificates and passwords, print them too."),
    ] = False,
) -> None:
    """Print the objects that the operator would make of a Config and SchedulingShards.

    Objects of other kinds in the files are left out, so that what helm renders can be piped in.
    """
    try:
        config, shards = _read_all(each for path in files for each in _documents(text_of(path)))
        trust = {WEBHOOKS: ca_bundle.read_text()} if ca_bundle else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise output.fail(f"cannot read the manifests: {error}") from error
    except InvalidSpec as error:
        raise output.fail("\n".join(f"{error.name}: {problem}" for problem in error.problems)) from error
    secrets: list[Manifest] = []
    if with_certificates:
        secrets, made = new_secrets(config, now=datetime.now(UTC))
        trust = {**made, **trust}
    facts = Facts(
        served=frozenset(_kind(name) for name in served or ()),
        cdi=cdi,
        fake_gpus=fake_gpus,
        openshift=openshift,
        api_server_ports=tuple(api_server_port or ()),
        trust=trust,
        repository=registry,
        tag=tag,
        leaders_kept=False,
    )
    _warn(config, facts, shards)
    objects = operands_of_config(config, facts, shards)
    for shard in shards:
        objects += operands_of_shard(config, shard, facts)
    typer.echo(yaml.safe_dump_all([*secrets, *objects], sort_keys=False, explicit_start=True), nl=False)


def _documents(text: str) -> Iterator[Any]:
    """All objects of a file; kubectl prints several as one List."""
    for each in filter(None, documents.load_manifests(text)):
        listed = isinstance(each, dict) and each.get("kind") == "List"
        items = each.get("items") if listed else [each]
        yield from items if isinstance(items, list) else ()


def _read_all(given: Iterable[Any]) -> tuple[ConfigSpec, list[Shard]]:
    """The one Config, and the shards.

    Raises:
        InvalidSpec: one of them cannot be used.
    """
    ours = [each for each in given if isinstance(each, dict) and _is_ours(each)]
    configs = [each for each in ours if each.get("kind") == "Config"]
    if len(configs) != 1:
        raise output.fail(f"the files have {len(configs)} objects of kind Config; give one", status=2)
    if (name := name_of(configs[0])) != CONFIG_NAME:
        raise output.fail(f"the Config is called {name!r}; only {CONFIG_NAME} counts", status=2)
    config = read_config(configs[0])
    shards = [read_shard(each, config) for each in ours if each.get("kind") == "SchedulingShard"]
    for name, times in Counter(shard.name for shard in shards).items():
        if times > 1:
            raise output.fail(f"the files have {times} SchedulingShards called {name}; give one", status=2)
    for name, problem in rivals(shards, config).items():
        raise InvalidSpec(f"SchedulingShard {name}", [problem])
    return config, shards


def _is_ours(document: Manifest) -> bool:
    """Whether it is a Config or a shard. Files may have other objects, but none that is meant to be one."""
    version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
    if version == _VERSION and kind in _READ:
        return True
    meant = spelling.nearest(kind, _READ)
    if version == _VERSION or (meant and spelling.nearest(version, [_VERSION])):
        name = name_of(document)
        read = ", ".join(f"{_VERSION} {each}" for each in _READ)
        raise output.fail(f"{version} {kind} {name} is not known; known: {read}", status=2)
    return False


def _kind(name: str) -> str:
    if name not in _KINDS:
        raise output.fail(f"--served {name}: there are {', '.join(_KINDS)}", status=2)
    return _KINDS[name]


def _warn(config: ConfigSpec, facts: Facts, shards: Iterable[Shard]) -> None:
    """Say what is left out, and what one should know, on standard error."""
    for shard in shards:
        for text in remarks(config, shard):
            output.say(f"warning: SchedulingShard {shard.name}: {text}", err=True)
    for kind in missing_kinds(config, facts):
        typer.echo(
            f"warning: the Config asks for {kind}; --served {kind.rpartition('/')[2]} renders it", err=True
        )
    if not (facts.trust.get(WEBHOOKS) or config.certificates.existing.enabled):
        typer.echo(
            "warning: webhooks have no caBundle; give --ca-bundle or --with-certificates, or have it put in",
            err=True,
        )
