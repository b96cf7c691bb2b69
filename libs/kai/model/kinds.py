"""Kinds of objects by the words that kubectl takes for them."""

from __future__ import annotations

from typing import Final

#: All of them, the usual one first.
WORDS: Final[dict[str, tuple[str, ...]]] = {
    "Pod": ("pod", "pods", "po"),
    "PodGroup": ("podgroup", "podgroups", "pg"),
    "Queue": ("queue", "queues"),
    "Job": ("job", "jobs"),
    "CronJob": ("cronjob", "cronjobs", "cj"),
    "Deployment": ("deployment", "deployments", "deploy"),
    "ReplicaSet": ("replicaset", "replicasets", "rs"),
    "StatefulSet": ("statefulset", "statefulsets", "sts"),
    "DaemonSet": ("daemonset", "daemonsets", "ds"),
}


def is_called(word: str, *, kind: str, api_version: str) -> bool:
    """Whether a kind is meant by ``jobs``, ``jobs.batch`` or ``jobs.v1.batch``, in lower case.

    Of kinds that are not known here the plural is taken to end with an s; nothing says their short names.
    """
    called, _, rest = word.partition(".")
    name = kind.lower()
    if called not in WORDS.get(kind, (name, f"{name}s")):
        return False
    group, _, version = api_version.rpartition("/")
    return is_of(rest, group=group, version=version)


def is_of(rest: str, *, group: str, version: str) -> bool:
    """Whether a group is meant by what follows ``jobs.`` in a word for a kind; nothing means any."""
    return rest in ("", group, f"{version}.{group}")
