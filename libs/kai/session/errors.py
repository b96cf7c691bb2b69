"""What can go wrong with the session cache.

::

    SessionCacheError
    ├── CacheUnavailable    no server, no answer, or it refuses (out of memory): go on without
    ├── Fenced              a newer leader has published: we must not any more
    ├── CannotServe         a Redis of our own cannot start, or has ended
    └── RedisServerMissing  no redis-server program to be found on this machine
"""


class SessionCacheError(Exception):
    """Base of all errors of this package."""


class CacheUnavailable(SessionCacheError):
    """Redis cannot be used now; the caller goes on without it."""


class Fenced(SessionCacheError):
    """Somebody with a greater epoch has published; names both epochs."""


class CannotServe(SessionCacheError):
    """A Redis of our own cannot be run as it was asked for; says what is in the way."""


class RedisServerMissing(SessionCacheError):
    """There is no redis-server program; the message says how to get one."""
