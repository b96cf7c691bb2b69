"""The REST API of resources: one method for each verb, over reader and registry."""

from typing import Any, Final

from aiohttp import web

from kai.model import merge_patch
from kai_local.apiserver.calls import delete_options
from kai_local.apiserver.calls.apart import LARGE, apart
from kai_local.apiserver.calls.bodies import (
    answer,
    check_accepted,
    metadata_of,
    parse_json,
    parse_yaml,
    read_bytes,
    read_object,
)
from kai_local.apiserver.calls.query import flag
from kai_local.apiserver.calls.requests import DeleteOptions, Target, User, WriteOptions
from kai_local.apiserver.errors import (
    ApiFailure,
    Obj,
    bad_request,
    invalid,
    method_not_allowed,
    required,
    unsupported_media,
)
from kai_local.apiserver.kinds.selectors import Selection
from kai_local.apiserver.patches import apply, patch, strategic
from kai_local.apiserver.reading import tables
from kai_local.apiserver.reading.reads import Reader
from kai_local.apiserver.rules.strategy import EPHEMERAL
from kai_local.apiserver.serving import subresources
from kai_local.apiserver.store.storage import Record
from kai_local.apiserver.writing.registry import Change, Registry

#: Subresources that are read and written as the object, of which they change a part.
_PARTS: Final = ("status", EPHEMERAL)
_PATCH_TYPES: Final = (
    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, "
    "application/apply-patch+yaml"
)
_STRICTNESS: Final = ("Ignore", "Warn", "Strict")


class Rest:
    """Answers requests about resources once user and rights are known."""

    def __init__(self, reader: Reader, registry: Registry, parts: subresources.Subresources) -> None:
        self._reader = reader
        self._registry = registry
        self._subresources = parts

    async def answer(
        self, http: web.BaseRequest, target: Target, verb: str, user: User
    ) -> web.StreamResponse:
        """Answer one request. Raises ApiFailure."""
        check_accepted(http.headers.get("Accept", ""))
        if target.subresource and target.subresource not in _PARTS:
            return await self._subresources.answer(http, target, verb, self._options(http, user))
        if verb not in target.resource.verbs:
            raise method_not_allowed(verb, target.resource.plural, target.resource.group)
        match verb:
            case "get":
                return self._reader.get(http, target, self._registry.find(target))
            case "list" | "watch":
                return await self._reader.list_or_watch(http, target)
            case "create":
                return await self._create(http, target, self._options(http, user))
            case "update":
                return await self._update(http, target, self._options(http, user))
            case "patch":
                return await self._patch(http, target, self._options(http, user))
            case "delete":
                return await self._delete(http, target, self._options(http, user))
            case _:
                return await self._delete_collection(http, target, self._options(http, user))

    def _options(self, http: web.BaseRequest, user: User) -> WriteOptions:
        query = http.query
        dry_run = query.getall("dryRun", [])
        if dry_run not in ([], ["All"], [""]):
            raise ApiFailure(
                422, "Invalid", f'dryRun: Unsupported value: "{dry_run[0]}": supported values: "All"'
            )
        strictness = query.get("fieldValidation") or "Warn"
        if strictness not in _STRICTNESS:
            allowed = '"Ignore", "Strict", "Warn"'
            raise bad_request(
                f'fieldValidation: Unsupported value: "{strictness}": supported values: {allowed}'
            )
        manager = (
            query.get("fieldManager") or http.headers.get("User-Agent", "unknown").partition("/")[0][:128]
        )
        size = http.content_length if http.content_length is not None else LARGE if http.body_exists else 0
        return WriteOptions(user, dry_run == ["All"], manager, strictness, flag(http.query, "force"), size)

    def _written(
        self, http: web.BaseRequest, target: Target, record: Record, options: WriteOptions, status: int = 200
    ) -> web.Response:
        warnings = options.warnings
        if target.version.deprecation:
            warnings = [target.version.deprecation, *warnings]
        view = tables.view_of(http, target, self._registry.clock)
        if view is not None:
            return answer(view.document([record], {"resourceVersion": str(record.version)}), status, warnings)
        return answer(record.form(tables.conversion(http, target)), status, warnings)

    async def _create(self, http: web.BaseRequest, target: Target, options: WriteOptions) -> web.Response:
        if target.name:
            raise method_not_allowed("create", target.resource.plural, target.resource.group)
        body = await read_object(http)
        if target.resource.namespaced and not target.namespace:
            raise bad_request("an empty namespace may not be set during creation")
        if target.resource.kind == "Binding":
            return await self._subresources.bind(body, target, options)
        record = await self._registry.create(target, body, options)
        return self._written(http, target, record, options, 201)

    async def _update(self, http: web.BaseRequest, target: Target, options: WriteOptions) -> web.Response:
        body = await read_object(http)
        if not isinstance(body, dict):
            raise bad_request("the body of an update is the object")
        if not metadata_of(body).get("name"):
            raise bad_request(
                "name must be provided: the name of the object does not match the name on the URL"
            )
        record = await self._registry.update(target, lambda _old: body, options, retry=False)
        return self._written(http, target, record, options)

    async def _patch(self, http: web.BaseRequest, target: Target, options: WriteOptions) -> web.Response:
        data = await read_bytes(http)
        media_type = http.content_type
        if media_type == "application/apply-patch+yaml":
            return await self._apply(http, target, await apart(len(data), parse_yaml, data), options)
        change = patch_of(media_type, target, parse_json(data))
        record = await self._registry.update(target, change, options, retry=True)
        return self._written(http, target, record, options)

    async def _apply(
        self, http: web.BaseRequest, target: Target, config: Any, options: WriteOptions
    ) -> web.Response:
        if not http.query.get("fieldManager"):
            cause = required("fieldManager", "is required for apply patch")
            raise invalid("PatchOptions", "meta.k8s.io", "", [cause])
        wanted = await apart(options.size, self._configuration, target, config, options)
        try:
            record = self._registry.find(target)
        except ApiFailure:
            if target.subresource:
                raise
            wanted["metadata"]["name"] = target.name
            made = await self._registry.create(target, wanted, options, applied=True)
            return self._written(http, target, made, options, 201)
        writer = apply.Writer(options.manager, "Apply", target.api_version, target.subresource)
        stamp, creator = self._registry.clock.stamp(), record.creator

        def change(live: Obj) -> Obj:
            merged = apply.apply(
                target.version.node, live, wanted, writer, stamp, force=options.force, creator=creator
            )
            return live if apply.unchanged_but_for_time(live, merged) else merged

        record = await self._registry.update(target, change, options, retry=True, untracked=True)
        return self._written(http, target, record, options)

    def _configuration(self, target: Target, config: Any, options: WriteOptions) -> Obj:
        """The applied object, checked, without what this request cannot own."""
        if not isinstance(config, dict) or not config.get("apiVersion") or not config.get("kind"):
            raise bad_request("an apply patch needs apiVersion and kind")
        metadata = metadata_of(config)
        if metadata.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        name = metadata.get("name") or target.name
        if name != target.name:
            raise bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            )
        wanted = self._registry.read(target, config, None, options)
        if target.version.from_storage is not None:
            wanted = target.version.from_storage(wanted)
        if target.subresource == "status":
            keep = ("kind", "apiVersion", "metadata", "status")
            return {key: value for key, value in wanted.items() if key in keep}
        if target.resource.has_status:
            wanted.pop("status", None)
        return wanted

    async def _delete(self, http: web.BaseRequest, target: Target, options: WriteOptions) -> web.Response:
        wanted = await self._delete_options(http, options)
        record, gone = await self._registry.delete(target, wanted, options)
        return self._deleted(http, target, record, options, gone)

    @staticmethod
    async def _delete_options(http: web.BaseRequest, options: WriteOptions) -> DeleteOptions:
        """How to delete; admission is told of a dry run wherever the request says so."""
        wanted = delete_options.read(await read_object(http), http.query)
        options.dry_run = wanted.dry_run
        return wanted

    def _deleted(
        self, http: web.BaseRequest, target: Target, record: Record, options: WriteOptions, gone: bool
    ) -> web.Response:
        resource = target.resource
        if not gone or resource.key == ("", "pods"):
            return self._written(http, target, record, options)
        details: Obj = {"name": record.name, "kind": resource.plural, "uid": record.uid}
        if resource.group:
            details["group"] = resource.group
        status = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details
        }  # fmt: skip
        return answer(status, warnings=options.warnings)

    async def _delete_collection(
        self, http: web.BaseRequest, target: Target, options: WriteOptions
    ) -> web.Response:
        wanted = await self._delete_options(http, options)
        resource = target.resource
        query = http.query
        selection = Selection(
            resource, target.namespace, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        records = self._registry.collection(resource).records(selection.namespace)
        deleted = []
        for record in [record for record in records if selection.matches(record)]:
            one = Target(resource, target.version, record.namespace, record.name)
            try:
                last, _ = await self._registry.delete(one, wanted, options)
            except ApiFailure as failure:
                if failure.code != 404:
                    raise
                continue
            deleted.append(last)
        convert = target.version.from_storage
        items = b",".join([record.item(convert, typed=resource.custom) for record in deleted])
        version = self._registry.store.version
        head = b'{"kind":"%sList","apiVersion":"%s","metadata":{"resourceVersion":"%d"},"items":[' % (
            resource.kind.encode(), target.api_version.encode(), version,
        )  # fmt: skip
        return answer(head + items + b"]}", warnings=options.warnings)


def patch_of(media_type: str, target: Target, body: Any) -> Change:
    """The change that a patch describes. Raises ApiFailure (415) for a type not taken."""
    if media_type == "application/json-patch+json":
        return lambda old: patch.json_patch(old, body)
    if not isinstance(body, dict):
        raise bad_request("a patch of this type is a JSON object")
    if media_type == "application/merge-patch+json":
        return lambda old: merge_patch.merged(old, body)
    if media_type == "application/strategic-merge-patch+json" and not target.resource.custom:
        return lambda old: strategic.merge(target.version.node, old, body)
    raise unsupported_media(media_type, _PATCH_TYPES)
