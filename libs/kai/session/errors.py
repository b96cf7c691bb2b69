"""What can go wrong with the session cache.

::

    SessionCacheError
    ├── CacheUnavailable    no server, no answer, or it refuses (out of memory): go on without
    ├── Fenced              a newer leader has published: we must not any more
    └── RedisServerMissing  no redis-server program to be found on this machine
"""


class SessionCacheError(Exception):
    """Base of all errors of this package."""


class CacheUnavailable(SessionCacheError):
    """Redis cannot be used now; the caller goes on without it."""


class Fenced(SessionCacheError):
    """Somebody with a greater epoch has published; names both epochs."""


class RedisServerMissing(SessionCacheError):
    """There is no redis-server program; the message says how to get one."""
