"""Rules for the metadata of objects: names, labels, annotations, and what may not change."""

import re
from functools import lru_cache
from typing import Any, Final

from kai_local.apiserver.errors import Cause, Obj, invalid_value, required, show
from kai_local.apiserver.kinds.catalogue import Resource
from kai_local.apiserver.schemas.sameness import without

LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_KEY_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")

LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must "
    "start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_KEY_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
IMMUTABLE: Final = "field is immutable"
_LABEL_NAMED: Final = frozenset({"Namespace", "Service"})
#: Bytes of all keys and values together.
_ANNOTATIONS: Final = 256 * 1024
_PATH_NAMED: Final = frozenset({"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})


def metadata(resource: Resource, meta: Obj) -> list[Cause]:
    """Name, labels and annotations."""
    causes = []
    name = meta.get("name", "")
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif resource.kind in _LABEL_NAMED:
        if len(name) > 63 or not LABEL.match(name):
            causes.append(invalid_value("metadata.name", name, LABEL_RULE))
    elif resource.kind in _PATH_NAMED:
        if "/" in name or "%" in name:
            causes.append(invalid_value("metadata.name", name, "may not contain '/' or '%'"))
    elif len(name) > 253:
        causes.append(invalid_value("metadata.name", name, "must be no more than 253 characters"))
    elif not _SUBDOMAIN.match(name):
        causes.append(invalid_value("metadata.name", name, SUBDOMAIN_RULE))
    causes += labels("metadata.labels", meta.get("labels"))
    annotations = meta.get("annotations") or {}
    for key in annotations:
        causes += qualified_name("metadata.annotations", key.lower())
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS:
        note = f"Too long: may not be more than {_ANNOTATIONS} bytes"
        causes.append(Cause("metadata.annotations", note, "FieldValueTooLong"))
    for finalizer in meta.get("finalizers") or ():
        causes += qualified_name("metadata.finalizers", finalizer)
    if owners := meta.get("ownerReferences"):
        causes += _owners(owners)
    return causes


def _owners(owners: list[Obj]) -> list[Cause]:
    field = "metadata.ownerReferences"
    causes = [
        invalid_value(f"{field}.{key}", "", "must not be empty")
        for owner in owners
        for key in ("apiVersion", "kind", "name", "uid")
        if not owner.get(key)
    ]
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        note = "Only one reference can have Controller set to true"
        causes.append(invalid_value(field, owners, note))
    return causes


def change(new: Obj, old: Obj) -> list[Cause]:
    """What a change of the metadata must not touch; each cause is there twice, as a real server has it."""
    causes = []
    uid = new.get("uid")
    if uid and uid != old["uid"]:
        causes.append(invalid_value("metadata.uid", uid, IMMUTABLE))
    if "deletionTimestamp" in old:
        added = without(new.get("finalizers") or (), old.get("finalizers") or ())
        if added:
            note = "no new finalizers can be added if the object is being deleted, found new finalizers "
            note = f"Forbidden: {note}{show(added)}"
            causes.append(Cause("metadata.finalizers", note, "FieldValueForbidden"))
    return causes * 2


def labels(field: str, values: Any) -> list[Cause]:
    """Keys and values of a label map."""
    causes: list[Cause] = []
    for key, value in (values or {}).items():
        causes += qualified_name(field, key)
        if not isinstance(value, str) or not is_label_value(value):
            note = (
                VALUE_RULE
                if not isinstance(value, str) or len(value) <= 63
                else "must be no more than 63 characters"
            )
            causes.append(invalid_value(field, value, note))
    return causes


@lru_cache(maxsize=4096)
def is_label_value(value: str) -> bool:
    """Whether a label may have this value."""
    return len(value) <= 63 and _LABEL_VALUE.match(value) is not None


@lru_cache(maxsize=4096)
def qualified_name(field: str, key: str) -> tuple[Cause, ...]:
    """What is wrong with a key of labels, or with a name of its form (``example.com/name``)."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _SUBDOMAIN.match(prefix)):
        return (invalid_value(field, key, "prefix part " + SUBDOMAIN_RULE),)
    if len(name) > 63:
        return (invalid_value(field, key, "name part must be no more than 63 characters"),)
    return () if _KEY_NAME.match(name) else (invalid_value(field, key, _KEY_RULE),)
