"""Specifications that are in force: the newest that can be used of each object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kai_operator.kinds import Manifest
from kai_operator.product import ConfigSpec, Product, ShardSpec, Unusable


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is in force, and what is wrong with what is not. ``config`` is None while there never was one.

    Problems are by the uid of the object.
    """

    config: ConfigSpec | None
    shards: Mapping[str, ShardSpec] = field(default_factory=dict)
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Whether it is not known of some shard what it is to be.
    unread: bool = False
    #: Shards of which another has now all that they have and had, so that nothing of them may run.
    lost: frozenset[str] = frozenset()


class Specs:
    """Remembers of each object the last specification that could be used, for as long as it exists.

    A new process recalls what was written down of it. Where nothing was, or that cannot be used either, it
    leaves alone what runs.
    """

    def __init__(self, product: Product, recall: Callable[[Manifest], Manifest | None]) -> None:
        self._product = product
        self._recall = recall
        self._good: dict[str, Manifest] = {}

    def read(self, config: Manifest, shards: Iterable[Manifest]) -> Reading:
        """Read all of them; shards are read anew with each Config, since it may change what they mean."""
        problems: dict[str, Sequence[str]] = {}
        shards = list(shards)
        self._forget({_uid(config), *map(_uid, shards)})
        spec = self._read_config(config, problems)
        if spec is None:
            for shard in shards:
                problems[_uid(shard)] = (
                    "Config kai-config cannot be used, and was not before; mend it first",
                )
            return Reading(config=None, problems=problems)
        known: dict[str, ShardSpec] = {}
        for shard in sorted(shards, key=_age):
            found = self._read_shard(shard, spec, problems)
            if found is not None:
                known[_uid(shard)] = found
        lost = self._leave_to_the_first(known, shards, spec, problems)
        for shard in shards:
            if _uid(shard) in known and _uid(shard) not in problems:
                self._good[_uid(shard)] = shard
        return Reading(
            config=spec,
            shards=known,
            problems=problems,
            unread=len(known) + len(lost) < len(shards),
            lost=frozenset(lost),
        )

    def _leave_to_the_first(
        self,
        known: dict[str, ShardSpec],
        shards: Iterable[Manifest],
        config: ConfigSpec,
        problems: dict[str, Sequence[str]],
    ) -> set[str]:
        """Have each that wants what another has be as it was before; those of which another has that, too."""
        by_name = {shard["metadata"]["name"]: shard for shard in shards}
        fallen, lost = set[str](), set[str]()
        while rivals := self._product.rivals(list(known.values()), config):
            for name, problem in rivals.items():
                uid = _uid(by_name[name])
                before = None
                if uid not in fallen:
                    fallen.add(uid)
                    problems[uid] = (*problems.get(uid, ()), problem)
                    before = self._before(by_name[name], config)
                else:
                    lost.add(uid)
                if before is None:
                    del known[uid]
                else:
                    known[uid] = before
        return lost

    def _read_config(self, manifest: Manifest, problems: dict[str, Sequence[str]]) -> ConfigSpec | None:
        uid = _uid(manifest)
        try:
            spec = self._product.read_config(manifest)
        except Unusable as error:
            problems[uid] = error.problems
            return self._config_before(manifest)
        self._good[uid] = manifest
        return spec

    def _config_before(self, manifest: Manifest) -> ConfigSpec | None:
        before = self._last(manifest)
        if before is None:
            return None
        try:
            return self._product.read_config(before)
        except Unusable:  # by the release of that time it could be
            return None

    def in_force(self, uid: str) -> Manifest | None:
        """The object as it was when it could be used last; None if that is not known."""
        return self._good.get(uid)

    def _last(self, manifest: Manifest) -> Manifest | None:
        uid = _uid(manifest)
        if uid not in self._good and (before := self._recall(manifest)) is not None:
            self._good[uid] = before
        return self._good.get(uid)

    def _read_shard(
        self, manifest: Manifest, config: ConfigSpec, problems: dict[str, Sequence[str]]
    ) -> ShardSpec | None:
        try:
            return self._product.read_shard(manifest, config)
        except Unusable as error:
            problems[_uid(manifest)] = error.problems
            return self._before(manifest, config)

    def _before(self, manifest: Manifest, config: ConfigSpec) -> ShardSpec | None:
        before = self._last(manifest)
        if before is None:
            return None
        try:
            return self._product.read_shard(before, config)
        except Unusable:  # with the Config of that time it could be
            return None

    def _forget(self, living: set[str]) -> None:
        self._good = {uid: manifest for uid, manifest in self._good.items() if uid in living}


def _age(manifest: Manifest) -> tuple[str, str]:
    """Who was there first keeps what two of them want."""
    meta = manifest["metadata"]
    return meta.get("creationTimestamp") or "", meta["name"]


def _uid(manifest: Manifest) -> str:
    return str(manifest["metadata"]["uid"])
