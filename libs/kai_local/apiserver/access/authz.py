"""Who may do what: always yes, or as the stored roles and bindings say."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from multidict import MultiMapping

from kai_local.apiserver.access.authn import service_account
from kai_local.apiserver.calls.requests import User
from kai_local.apiserver.errors import ApiFailure, Obj, qualified
from kai_local.apiserver.kinds.selectors import from_object
from kai_local.apiserver.store.storage import Store

_GROUP: Final = "rbac.authorization.k8s.io"
_MASTERS: Final = "system:masters"
#: what everybody who is known may read, as a fresh cluster's default roles say
_DISCOVERY: Final = (
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/openapi",
    "/openapi/*",
    "/version",
    "/version/",
    "/healthz",
    "/livez",
    "/readyz",
)
_SELF_REVIEWS: Final = frozenset(
    {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}
)


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody wants to do: to a resource, or to a path that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def noun(self) -> str:
        """``pods/binding``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    """Decides by RBAC, or allows everything to everyone who is known."""

    def __init__(self, store: Store, *, rbac: bool) -> None:
        self._store = store
        self._rbac = rbac

    def impersonated(self, user: User, headers: Mapping[str, str]) -> User:
        """Whom the request acts as, if it says so. Raises ApiFailure (403) when the user may not."""
        name = headers.get("Impersonate-User")
        if name is None:
            return user
        groups = tuple(headers.getall("Impersonate-Group", ())) if isinstance(headers, MultiMapping) else ()
        self.check(user, Action("impersonate", resource="users", name=name))
        for group in groups:
            self.check(user, Action("impersonate", resource="groups", name=group))
        parts = name.split(":")
        if not groups and len(parts) == 4 and name.startswith("system:serviceaccount:"):
            return service_account(parts[2], parts[3])
        return User(name, (*groups, "system:authenticated"))

    def check(self, user: User, action: Action) -> None:
        """Raises ApiFailure (401, 403) when the user may not."""
        if self.allows(user, action):
            return
        if "system:unauthenticated" in user.groups:
            raise ApiFailure(401, "Unauthorized", "Unauthorized")
        if action.path:
            raise ApiFailure(
                403, "Forbidden", f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"'
            )
        scope = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
        subject = f' "{action.name}"' if action.name else ""
        message = (
            f"{qualified(action.resource, action.group)}{subject} is forbidden: "
            f'User "{user.name}" cannot {action.verb} resource "{action.noun}" '
            f'in API group "{action.group}" {scope}'
        )
        details = {"kind": action.resource, "name": action.name, "group": action.group}
        raise ApiFailure(
            403, "Forbidden", message, details={key: value for key, value in details.items() if value}
        )

    def allows(self, user: User, action: Action) -> bool:
        """Whether the user may."""
        if _MASTERS in user.groups:
            return True
        if "system:unauthenticated" in user.groups:
            return action.path in ("/healthz", "/livez", "/readyz", "/version")
        if not self._rbac:
            return True
        if (
            action.path
            and action.verb == "get"
            and any(_path_matches(rule, action.path) for rule in _DISCOVERY)
        ):
            return True
        if action.resource in _SELF_REVIEWS and action.verb == "create":
            return True
        return any(_permits(rule, action) for rule in self.rules(user, action.namespace))

    def rules(self, user: User, namespace: str) -> Iterator[Obj]:
        """Every rule that holds for the user, cluster-wide or in the namespace."""
        for binding in self._store.collection((_GROUP, "clusterrolebindings")).records():
            if _names(binding.obj, user, ""):
                yield from self._role(binding.obj["roleRef"], "")
        if namespace:
            for binding in self._store.collection((_GROUP, "rolebindings")).records(namespace):
                if _names(binding.obj, user, namespace):
                    yield from self._role(binding.obj["roleRef"], namespace)

    def _role(self, reference: Obj, namespace: str) -> Iterator[Obj]:
        if reference["kind"] == "Role":
            record = self._store.collection((_GROUP, "roles")).get(namespace, reference["name"])
        else:
            record = self._store.collection((_GROUP, "clusterroles")).get("", reference["name"])
        if record is None:
            return
        yield from record.obj.get("rules") or ()
        selectors = (record.obj.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        for selector in map(from_object, selectors):
            for other in self._store.collection((_GROUP, "clusterroles")).records():
                if other is not record and selector.matches(other.obj["metadata"].get("labels")):
                    yield from other.obj.get("rules") or ()


def _names(binding: Obj, user: User, namespace: str) -> bool:
    for subject in binding.get("subjects") or ():
        kind, name = subject["kind"], subject["name"]
        if kind == "ServiceAccount":
            if user.name == f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}":
                return True
        elif (kind == "User" and name == user.name) or (kind == "Group" and name in user.groups):
            return True
    return False


def _permits(rule: Obj, action: Action) -> bool:
    if not _has(rule.get("verbs"), action.verb):
        return False
    if action.path:
        return any(_path_matches(pattern, action.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), action.group)
        and (
            _has(rule.get("resources"), action.noun)
            or f"*/{action.subresource}" in (rule.get("resources") or ())
        )
        and (not names or action.name in names)
    )


def _has(allowed: list[str] | None, value: str) -> bool:
    return allowed is not None and ("*" in allowed or value in allowed)


def _path_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
