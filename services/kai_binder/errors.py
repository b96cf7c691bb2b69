"""Why a pod is not bound.

::

    BindError
    ├── Rejected      not started: the decision is old, late, or about a pod that is gone
    └── BindFailed    tried; ``node_at_fault`` says whether another node might have done
        ├── Refused   the API server does not allow it, at least now
        └── GivenUp   the pod's namespace is being deleted
"""


class BindError(Exception):
    """Base; the message is for people."""


class Rejected(BindError):
    """Nothing was done for this decision, and nothing needs to be undone."""


class BindFailed(BindError):
    """Something that the pod needs could not be had."""

    def __init__(self, message: str, *, node_at_fault: bool = False) -> None:
        super().__init__(message)
        self.node_at_fault = node_at_fault


class Refused(BindFailed):
    """Nothing was done: we may not. It may pass: an API server that has just started knows no roles yet."""


class GivenUp(BindFailed):
    """It will never be allowed: the pod goes with its namespace. To be undone; nobody needs to hear of it."""
