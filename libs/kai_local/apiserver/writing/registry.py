"""Writing objects: every create, update, patch and delete goes through here.

A write reads the body by its type, fills defaults, asks admission, validates and stores. Between reading the
stored object and storing the new one nothing is awaited except admission webhooks, and a thread that works on
what is large; after those the base is compared again.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

from kai_local.apiserver import errors
from kai_local.apiserver.admission.builtin import Admission
from kai_local.apiserver.calls.apart import apart
from kai_local.apiserver.calls.requests import DeleteOptions, Target, WriteOptions
from kai_local.apiserver.clock import Clock
from kai_local.apiserver.errors import Cause, Obj
from kai_local.apiserver.kinds.catalogue import Resource, dig
from kai_local.apiserver.patches.apply import Writer, first_entries, track_update
from kai_local.apiserver.rules import defaults, metadata_rules, pod_rules, strategy, validation
from kai_local.apiserver.schemas import cel, decode, schema, structural
from kai_local.apiserver.store.storage import Collection, Record, Store

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Change = Callable[[Obj], Obj]
"""The stored object, in the version of the request, to its new state."""

_ATTEMPTS: Final = 5
_KEPT_METADATA: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
#: namespaces that a cluster cannot be without
_PERMANENT: Final = frozenset({"default", "kube-system", "kube-public"})


class DynamicAdmission(Protocol):
    """The admission webhooks and policies that users registered."""

    def concern(self, operation: Operation, target: Target) -> bool:
        """Whether any of them may want to see such a request."""
        ...

    async def mutate(
        self, operation: Operation, target: Target, obj: Obj | None, old: Obj | None, options: WriteOptions
    ) -> Obj | None:
        """The object as those that may change it leave it."""
        ...

    async def validate(
        self, operation: Operation, target: Target, obj: Obj | None, old: Obj | None, options: WriteOptions
    ) -> None:
        """Raises ApiFailure when one refuses."""
        ...


class Registry:
    """Writes to the store under the rules of the API."""

    def __init__(self, store: Store, admission: Admission, dynamic: DynamicAdmission, clock: Clock) -> None:
        self.store = store
        self.admission = admission
        self.dynamic = dynamic
        self.clock = clock
        self.on_write: dict[tuple[str, str], Callable[[Obj, Obj | None], list[Cause]]] = {}
        """Further checks of new states by resource: the object, and the one before."""
        self.on_store: dict[tuple[str, str], Callable[[Obj, Obj | None], Obj]] = {}
        """What the server itself writes into an object of a resource whenever it is stored."""

    def collection(self, resource: Resource) -> Collection:
        """Where the objects of this resource are."""
        return self.store.collection(resource.storage_key)

    def find(self, target: Target) -> Record:
        """The stored object. Raises ApiFailure (404)."""
        record = self.collection(target.resource).get(target.namespace, target.name)
        if record is None:
            raise errors.not_found(target.resource.plural, target.resource.group, target.name)
        return record

    # --- create ------------------------------------------------------------------------------------

    async def create(
        self, target: Target, body: Any, options: WriteOptions, *, applied: bool = False
    ) -> Record:
        """Store a new object: read, admitted, completed, validated, in this order."""
        resource = target.resource
        obj = await apart(options.size, self.read, target, body, None, options)
        if obj["metadata"].get("resourceVersion"):
            raise errors.bad_request("resourceVersion should not be set on objects to be created")
        strategy.place(target, obj["metadata"])
        writer = Writer(options.manager, "Apply", target.api_version)
        entries: list[Obj] = []
        if applied:
            node, stamp = target.version.node, self.clock.stamp()
            entries = await apart(options.size, first_entries, node, obj, writer, stamp)
        obj = await self._admit_new(target, obj, options)
        strategy.give_birth(resource, obj, self.clock)
        obj = self._settle(resource, obj)
        if applied:
            obj["metadata"]["managedFields"] = entries
        target.name = obj["metadata"].get("name", "")
        await apart(options.size, self._validate, resource, obj, None)
        if self.dynamic.concern("CREATE", target):
            await self.dynamic.validate("CREATE", target, obj, None, options)
        self.admission.check_namespace(target)
        collection = self.collection(resource)
        if collection.get(target.namespace, target.name) is not None:
            raise errors.already_exists(resource.plural, resource.group, target.name)
        if options.dry_run:
            return Record(obj, 0)
        finish = self.on_store.get(resource.key)
        return collection.put(finish(obj, None) if finish else obj, creator=options.manager)

    async def _admit_new(self, target: Target, obj: Obj, options: WriteOptions) -> Obj:
        """The object as admission leaves it; the built-in plug-ins run again when a webhook changed it."""
        target.name = obj["metadata"].get("name", "")
        self.admission.check_namespace(target)
        obj = self._settle(target.resource, obj)
        self.admission.mutate(target.resource, obj)
        if not self.dynamic.concern("CREATE", target):
            return obj
        changed = await self.dynamic.mutate("CREATE", target, obj, None, options)
        if changed is not None and changed is not obj:
            obj = self._settle(target.resource, self.read(target, changed, None, options))
            strategy.place(target, obj["metadata"])
            self.admission.mutate(target.resource, obj)
        return obj

    # --- read the body ------------------------------------------------------------------------------

    def read(self, target: Target, body: Any, old: Obj | None, options: WriteOptions) -> Obj:
        """The body as an object of the storage version, unknown fields gone.

        Raises:
            ApiFailure: (400) it is not an object of this kind, or has unknown fields and the request is
            strict.
        """
        resource, version = target.resource, target.version
        if not isinstance(body, dict):
            raise errors.bad_request(f"the object provided is not a {resource.kind}: a JSON object is needed")
        kind, api_version = body.get("kind") or resource.kind, body.get("apiVersion") or target.api_version
        if resource.custom and kind != resource.kind and api_version == target.api_version:
            name = dig(body, "metadata", "name") or ""
            cause = errors.invalid_value("kind", kind, f"must be {resource.kind}")
            raise errors.invalid(kind, resource.group, name, [cause])
        if kind != resource.kind or api_version != target.api_version:
            raise errors.bad_request(
                f"{kind} in version {api_version!r} cannot be handled as a {resource.kind} in version "
                f"{target.api_version!r}"
            )
        unknown: list[str] = []
        sent = body.get("metadata")
        try:
            metadata = decode.decode(
                schema.object_meta(), {} if sent is None else sent, None, (None, "metadata"), unknown
            )
            if resource.custom:
                node = version.node or schema.ANY
                rest = structural.prune(node, body, None, unknown)
            else:
                assert version.node is not None, "built-in kinds have a type"
                bare = {key: value for key, value in body.items() if key != "metadata"}
                rest = decode.decode(version.node, bare, old, None, unknown)
        except decode.DecodeError as error:
            raise errors.bad_request(
                f'{kind} in version "{version.name}" cannot be handled as a {kind}: {error}'
            ) from error
        self._report_unknown(unknown, kind, version.name, options)
        obj = {"kind": kind, "apiVersion": target.api_version, "metadata": metadata}
        obj.update((key, value) for key, value in rest.items() if key not in obj)
        if version.to_storage is not None:
            obj = version.to_storage(obj)
        return obj

    @staticmethod
    def _report_unknown(unknown: list[str], kind: str, version: str, options: WriteOptions) -> None:
        if not unknown or options.strictness == "Ignore":
            return
        notes = [f'unknown field "{path}"' for path in dict.fromkeys(unknown)]
        if options.strictness == "Strict":
            raise errors.bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: '
                + ", ".join(notes)
            )
        options.warnings.extend(notes)

    def _settle(self, resource: Resource, obj: Obj) -> Obj:
        """The object with its defaults; the argument may be changed."""
        if not resource.custom:
            defaults.apply(resource.group, resource.kind, obj)
            return obj
        node = resource.versions[resource.storage_version].node
        if node is None:
            return obj
        settled: Obj = structural.fill_defaults(node, obj)
        return settled

    def _validate(self, resource: Resource, obj: Obj, old: Obj | None) -> None:
        causes: list[Cause] = []
        if old is None or obj["metadata"] != old["metadata"]:
            causes += metadata_rules.metadata(resource, obj["metadata"])
        node = resource.versions[resource.storage_version].node
        if resource.custom:
            if node is not None:
                structural.validate(node, obj, None, causes)
                if not causes and node.deep_rules:
                    cel.check_rules(node, obj, old, None, causes, update=old is not None)
        elif old is None:
            causes += validation.created(resource, node, obj)
        else:
            causes += validation.updated(resource, node, obj, old)
        extra = self.on_write.get(resource.key)
        if extra is not None and not causes:
            causes += extra(obj, old)
        if causes:
            name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "")
            raise errors.invalid(resource.kind, resource.group, name, causes)

    # --- update -------------------------------------------------------------------------------------

    async def update(
        self,
        target: Target,
        change: Change,
        options: WriteOptions,
        *,
        retry: bool,
        writer: Writer | None = None,
        untracked: bool = False,
    ) -> Record:
        """Store a new state of an object.

        ``change`` may be called again when a webhook kept the request so long that the object moved on. With
        ``retry`` off that is a conflict, as is another uid: the request brings the whole object, as it was
        read. A patch that brings another uid is refused for changing it.
        """
        for _ in range(_ATTEMPTS):
            record = self.find(target)
            obj = await apart(
                max(options.size, len(record.raw)) if options.size else 0,
                self._next_state,
                target,
                record,
                change,
                options,
                writer,
                untracked=untracked,
                whole=not retry,
            )
            if self.dynamic.concern("UPDATE", target):  # also about what changes nothing
                obj = await self._admit_update(target, obj, record, options)
            if self.collection(target.resource).get(target.namespace, target.name) is not record:
                if retry:
                    continue
                break
            if obj is record.obj:
                return record
            if options.dry_run:
                return Record(obj, record.version)
            return self.store_update(target.resource, record, obj)
        raise errors.conflict(target.resource.plural, target.resource.group, target.name, errors.STALE)

    async def _admit_update(self, target: Target, obj: Obj, record: Record, options: WriteOptions) -> Obj:
        changed = await self.dynamic.mutate("UPDATE", target, obj, record.obj, options)
        if changed is not None and changed is not obj:
            obj = self._finish(target, record, self.read(target, changed, record.obj, options))
        await self.dynamic.validate("UPDATE", target, obj, record.obj, options)
        return obj

    def _next_state(
        self,
        target: Target,
        record: Record,
        change: Change,
        options: WriteOptions,
        writer: Writer | None,
        *,
        untracked: bool,
        whole: bool,
    ) -> Obj:
        old = record.obj
        form = target.version.from_storage(old) if target.version.from_storage is not None else old
        proposed = change(form)
        if proposed is form:
            return old
        new = self.read(target, proposed, old, options)
        self._check_identity(target, record, new, whole=whole)
        new = self._finish(target, record, new)
        if new is old:
            return old
        if not untracked and new["metadata"].get("managedFields") != []:
            who = writer or Writer(options.manager, "Update", target.api_version, target.subresource)
            new = track_update(target.version.node, old, new, who, self.clock.stamp())
        return new

    def _finish(self, target: Target, record: Record, new: Obj) -> Obj:
        """The new state with everything that this request may not touch taken from the old one, validated."""
        old, resource = record.obj, target.resource
        new = strategy.restrict(resource, target.subresource, new, old)
        new = self._settle(resource, new)
        self.admission.mutate_again(resource, new, old)
        if causes := metadata_rules.change(new["metadata"], old["metadata"]):
            raise errors.invalid(resource.kind, resource.group, record.name, causes)
        metadata = new["metadata"] = {**new["metadata"]}
        for key in _KEPT_METADATA:
            if key in old["metadata"]:
                metadata[key] = old["metadata"][key]
            else:
                metadata.pop(key, None)
        metadata.setdefault("name", record.name)
        if record.namespace:
            metadata["namespace"] = record.namespace
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        if "managedFields" not in metadata and "managedFields" in old["metadata"]:
            metadata["managedFields"] = old["metadata"]["managedFields"]
        if new == old:
            return old
        if target.subresource == "binding":
            return new
        if (resource.generation or resource.custom) and strategy.spec_changed(new, old):
            metadata["generation"] = old["metadata"].get("generation", 0) + 1
        self._validate(resource, new, self._comparable(target, record, new))
        return new

    def _comparable(self, target: Target, record: Record, new: Obj) -> Obj:
        """The old object, with what this request may change as it is in the new one."""
        old = record.obj
        if target.subresource != strategy.EPHEMERAL:
            return old
        if causes := pod_rules.ephemeral(new["spec"], old["spec"]):
            raise errors.invalid(target.resource.kind, target.resource.group, record.name, causes)
        return {**old, "spec": strategy.with_ephemeral(old["spec"], new["spec"])}

    def _check_identity(self, target: Target, record: Record, new: Obj, *, whole: bool) -> None:
        resource, metadata = target.resource, new["metadata"]
        name = metadata.get("name", record.name)
        if name != record.name:
            raise errors.bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({record.name})"
            )
        if metadata.get("namespace", record.namespace) != record.namespace and resource.namespaced:
            raise errors.bad_request(
                "the namespace of the object does not match the namespace on the request"
            )
        uid = metadata.get("uid")
        if whole and uid and uid != record.uid:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
            raise errors.conflict(resource.plural, resource.group, record.name, why)
        version = metadata.get("resourceVersion") or "0"
        if version == "0" and whole and not resource.unconditional:
            cause = errors.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(resource.plural, resource.group, record.name, [cause])
        if version not in ("0", str(record.version)):
            raise errors.conflict(resource.plural, resource.group, record.name, errors.STALE)

    def store_update(self, resource: Resource, record: Record, obj: Obj) -> Record:
        """Put the new state in place; an object whose last finalizer went is removed."""
        metadata = obj["metadata"]
        collection = self.collection(resource)
        if (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and not strategy.is_held(resource, obj)
        ):
            return collection.remove(record, obj)
        finish = self.on_store.get(resource.key)
        return collection.put(finish(obj, record.obj) if finish else obj)

    # --- delete -------------------------------------------------------------------------------------

    async def delete(
        self, target: Target, options: DeleteOptions, write: WriteOptions, *, admitted: bool = False
    ) -> tuple[Record, bool]:
        """Delete an object, or begin to. Returns its last state and whether it is gone.

        ``admitted``: admission is not to be asked, since it was about the request that led to this.
        """
        for _ in range(_ATTEMPTS):
            record = self.find(target)
            self._check_preconditions(target, record, options)
            if target.resource.kind == "Namespace" and target.name in _PERMANENT:
                raise errors.forbidden("namespaces", "", target.name, "this namespace may not be deleted")
            if not admitted and self.dynamic.concern("DELETE", target):
                await self.dynamic.validate("DELETE", target, None, record.obj, write)
                if self.collection(target.resource).get(target.namespace, target.name) is not record:
                    continue
            return self.begin_delete(target.resource, record, options)
        raise errors.conflict(target.resource.plural, target.resource.group, target.name, errors.STALE)

    def _check_preconditions(self, target: Target, record: Record, options: DeleteOptions) -> None:
        resource = target.resource
        if options.uid is not None and options.uid != record.uid:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record "
                f"({record.uid}). The object might have been deleted and then recreated"
            )
            raise errors.conflict(resource.kind, resource.group, record.name, why)
        if options.resource_version is not None and options.resource_version != str(record.version):
            why = (
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({record.version}). The object might have been modified"
            )
            raise errors.conflict(resource.kind, resource.group, record.name, why)

    def begin_delete(self, resource: Resource, record: Record, options: DeleteOptions) -> tuple[Record, bool]:
        """Mark the object as going, or remove it when nothing holds it.

        Returns its state and whether it is gone.
        """
        old = record.obj
        new = strategy.going(resource, old, options, self.clock)
        held = bool(new["metadata"].get("finalizers")) or strategy.is_held(resource, new)
        if options.dry_run:
            return Record(new, record.version), not held
        if not held:
            return self.collection(resource).remove(record, new), True
        if new is old:
            return record, False
        if resource.kind == "Namespace":
            new["status"] = {**old.get("status", {}), "phase": "Terminating"}
        return self.collection(resource).put(new), False
