"""What the chart and the pages repeat of tables in code; ``make derived`` writes it, and a test holds it.

Each part begins with a line that says so and ends where its table or definition ends, so that the rest of a
file stays as somebody wrote it.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from kai.config import ACTIONS, SEARCHING
from kai.config.arguments import ArgumentKind
from kai.config.plugin_table import DEFAULT_PLUGINS, PLUGINS, PluginSpec
from kai.grouping.offline.rights import granted
from kai.grouping.rules import known_kinds
from kai.model.documents import load_written
from kai.model.plurals import plural
from kai.operands.spec.config import ConfigSpec
from kai.operands.spec.fields import Fields, schema_of
from kai.operands.spec.flags import may_be_added
from kai.operands.spec.shard import ShardSpec
from kai.runtime import ServiceSettings
from kai_admission.settings import AdmissionSettings
from kai_binder.settings import BinderSettings
from kai_insight.settings import InsightSettings
from kai_node_scale_adjuster.settings import NodeScaleAdjusterSettings
from kai_numa_placement_exporter.settings import NumaPlacementExporterSettings
from kai_operator.settings import OperatorSettings
from kai_pod_grouper.settings import PodGrouperSettings
from kai_podgroup_controller.settings import PodGroupControllerSettings
from kai_queue_controller.settings import QueueControllerSettings
from kai_scheduler.settings import SchedulerSettings

ROOT: Final = Path(__file__).resolve().parent
_CHART: Final = "helm/kai-scheduler"
_FLAGS_HEAD: Final = "FLAGS: Final[dict[str, dict[str, str]]] = {\n"
#: Of JSON: what opens or closes an object, or could hide that.
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|[{}]')
_CLOSED: Final = re.compile(r'"additionalProperties": false,(\s+)')
_NAMES: Final = '"propertyNames": '
_DECODER: Final = json.JSONDecoder()
_SAID: Final = "{{/* Written by `make derived`. */}}\n"


#: Values of the chart for the components of a Config.
_VALUES_OF: Final = {
    "admission": "admission",
    "binder": "binder",
    "insight": "insight",
    "nodeScaleAdjuster": "nodescaleadjuster",
    "numaPlacementExporter": "numaPlacementExporter",
    "operator": "operator",
    "podGroupController": "podgroupcontroller",
    "podGrouper": "podgrouper",
    "queueController": "queuecontroller",
    "scheduler": "scheduler",
}
#: Processes whose flags a Config, a SchedulingShard or the chart may add, by the field of the Config.
_PROCESSES: Final[dict[str, type[ServiceSettings]]] = {
    "admission": AdmissionSettings,
    "binder": BinderSettings,
    "insight": InsightSettings,
    "nodeScaleAdjuster": NodeScaleAdjusterSettings,
    "numaPlacementExporter": NumaPlacementExporterSettings,
    "operator": OperatorSettings,
    "podGroupController": PodGroupControllerSettings,
    "podGrouper": PodGrouperSettings,
    "queueController": QueueControllerSettings,
    "scheduler": SchedulerSettings,
}


# --- pages -------------------------------------------------------------------------------------------
def _plugins_in_order() -> list[str]:
    return [*DEFAULT_PLUGINS, *(name for name in PLUGINS if name not in DEFAULT_PLUGINS)]


def _plugin_rows() -> Iterable[tuple[str, ...]]:
    for name in _plugins_in_order():
        spec = PLUGINS[name]
        yield f"`{name}`", str(spec.priority or "off"), spec.meaning


def _argument_rows() -> Iterable[tuple[str, ...]]:
    for name in _plugins_in_order():
        for each in PLUGINS[name].arguments.declared().values():
            spellings = ", ".join(f"`{spelling}`" for spelling in each.spellings)
            yield f"`{name}`", spellings, each.kind.allowed, each.default or "-", each.meaning
        for spelling, why in PLUGINS[name].without_effect.items():
            yield f"`{name}`", f"`{spelling}`", "-", "-", f"no effect: {why}"


def _kind_rows() -> Iterable[tuple[str, ...]]:
    """Kinds of which the same is said stand together."""
    by_summary: dict[str, list[str]] = {}
    for kind in known_kinds().values():
        named = by_summary.setdefault(kind.summary, [])
        if kind.kind not in named:
            named.append(kind.kind)
    for summary, named in by_summary.items():
        yield ", ".join(named), summary


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Callable[[str], str]:
    """Puts rows in the place of those of the table that has this header."""
    head = f"| {' | '.join(header)} |\n|{'---|' * len(header)}\n"

    def put(text: str) -> str:
        before, found, after = text.partition(head)
        if not found:
            raise LookupError(f"no table has the header {head!r}")
        body = "".join(f"| {' | '.join(row)} |\n" for row in rows)
        return before + found + body + re.sub(r"\A(?:\|.*(?:\n|\Z))*", "", after)

    return put


def _rights(verb: str, nouns: Iterable[str]) -> Callable[[str], str]:
    """Puts what the pod-grouper may ask about owners in the table of all rights."""
    head = f"\n| `pod-grouper` | everywhere | {verb} | "
    row = ", ".join(sorted(nouns))

    def put(text: str) -> str:
        before, found, after = text.partition(head)
        if not found:
            raise LookupError(f"no table has a row that begins with {head!r}")
        _, _, others = after.partition("\n")
        return f"{before}{head}{row} |\n{others}"

    return put


def _owners(subresource: str = "") -> Iterable[str]:
    for group, kinds in granted().items():
        for kind in kinds:
            resource = f"{plural(kind)}{subresource}"
            yield f"{resource}.{group}" if group else resource


def _value_rows() -> Iterable[tuple[str, ...]]:
    """All values of the chart."""
    schema = json.loads((ROOT / _CHART / "values.schema.json").read_text())
    yield from _values_below(schema["properties"], _values(), "")


def _values_below(properties: Mapping[str, Any], defaults: Any, above: str) -> Iterable[tuple[str, ...]]:
    for key, schema in properties.items():
        name, default = f"{above}{key}", defaults.get(key) if isinstance(defaults, dict) else None
        if "description" in schema:
            yield f"`{name}`", _shown(default), schema["description"].replace("|", "\\|")
        else:
            yield from _values_below(schema["properties"], default, f"{name}.")


def _shown(default: Any) -> str:
    return "-" if default is None or default == "" or default == {} else f"`{_json(default)}`"


def _settable(component: str) -> Iterable[str]:
    return sorted(each for each in _PROCESSES[component].known_flags() if may_be_added(component, each))


#: What a flag takes -> the definition of the schema for it; of others any value.
_FLAGS_OF_KIND: Final = {
    "switch": "switchFlag",
    "integer": "integerFlag",
    "number": "numberFlag",
    "decimal": "numberFlag",
    "duration": "durationFlag",
    "log-level": "levelFlag",
    "listen": "addressFlag",
    "pull-policy": "pullPolicyFlag",
}


def _flag_schemas(component: str) -> dict[str, Any]:
    kinds = _PROCESSES[component].flag_kinds()
    return {flag: _flag_schema(kinds[flag]) for flag in _settable(component)}


def _flag_schema(kind: str) -> dict[str, Any]:
    """Not stricter than the process: bounds are for numbers that are written as such."""
    name, _, bounds = kind.partition(" ")
    schema: dict[str, Any] = {"$ref": f"#/definitions/{_FLAGS_OF_KIND.get(name, 'flag')}"}
    return schema if not bounds else {"allOf": [schema, dict(map(_bound, bounds.split()))]}


def _bound(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    words = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "min_length": "minLength"}
    return words[name], int(value)


# --- code --------------------------------------------------------------------------------------------
def _flags() -> Callable[[str], str]:
    """Puts the flags of all processes in the place of the table."""
    rows = ""
    for name, settings in _PROCESSES.items():
        kinds = sorted(settings.flag_kinds().items())
        flags = "".join(f"        {_json(flag)}: {_json(kind)},\n" for flag, kind in kinds)
        rows += f'    "{name}": {{\n{flags}    }},\n'

    def put(text: str) -> str:
        before, found, _ = text.partition(_FLAGS_HEAD)
        if not found:
            raise LookupError(f"no table begins with {_FLAGS_HEAD!r}")
        return f"{before}{found}{rows}}}\n"

    return put


# --- chart -------------------------------------------------------------------------------------------
def _plugin_schema(spec: PluginSpec) -> dict[str, Any]:
    declared = {
        spelling: _argument_schema(each.kind)
        for each in spec.arguments.declared().values()
        for spelling in each.spellings
    }
    declared |= {spelling: {"type": "string"} for spelling in spec.without_effect}
    arguments = {"type": "object", "additionalProperties": False, "properties": declared}
    own = {"enabled": {"type": "boolean"}, "priority": {"type": "integer"}, "arguments": arguments}
    return {"type": "object", "additionalProperties": False, "properties": own}


def _argument_schema(kind: ArgumentKind[Any]) -> dict[str, Any]:
    """An empty text is the default, whatever the kind."""
    if kind.words:
        return {"type": "string", "enum": [*kind.words, ""]}
    return {"type": "string", "pattern": kind.pattern} if kind.pattern else {"type": "string"}


def _each(names: Iterable[str], definition: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/definitions/{definition}"} for name in names}


def _properties(definition: str, properties: Mapping[str, Any]) -> Callable[[str], str]:
    """Puts properties in the place of those of a definition of the chart's schema, each on a line.

    Whatever of the schema takes no other keys is to name those that it takes.
    """
    lines = ",\n".join(f'        "{name}": {_json(each)}' for name, each in properties.items())

    def put(text: str) -> str:
        before, head, rest = text.partition(f'\n    "{definition}": {{\n')
        own, opened, rest = rest.partition('\n      "properties": {\n')
        _, closed, after = rest.partition("\n      }")
        if not (head and opened and closed):
            raise LookupError(f"the schema has no definition {definition!r} with properties")
        return _with_names(before + head + own + opened + lines + closed + after)

    return put


def _with_names(schema: str) -> str:
    """The text of a schema in which each object that takes no other keys says which it takes.

    Of ``additionalProperties`` alone helm tells which key is not known, of ``propertyNames`` which are.
    """
    written, done, opened = "", 0, []
    for token in _TOKEN.finditer(schema):
        if token[0] == "{":
            opened.append(token.start())
        elif token[0] == "}":
            opened.pop()
        elif closed := _CLOSED.match(schema, token.start()):
            names = _names(_DECODER.raw_decode(schema, opened[-1])[0])
            written += schema[done : closed.end()] + (names and f"{names},{closed[1]}")
            done = closed.end()
            if schema.startswith(_NAMES, done):
                _, end = _DECODER.raw_decode(schema, done + len(_NAMES))
                done = end + len(f",{closed[1]}")
    return written + schema[done:]


def _names(schema: Mapping[str, Any]) -> str:
    """Which keys an object takes; empty if none."""
    known = [{"enum": list(schema["properties"])}] if schema.get("properties") else []
    known += [{"pattern": pattern} for pattern in schema.get("patternProperties", ())]
    if not known:
        return ""
    return f"{_NAMES}{_json(known[0] if len(known) == 1 else {'anyOf': known})}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _custom_resource(spec: type[Fields]) -> Callable[[str], str]:
    """Puts the schema of a kind's spec in the place of the one in its definition."""
    head, foot = "\n              # Written by `make derived`.\n", "            status:\n"
    schema = json.loads(json.dumps(schema_of(spec)))  # each piece for itself: YAML would refer to equal ones
    written = yaml.safe_dump(schema, sort_keys=False, width=120, default_flow_style=None)

    def put(text: str) -> str:
        before, found, rest = text.partition(head)
        _, closed, after = rest.partition(foot)
        if not (found and closed):
            raise LookupError("the definition says nowhere that a part of it is derived")
        return before + head + textwrap.indent(written, " " * 14) + foot + after

    return put


def _template(name: str, content: str) -> Callable[[str], str]:
    """A whole template of one definition."""
    text = f'{_SAID}{{{{- define "{name}" -}}}}\n{content}{{{{- end }}}}\n'
    return lambda _: text


def _workloads() -> str:
    kinds = {group: sorted(map(plural, named)) for group, named in granted().items() if group}
    return "".join(f"{group}: [{', '.join(named)}]\n" for group, named in sorted(kinds.items()))


def _defaults() -> str:
    """All values, where templates find them even if null took them away."""
    values = json.loads(json.dumps(_values()))  # each piece for itself: YAML would refer to equal ones
    return yaml.safe_dump(values, sort_keys=False, width=120, default_flow_style=None)


def _values() -> Any:
    return load_written((ROOT / _CHART / "values.yaml").read_text())


PARTS: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("libs/kai/operands/spec/known_flags.py", _flags()),
    ("docs/configuration.md", _table(("plugin", "default", "what it does"), list(_plugin_rows()))),
    (
        "docs/configuration.md",
        _table(("plugin", "argument", "value", "default", "meaning"), list(_argument_rows())),
    ),
    ("docs/pod-grouper.md", _table(("kind", "group"), list(_kind_rows()))),
    # Pods and Karta definitions have rows of their own: they are watched, or listed.
    ("docs/security.md", _rights("get", {*_owners()} - {"pods", "kartas.run.ai"})),
    ("docs/security.md", _rights("update", _owners("/finalizers"))),
    (
        f"{_CHART}/values.schema.json",
        _properties("plugins", {name: _plugin_schema(spec) for name, spec in PLUGINS.items()}),
    ),
    (f"{_CHART}/values.schema.json", _properties("actions", _each(ACTIONS, "action"))),
    (f"{_CHART}/values.schema.json", _properties("depths", _each(ACTIONS, "depth"))),
    (
        f"{_CHART}/values.schema.json",
        _properties("searches", _each(("default", *SEARCHING), "duration")),
    ),
    *(
        (f"{_CHART}/values.schema.json", _properties(f"{name}Flags", _flag_schemas(field)))
        for field, name in _VALUES_OF.items()
    ),
    ("docs/helm.md", _table(("value", "default", "effect"), list(_value_rows()))),
    (f"{_CHART}/crds/configs.kai.scheduler.yaml", _custom_resource(ConfigSpec)),
    (f"{_CHART}/crds/schedulingshards.kai.scheduler.yaml", _custom_resource(ShardSpec)),
    (f"{_CHART}/templates/_workloads.tpl", _template("kai.workloads", _workloads())),
    (f"{_CHART}/templates/_values.tpl", _template("kai.defaults", _defaults())),
)


def derive(root: Path) -> list[Path]:
    """Bring the files below a folder up to date; those that were not."""
    changed = []
    for name, put in PARTS:
        path = root / name
        before = path.read_text() if path.exists() else ""
        after = put(before)
        if after != before:
            path.write_text(after)
            changed.append(path)
    return changed


if __name__ == "__main__":
    for each in derive(ROOT):
        sys.stdout.write(f"{each.relative_to(ROOT)}\n")
