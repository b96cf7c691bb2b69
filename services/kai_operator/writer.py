"""Brings single objects in line with what is wanted, and writes nothing where they are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import structlog

from kai.kube.client import KubeClient
from kai.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kai_operator import bodies
from kai_operator.cache import Cache
from kai_operator.kinds import Manifest, Ref, kind_of, ref_of
from kai_operator.ownership import Ownership, ownership, runs_another_program, whose

#: An object is put right at most so often in so many seconds.
CORRECTIONS: Final = 10
CONTEST_SECONDS: Final = 60.0
#: Controllers write to objects while we do, most of all to Deployments that are rolled out.
_ATTEMPTS: Final = 3

_log = structlog.get_logger(__name__)


class NotOurs(Exception):
    """An object of that name belongs to somebody else; it is left alone."""


class Contested(Exception):
    """Somebody changes an object again and again; it is put right, but not each time."""


class Vanishing(Exception):
    """An object is on its way out; it can be made again when it is gone."""


@dataclass(frozen=True, slots=True)
class _Accepted:
    """How an object looked after it was written as ``wanted`` (a digest)."""

    wanted: bytes
    form: Manifest


class Writer:
    """Writes for one process. It remembers what the API server made of each object.

    The first time it asks by a dry run, so that a new process writes nothing that is as it should be.
    """

    def __init__(self, client: KubeClient, cache: Cache) -> None:
        self._client = client
        self._cache = cache
        self._accepted: dict[Ref, _Accepted] = {}
        #: When an object was put right that was right before: whoever changes it may be a program.
        self._corrected: dict[Ref, list[float]] = {}

    async def settle(self, manifest: Manifest, owner: dict[str, Any]) -> Manifest:
        """Have this object in the cluster, controlled by ``owner``; how it looks then.

        Raises:
            NotOurs: there is one, and it belongs to somebody else.
            Vanishing: there is one, and it is being deleted.
            Contested: somebody has changed it too often of late.
            KubeError: the API server refuses it, or cannot be reached.
        """
        wanted = bodies.prepared(manifest, owner)
        ref = ref_of(wanted)
        live = self._cache.get(ref)
        with self._cache.writing(ref):
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return await self._settle(wanted, live, owner)
                except (AlreadyExists, Conflict):
                    if attempt == _ATTEMPTS:
                        raise
                    live = await self.look(wanted)
        raise AssertionError

    async def _settle(self, wanted: Manifest, live: Manifest | None, owner: dict[str, Any]) -> Manifest:
        """The same for an object that looks so; None if there seems to be none."""
        if live is None:
            return await self._create(wanted)
        if live["metadata"].get("deletionTimestamp"):
            raise Vanishing(f"{ref_of(wanted)} is being deleted")
        if ownership(live, owner) is Ownership.FOREIGN:
            raise NotOurs(
                f"{ref_of(wanted)} belongs to {whose(live)}, and is left alone: remove it, or give it "
                "the label app.kubernetes.io/part-of=kai-scheduler to have it replaced"
            )
        if runs_another_program(live, wanted):
            await self.remove(live, propagation="Foreground")
            raise Vanishing(
                f"{ref_of(wanted)} is of the KAI Scheduler, and made anew once its pods have ended"
            )
        return await self._adjust(wanted, live)

    async def look(self, manifest: Manifest) -> Manifest | None:
        """The object as it is now, not as the watch told; None if there is none."""
        ref, resource = ref_of(manifest), kind_of(manifest).resource
        try:
            return await self._client.get(resource, ref.name, namespace=ref.namespace)
        except NotFound:
            return None

    async def remove(self, live: Manifest, *, propagation: str = "Background") -> None:
        """Delete this object, and no other of its name."""
        ref, resource = ref_of(live), kind_of(live).resource
        self._accepted.pop(ref, None)
        if live["metadata"].get("deletionTimestamp"):
            return
        _log.info("deleting", object=str(ref))
        try:
            await self._client.delete(
                resource,
                ref.name,
                namespace=ref.namespace,
                uid=live["metadata"]["uid"],
                propagation=propagation,
            )
        except NotFound:
            self._cache.forget(live)

    async def _create(self, wanted: Manifest) -> Manifest:
        ref, resource = ref_of(wanted), kind_of(wanted).resource
        made = await self._client.create(resource, wanted, namespace=ref.namespace)
        _log.info("created", object=str(ref))
        return self._remember(wanted, made)

    async def _adjust(self, wanted: Manifest, live: Manifest) -> Manifest:
        ref, said = ref_of(wanted), bodies.digest(wanted)
        looks = bodies.form(live, wanted)
        known = self._accepted.get(ref)
        if known is not None and known.wanted == said and known.form == looks:
            return live
        body = bodies.body(wanted, live)
        if known is not None and known.wanted == said:
            self._count(ref)
        else:
            answer = await self._update(body, dry_run=True)
            if bodies.form(answer, wanted) == looks:
                self._accepted[ref] = _Accepted(said, looks)
                return live
        written = await self._update(body)
        if written["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            _log.info("updated", object=str(ref))
        return self._remember(wanted, written)

    def _count(self, ref: Ref) -> None:
        """One more correction of this object, unless there were too many of late."""
        now = time.monotonic()
        times = [at for at in self._corrected.get(ref, ()) if now - at < CONTEST_SECONDS]
        if len(times) >= CORRECTIONS:
            raise Contested(
                f"{ref} is changed by somebody else again and again: have that stop; until then it is put "
                f"right {CORRECTIONS} times in {CONTEST_SECONDS:g} s"
            )
        self._corrected[ref] = [*times, now]

    async def _update(self, body: Manifest, *, dry_run: bool = False) -> Manifest:
        ref, resource = ref_of(body), kind_of(body).resource
        answer: Manifest = await self._client.update(
            resource, ref.name, body, namespace=ref.namespace, dry_run=dry_run
        )
        return answer

    def _remember(self, wanted: Manifest, written: Manifest) -> Manifest:
        self._accepted[ref_of(wanted)] = _Accepted(bodies.digest(wanted), bodies.form(written, wanted))
        self._cache.take(written)
        return written


#: What may happen to one object without harm to the others.
TROUBLE = (NotOurs, Contested, Vanishing, KubeError)
