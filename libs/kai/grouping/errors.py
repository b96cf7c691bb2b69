"""What can go wrong when pods are grouped.

::

    GroupingError
    ├── InvalidWorkload        a field of a user's object does not say what its kind's rule needs
    ├── LookupFailed           an object that the rule needs could not be read
    │   ├── ObjectNotFound     it does not exist
    │   ├── ReadForbidden      the pod-grouper's role does not cover its kind
    │   ├── UnknownKind        the API server does not serve its kind
    │   └── OwnerReplaced      another object has its name now
    ├── AmbiguousOwner         an owner has several owners itself
    └── RefusedPodGroup        the API would not accept the pod group that the rule gives

All of them become a Warning event on the pod, and are tried again with backoff; but a pod that has its group
already is not told that its owner is gone.
"""


class GroupingError(Exception):
    """Base of everything that keeps a pod from being grouped."""


class InvalidWorkload(GroupingError):
    """Names the object, the field and what would be right."""


class LookupFailed(GroupingError):
    """An object that the rule needs could not be read."""


class ObjectNotFound(LookupFailed):
    """The object does not exist."""


class ReadForbidden(LookupFailed):
    """The object may not be read."""


class UnknownKind(LookupFailed):
    """The API server does not know the kind."""


class OwnerReplaced(LookupFailed):
    """The owner was deleted and an object of the same name created."""


class AmbiguousOwner(GroupingError):
    """An owner has more than one owner, or the owners form a circle."""


class RefusedPodGroup(GroupingError):
    """The pod group breaks a rule of its own API."""
