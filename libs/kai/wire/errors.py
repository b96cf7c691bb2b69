"""What can go wrong between two processes.

::

    WireError
    ├── MalformedMessage    a column has the wrong length, a chunk is missing: a bug or a foreign peer
    ├── MessageTooLarge     one item alone takes more than a message may have: nobody can be told of it
    └── PeerUnavailable     no leader, no connection, deadline passed: try again later
"""


class WireError(Exception):
    """Base of all errors of this package."""


class MalformedMessage(WireError):
    """A message does not say what its own row count promises; names message, field and both lengths."""


class MessageTooLarge(WireError):
    """An item takes more than a message may have; gRPC would end the whole stream over it."""


class PeerUnavailable(WireError):
    """The other process cannot be reached now."""
