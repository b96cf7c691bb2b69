"""Makes ``wire_fields.json``, the protobuf field numbers of the built-in types, from Kubernetes' sources.

    python -m kai_local.apiserver.schemas.wire_fields API_MODULE APIMACHINERY_MODULE > wire_fields.json

The arguments are checkouts of ``k8s.io/api`` and ``k8s.io/apimachinery``. For each message the table maps a
field number to the field's JSON name (empty where its members stand in the parent) and type: ``[]`` marks
lists, ``{}`` maps, ``*`` scalars whose zero is a value and not an absence.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

_MESSAGE: Final = re.compile(r"^message (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(
    r"^\s+(?:(optional|repeated|required) |map<string, ?([\w.]+)> )([\w.]+ )?(\w+) = (\d+);", re.MULTILINE
)
_STRUCT: Final = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_TAGGED: Final = re.compile(
    r'^\s+(?:\w+\s+)?(\*?)[][\w.]+\s+`json:"(\w+|,inline)[^"]*" protobuf:"\w+,(\d+),', re.MULTILINE
)
_SCALARS: Final = frozenset({"string", "bytes", "int32", "int64", "bool", "double", "float"})

Table = dict[str, dict[str, tuple[str, str]]]


def _sources(root: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for proto in sorted(root.rglob("generated.proto")):
        relative = proto.parent.relative_to(root).as_posix().replace("/", ".")
        if "alpha" not in relative and "beta" not in relative and "testapigroup" not in relative:
            yield f"{prefix}.{relative}", proto


def _tags(folder: Path) -> dict[tuple[str, str], tuple[bool, str]]:
    """Of each struct and field number: whether it is a pointer, and the JSON name, empty for one that is
    inlined.
    """
    found = {}
    for source in folder.glob("*.go"):
        if not source.name.endswith("_test.go"):
            for struct in _STRUCT.finditer(source.read_text()):
                for pointer, name, number in _TAGGED.findall(struct[2]):
                    found[struct[1], number] = (bool(pointer), name.removeprefix(",inline"))
    return found


def _type(package: str, name: str) -> str:
    name = name.strip().removeprefix(".").removeprefix("k8s.io.")
    if name in _SCALARS:
        return name
    return name if "." in name else f"{package}.{name}"


def make(roots: dict[Path, str]) -> Table:
    """The table of all messages in these source trees."""
    table: Table = {}
    for root, prefix in roots.items():
        for package, proto in _sources(root, prefix):
            tags = _tags(proto.parent)
            for message in _MESSAGE.finditer(proto.read_text()):
                fields = {}
                for label, map_value, kind, name, number in _FIELD.findall(message[2]):
                    shown = _type(package, map_value or kind)
                    mark = "{}" if map_value else "[]" if label == "repeated" else ""
                    pointer, json_name = tags.get((message[1], number), (False, name))
                    if not mark and shown in _SCALARS and pointer:
                        mark = "*"
                    fields[number] = (json_name, mark + shown)
                table[f"{package}.{message[1]}"] = fields
    return table


def main() -> None:
    """Write the table to standard output, one message a line."""
    api, machinery = map(Path, sys.argv[1:3])
    table = make({api: "api", machinery: "apimachinery"})
    lines = [
        f"{msgspec.json.encode(name).decode()}:{msgspec.json.encode(fields).decode()}"
        for name, fields in sorted(table.items())
    ]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
