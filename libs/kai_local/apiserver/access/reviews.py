"""Reviews: who am I, may I, may they, what may I."""

import json
from typing import Any, Final

from aiohttp import web

from kai_local.apiserver.access.authn import Authenticator
from kai_local.apiserver.access.authz import Action, Authorizer
from kai_local.apiserver.calls.bodies import answer, in_shape
from kai_local.apiserver.calls.requests import Target, User
from kai_local.apiserver.errors import ApiFailure, Obj, bad_request, invalid, invalid_value
from kai_local.apiserver.kinds.catalogue import dig
from kai_local.apiserver.schemas import schema

GROUPS = ("authentication.k8s.io", "authorization.k8s.io")
#: Whom our tokens are for: the API server itself.
_AUDIENCE: Final = "https://kubernetes.default.svc"


class Reviews:
    """Answers the create-only resources of the authentication and authorization groups."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def create(self, target: Target, body: Any, user: User) -> web.Response:
        """The review with its status filled in. Raises ApiFailure (400) where it cannot be read."""
        if body is None:
            raise bad_request("the body of a review is the review object")
        kind = target.resource.kind
        body = in_shape(body, schema.builtin(target.resource.group, target.version.name, kind), kind)
        spec = body.get("spec") or {}
        if kind.endswith("AccessReview"):
            _check_attributes(target, spec)
        match kind:
            case "TokenReview":
                status = self._token(spec)
            case "SelfSubjectReview":
                status = {"userInfo": user.info()}
            case "SelfSubjectRulesReview":
                status = self._rules(user, spec.get("namespace", ""))
            case "SelfSubjectAccessReview":
                status = self._access(user, spec)
            case _:
                status = self._access(_about(target, spec), spec)
        metadata = {"creationTimestamp": None, **(body.get("metadata") or {})}
        review = {"kind": kind, "apiVersion": target.api_version, "metadata": metadata}
        return answer({**review, "spec": spec, "status": status}, 201)

    def _token(self, spec: Obj) -> Obj:
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        user = self._authenticator.user_of_token(spec["token"])
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        wanted = spec.get("audiences") or [_AUDIENCE]
        if _AUDIENCE not in wanted:
            ours, theirs = json.dumps([_AUDIENCE]), json.dumps(wanted)
            meant = f"token audiences {ours} is invalid for the target audiences {theirs}"
            return {"user": {}, "error": f"[invalid bearer token, {meant}]"}
        return {"authenticated": True, "user": user.info(), "audiences": [_AUDIENCE]}

    def _access(self, user: User, spec: Obj) -> Obj:
        wanted = spec.get("resourceAttributes")
        if wanted is not None:
            action = Action(
                verb=wanted.get("verb", ""),
                group=wanted.get("group", ""),
                resource=wanted.get("resource", ""),
                subresource=wanted.get("subresource", ""),
                namespace=wanted.get("namespace", ""),
                name=wanted.get("name", ""),
            )
        else:
            verb = dig(spec, "nonResourceAttributes", "verb") or ""
            action = Action(verb=verb, path=dig(spec, "nonResourceAttributes", "path") or "")
        return {"allowed": self._authorizer.allows(user, action)}

    def _rules(self, user: User, namespace: str) -> Obj:
        if "system:masters" in user.groups:
            everything: list[Obj] = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
            return {
                "resourceRules": everything,
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            }
        rules = list(self._authorizer.rules(user, namespace))
        return {
            "resourceRules": [rule for rule in rules if "resources" in rule],
            "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
            "incomplete": False,
        }


def _about(target: Target, spec: Obj) -> User:
    """Whom it is about. Raises ApiFailure (422) if it is about nobody."""
    name, groups = spec.get("user") or "", tuple(spec.get("groups") or ())
    if not (name or groups):
        raise _invalid(target, "spec.user", name, "at least one of user or group must be specified")
    return User(name, groups)


def _check_attributes(target: Target, spec: Obj) -> None:
    """Raises ApiFailure (422) unless it is said what somebody wants to do, once."""
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        note = "cannot be specified in combination with resourceAttributes"
        raise _invalid(target, "spec.nonResourceAttributes", other, note)
    if resource is None and other is None:
        note = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _invalid(target, "spec.resourceAttributes", None, note)


def _invalid(target: Target, field: str, value: Any, note: str) -> ApiFailure:
    return invalid(target.resource.kind, GROUPS[1], "", [invalid_value(field, value, note)])
