"""Admission reviews as an API server would never send them, and as it would."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

from kai.validation.registration import (
    MUTATE_POD,
    VALIDATE_POD,
    VALIDATE_POD_GROUP,
    VALIDATE_QUEUE,
    VALIDATE_TOPOLOGY,
    WARN,
)

from .values import GVKS, NUMBERS, OF_OPERATORS, TEXTS, Maker, nested

KINDS = {
    MUTATE_POD: ("Pod",),
    VALIDATE_POD: ("Pod",),
    VALIDATE_TOPOLOGY: ("Topology",),
    VALIDATE_QUEUE: ("Queue",),
    VALIDATE_POD_GROUP: ("PodGroup",),
    WARN: (
        "Pod", "Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "PodGroup", "Queue",
        "Topology", *OF_OPERATORS,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A request: its path and body, and the object in it where the body is what an API server would send."""

    path: str
    body: bytes
    operation: str = ""
    object: Any = None
    old_object: Any = None
    sub_resource: str = ""
    #: The review as it was before its bytes were damaged; None where they were.
    review: Any = None


def case(seed: int, number: int) -> Case:
    """Case ``number`` of a seed; always the same."""
    chance = random.Random(f"{seed}:{number}")
    maker = Maker(chance)
    path = chance.choice(tuple(KINDS))
    kind = chance.choice(KINDS[path])
    obj = maker.object(kind)
    if chance.random() < 0.5:
        obj = maker.wreck(obj, chance.choice((1, 1, 2, 5)))
    if chance.random() < 0.03:
        obj = swollen(chance, obj)
    review = _review(chance, maker, kind, obj)
    if chance.random() < 0.12:
        review = maker.wreck(review, chance.choice((1, 2)))
    text = json.dumps(review, ensure_ascii=chance.random() < 0.5).encode(errors="replace")
    if chance.random() < 0.12:
        return Case(path, _damaged(chance, text))
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict):
        return Case(path, text)
    return Case(
        path,
        text,
        operation=request.get("operation"),
        object=request.get("object"),
        old_object=request.get("oldObject"),
        sub_resource=request.get("subResource") or "",
        review=review,
    )


def _review(chance: random.Random, maker: Maker, kind: str, obj: Any) -> Any:
    group, version = GVKS.get(kind) or OF_OPERATORS[kind]
    operation = chance.choice(
        ("CREATE", "CREATE", "CREATE", "UPDATE", "UPDATE", "DELETE", "CONNECT", "", "PATCH", "create")
    )
    old = maker.object(kind) if operation in ("UPDATE", "DELETE") or chance.random() < 0.1 else None
    if operation == "DELETE" and chance.random() < 0.9:
        obj = None
    if chance.random() < 0.05:
        old = maker.wreck(old, 3) if old else {}
    request = {
        "uid": "0b4c3c3a",
        "kind": {"group": group, "version": version, "kind": kind},
        "operation": operation,
        "name": chance.choice(("a", "", "org", "x" * 300)),
        "namespace": chance.choice(("ns", "ns", "", "other")),
        "subResource": chance.choice(("", "", "", "", "status", "scale", "binding", "ephemeralcontainers")),
        "userInfo": {"username": "u", "groups": ["system:authenticated"]},
        "object": obj,
        "oldObject": old,
        "dryRun": chance.choice((None, True, False)),
    }
    for key in list(request):
        if chance.random() < 0.02:
            del request[key]
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def swollen(chance: random.Random, obj: Any) -> Any:
    """The object with more of something than anybody would write; as etcd would still take it."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    spec = obj.get("spec") if isinstance(obj, dict) else None
    match chance.randrange(6):
        case 0 if isinstance(metadata, dict):
            metadata["annotations"] = {f"kai.scheduler/key-{n}": str(n) for n in range(5000)}
        case 1 if isinstance(metadata, dict):
            metadata["annotations"] = {f"gpu-fractio{n:05}": "x" for n in range(10_000)}
        case 2 if isinstance(spec, dict):
            spec["containers"] = [
                {"name": f"c{n}", "resources": {"limits": {"cpu": "1"}}} for n in range(3000)
            ]
        case 3 if isinstance(spec, dict):
            names = [f"s{n}" for n in range(chance.choice((100, 3000)))]
            deep = chance.random() < 0.5
            spec["subGroups"] = [
                {"name": name, "minMember": 1, **({"parent": names[n - 1]} if n and deep else {})}
                for n, name in enumerate(names)
            ]
        case 4 if isinstance(spec, dict):
            spec["levels"] = [{"nodeLabel": f"l{n}", "alias": f"a{n % 7}"} for n in range(3000)]
        case _ if isinstance(metadata, dict):
            metadata["labels"] = {"gpu-fraction": "x" * 500_000, "kai.scheduler/queue": "q" * 300_000}
    return obj


def _damaged(chance: random.Random, text: bytes) -> bytes:
    match chance.randrange(12):
        case 0:
            return text[: chance.randrange(len(text))]
        case 1:
            at = chance.randrange(len(text))
            return text[:at] + bytes([chance.randrange(256)]) + text[at + 1 :]
        case 2:
            return text.replace(b'"object"', b'"object": {"spec": 1}, "object"', 1)
        case 3:
            return text.replace(b'"metadata"', b'"metadata": {"name": "first"}, "metadata"')
        case 4:
            return text.replace(b": ", b": NaN, ", 1)
        case 5:
            return text.replace(b'"dryRun": ', b'"dryRun": 1e400, "x": ')
        case 6:
            return text.replace(b'"uid": "', b'"uid": "\\ud800', 1)
        case 7:
            return b"\xef\xbb\xbf" + text
        case 8:
            return chance.choice(
                (b"", b"null", b"[]", b"{}", b"0", b'"x"', b"\x00", b"{" * 100_000, b"[" * 100_000)
            )
        case 9:
            return (
                b'{"request": {"uid": "u", "operation": "CREATE", "object": {"spec": '
                + b'{"a":' * 50_000
                + b"1"
                + b"}" * 50_003
            )
        case 10:
            return text.replace(b'"object": {', b'"object": {"big": ' + b"9" * 10_000 + b", ", 1)
        case _:
            return text + text


def odd_http(chance: random.Random) -> tuple[dict[str, str], bytes]:
    """Headers and a body that do not fit each other."""
    headers = chance.choice(
        (
            {},
            {"Content-Type": "text/plain"},
            {"Content-Type": "application/yaml"},
            {"Content-Type": "application/json; charset=utf-16"},
            {"Content-Type": "multipart/form-data; boundary=x"},
            {"Content-Encoding": "gzip"},
            {"Content-Encoding": "deflate"},
            {"Content-Type": "\u00fc"},
            {"Expect": "100-continue"},
        )
    )
    review = {"request": {"uid": "u", "operation": "CREATE", "object": nested(5, lists=False)}}
    bodies = (json.dumps(review).encode(), b"", b"\x1f\x8b\x08\x00bad", str(chance.choice(NUMBERS)).encode())
    return headers, chance.choice((*bodies, chance.choice(TEXTS).encode(errors="replace")))
