"""Adding a cluster to a user's kubeconfig, and taking it out again, without touching the rest.

A kubeconfig is hand-edited and full of credentials of other clusters, so it is edited as text: the
YAML parser says where things stand, and only those characters change. Where a file's style does not
allow that (flow style, JSON, anchors), it is written anew with the same meaning.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from kai_local.node.network import ALL_NETWORKS
from kai_local.processes import homes

_LOCK_PATIENCE = 5.0
_SECTIONS = ("clusters", "contexts", "users")


class KubeconfigError(Exception):
    """A kubeconfig that cannot be read or written; says which and why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one cluster adds: three entries of the same name."""

    name: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    def section(self, section: str) -> dict[str, Any]:
        """The list item of ``clusters``, ``contexts`` or ``users``."""
        if section == "clusters":
            return {"name": self.name, "cluster": dict(self.cluster)}
        if section == "users":
            return {"name": self.name, "user": dict(self.user)}
        return {"name": self.name, "context": {"cluster": self.name, "user": self.name}}


# --- files -------------------------------------------------------------------------------------
def search_path(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """The kubeconfig files that kubectl merges, first wins: ``$KUBECONFIG``, else ``~/.kube/config``."""
    listed = [Path(part).expanduser() for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    return listed or [homes.home(environment) / ".kube" / "config"]


def file_to_extend(paths: list[Path]) -> Path:
    """Where kubectl would write a new context: the first file that exists, else the last."""
    return next((path for path in paths if path.exists()), paths[-1])


def file_of_current_context(paths: list[Path]) -> Path:
    """The file whose ``current-context`` counts, else the one that kubectl would extend."""
    for path in paths:
        if path.exists() and _current(_read(path), path):
            return path
    return file_to_extend(paths)


def current_context(paths: list[Path]) -> str:
    """The context that kubectl would use; empty where there is none.

    Raises:
        KubeconfigError: a file cannot be read.
    """
    path = file_of_current_context(paths)
    return _current(_read(path), path) if path.exists() else ""


def has_context(paths: Iterable[Path], name: str) -> bool:
    """Whether one of the files has a context of this name."""
    documents = (_parse(_read(path), path) for path in paths if path.exists())
    return any(
        isinstance(item, dict) and item.get("name") == name
        for document in documents
        for item in (document or {}).get("contexts") or ()
    )


def others_server(path: Path, name: str) -> str:
    """The server of an entry called ``name`` that is of no cluster on this machine; empty if there is none.

    Raises:
        KubeconfigError: the file cannot be read.
    """
    document = (_parse(_read(path), path) if path.exists() else None) or {}
    entries = [item for item in document.get("clusters") or () if isinstance(item, dict)]
    servers = {str(item.get("name")): str((item.get("cluster") or {}).get("server", "")) for item in entries}
    meant = {name}
    for item in document.get("contexts") or ():
        context = item.get("context") if isinstance(item, dict) else None
        if isinstance(context, dict) and name in (item.get("name"), context.get("user")):
            meant.add(str(context.get("cluster")))
    found = (servers[one] for one in sorted(meant) if servers.get(one))
    return next((server for server in found if not _is_here(server)), "")


def _is_here(server: str) -> bool:
    try:
        address = ipaddress.ip_address(urlsplit(server).hostname or "")
    except ValueError:
        return False
    return address.is_loopback or address in ALL_NETWORKS


def add(path: Path, entry: Entry) -> None:
    """Put ``entry`` in, in place of one with the same name. The file is made (0600) if there is none."""
    _edit(path, lambda text: with_entry(text, entry, path))


def remove(path: Path, name: str) -> None:
    """Take out everything called ``name``; a file in which nothing else is left goes too."""
    _edit(path, lambda text: without_entry(text, name, path))


def use_context(path: Path, name: str) -> str:
    """Make ``name`` the current context and return the one before (empty if none)."""
    before = ""

    def change(text: str) -> str:
        nonlocal before
        before = _current(text, path)
        return with_current_context(text, name, path)

    _edit(path, change)
    return before


def restore_context(path: Path, ours: str, before: str) -> None:
    """Give back the context used before, unless the user has chosen another one meanwhile."""

    def change(text: str) -> str:
        if _current(text, path) != ours:
            return text
        return with_current_context(text, before, path)

    _edit(path, change)


def _edit(path: Path, change: Callable[[str], str]) -> None:
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            text = _read(target) if target.exists() else ""
            changed = change(text)
            if changed == text:
                return
            if _is_empty(changed, target):
                target.unlink()
            else:
                _replace(target, changed)
    except OSError as error:
        raise KubeconfigError(f"kubeconfig {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file that client-go's tools honour."""
    lock = path.with_name(path.name + ".lock")
    deadline = time.monotonic() + _LOCK_PATIENCE
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise KubeconfigError(
                    f"kubeconfig {path} is locked; remove {lock} if no other program edits it"
                ) from None
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    descriptor, temporary = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# --- text --------------------------------------------------------------------------------------
def with_entry(text: str, entry: Entry, path: Path = Path("kubeconfig")) -> str:
    """``text`` with ``entry`` in it."""
    text = without_entry(text, entry.name, path, forget_current=False)
    document = _parse(text, path) or {"apiVersion": "v1", "kind": "Config"}
    wanted = {**document}
    for section in _SECTIONS:
        wanted[section] = [*(document.get(section) or []), entry.section(section)]
    edited = text or "apiVersion: v1\nkind: Config\n"
    for section in _SECTIONS:
        edited = _insert_item(edited, section, entry.section(section))
    return _checked(edited, wanted)


def without_entry(
    text: str, name: str, path: Path = Path("kubeconfig"), *, forget_current: bool = True
) -> str:
    """``text`` without the entries called ``name``; with nothing left, the empty string."""
    document = _parse(text, path)
    if document is None:
        return text
    wanted, edited = dict(document), text
    for section in _SECTIONS:
        items = document.get(section) or []
        kept = [item for item in items if not (isinstance(item, dict) and item.get("name") == name)]
        if len(kept) != len(items):
            wanted[section] = kept or None
            edited = _remove_items(edited, section, name)
    if forget_current and document.get("current-context") == name:
        edited = _checked(edited, wanted)
        return with_current_context(edited, "", path)
    return _checked(edited, wanted) if edited != text else text


def with_current_context(text: str, name: str, path: Path = Path("kubeconfig")) -> str:
    """``text`` with another ``current-context``; an empty name takes the line out."""
    document = _parse(text, path) or {"apiVersion": "v1", "kind": "Config"}
    wanted = {**document, "current-context": name}
    if not name:
        del wanted["current-context"]
    edited = text or "apiVersion: v1\nkind: Config\n"
    found = _find(edited, "current-context")
    if found is None:
        edited = edited if not name else _append(edited, f"current-context: {_scalar(name)}\n")
    elif name:
        edited = edited[: found.value.start_mark.index] + _scalar(name) + edited[found.value.end_mark.index :]
    else:
        start, end = _lines(edited, found.key.start_mark.index, found.value.end_mark.index)
        edited = edited[:start] + edited[end:]
    return _checked(edited, wanted)


@dataclass(frozen=True, slots=True)
class _Pair:
    key: yaml.Node
    value: yaml.Node


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise KubeconfigError(f"kubeconfig {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"kubeconfig {path} is not UTF-8: {error}") from error


def _current(text: str, path: Path) -> str:
    """The current context as kubectl reads it, to which also ``2024`` is a name; empty if there is none."""
    if (_parse(text, path) or {}).get("current-context") is None:
        return ""
    found = _find(text, "current-context")
    return str(found.value.value) if found is not None and isinstance(found.value, yaml.ScalarNode) else ""


def _parse(text: str, path: Path) -> dict[str, Any] | None:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise KubeconfigError(f"kubeconfig {path} is not YAML: {error}") from error
    if document is None:
        return None
    if not isinstance(document, dict):
        raise KubeconfigError(f"kubeconfig {path}: expected a mapping, found {type(document).__name__}")
    return document


def _is_empty(text: str, path: Path) -> bool:
    document = _parse(text, path) or {}
    return not any(document.get(key) for key in document if key not in ("apiVersion", "kind", "preferences"))


def _find(text: str, key: str) -> _Pair | None:
    try:
        root = yaml.compose(text)
    except yaml.YAMLError:  # an edit before did not suit this file's style: the check writes it anew
        return None
    if not isinstance(root, yaml.MappingNode):
        return None
    return next(
        (_Pair(k, v) for k, v in root.value if isinstance(k, yaml.ScalarNode) and k.value == key), None
    )


def _insert_item(text: str, section: str, item: dict[str, Any]) -> str:
    """Add a list item at the end of a block sequence, in that sequence's indentation."""
    found = _find(text, section)
    if found is None:
        return _append(text, f"{section}:\n{_block(item, 0)}")
    if isinstance(found.value, yaml.SequenceNode) and found.value.value and not found.value.flow_style:
        _, end = _lines(text, found.value.start_mark.index, found.value.value[-1].end_mark.index)
        return _splice(text, end, _block(item, found.value.start_mark.column))
    if isinstance(found.value, yaml.ScalarNode) or not found.value.value:  # `clusters:`, `null`, `[]`
        key_end = found.key.end_mark.index
        _, end = _lines(text, key_end, found.value.end_mark.index)
        return _splice(text[:key_end] + ":\n" + text[end:], key_end + 2, _block(item, 0))
    return text  # flow style: the check finds the difference and writes the file anew


def _remove_items(text: str, section: str, name: str) -> str:
    found = _find(text, section)
    if found is None or not isinstance(found.value, yaml.SequenceNode) or found.value.flow_style:
        return text
    items = found.value.value
    ours = [item for item in items if _name_of(item) == name]
    for item in reversed(ours):
        start, end = _lines(text, text.rindex("-", 0, item.start_mark.index), item.end_mark.index)
        text = text[:start] + text[end:]
    if len(ours) == len(items):
        start, end = _lines(text, found.key.start_mark.index, found.key.end_mark.index)
        text = text[:start] + text[end:]
    return text


def _name_of(item: yaml.Node) -> str | None:
    if not isinstance(item, yaml.MappingNode):
        return None
    return next((value.value for key, value in item.value if key.value == "name"), None)


def _lines(text: str, start: int, end: int) -> tuple[int, int]:
    """Whole lines from ``start`` to ``end``; the end mark of a block stands too far, after blank lines."""
    while end > start and text[end - 1] in " \n\r\t":
        end -= 1
    line_end = text.find("\n", end)
    return text.rfind("\n", 0, start) + 1, len(text) if line_end < 0 else line_end + 1


def _append(text: str, block: str) -> str:
    if re.search(r"^(\.\.\.|---)\s*$", text.rstrip().rsplit("\n", 1)[-1]):
        return text  # an explicit end of document: written anew
    return _splice(text, len(text), block)


def _splice(text: str, at: int, block: str) -> str:
    separator = "" if at == 0 or text[at - 1] == "\n" else "\n"
    return text[:at] + separator + block + text[at:]


def _block(item: dict[str, Any], indent: int) -> str:
    dumped = yaml.safe_dump([item], sort_keys=False, default_flow_style=False, width=1_000_000)
    return "".join(f"{' ' * indent}{line}\n" for line in dumped.splitlines())


def _scalar(value: str) -> str:
    return yaml.safe_dump(value, width=1_000_000).removesuffix("\n...\n").strip()


def _checked(edited: str, wanted: dict[str, Any]) -> str:
    """``edited`` if it means what was wanted, else ``wanted`` written anew."""
    with contextlib.suppress(yaml.YAMLError):
        if _meaning(yaml.safe_load(edited) or {}) == _meaning(wanted):
            return edited
    return yaml.safe_dump(wanted, sort_keys=False)


def _meaning(document: dict[str, Any]) -> dict[str, Any]:
    """An absent section and an empty one mean the same."""
    return {
        key: value for key, value in document.items() if value or key not in (*_SECTIONS, "current-context")
    }
