"""Reviews: who am I, may I, may they, what may I."""

from typing import Any

from aiohttp import web

from kai_local.apiserver.access.authn import Authenticator
from kai_local.apiserver.access.authz import Action, Authorizer
from kai_local.apiserver.calls.bodies import answer
from kai_local.apiserver.calls.requests import Target, User
from kai_local.apiserver.errors import Obj, bad_request
from kai_local.apiserver.kinds.catalogue import dig

GROUPS = ("authentication.k8s.io", "authorization.k8s.io")


class Reviews:
    """Answers the create-only resources of the authentication and authorization groups."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def create(self, target: Target, body: Any, user: User) -> web.Response:
        """The review with its status filled in."""
        if not isinstance(body, dict):
            raise bad_request("the body of a review is the review object")
        spec = body.get("spec") or {}
        match target.resource.kind:
            case "TokenReview":
                status = self._token(spec)
            case "SelfSubjectReview":
                status = {"userInfo": user.info()}
            case "SelfSubjectRulesReview":
                status = self._rules(user, spec.get("namespace", ""))
            case "SelfSubjectAccessReview":
                status = self._access(user, spec)
            case _:
                groups = tuple(spec.get("groups") or ())
                status = self._access(User(spec.get("user", ""), groups), spec)
        metadata = {"creationTimestamp": None, **(body.get("metadata") or {})}
        review = {"kind": target.resource.kind, "apiVersion": target.api_version, "metadata": metadata}
        return answer({**review, "spec": spec, "status": status}, 201)

    def _token(self, spec: Obj) -> Obj:
        user = self._authenticator.user_of_token(spec.get("token", ""))
        if user is None:
            return {"authenticated": False, "error": "unknown token", "user": {}}
        return {"authenticated": True, "user": user.info()}

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
