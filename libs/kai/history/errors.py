"""What can go wrong with a store of the past.

HistoryError
├── InvalidUrl        the address of the store cannot be one
├── StoreUnavailable  the database cannot be reached, is full, or gave up; it may answer later
└── SchemaTooNew      a newer version of us has written it
"""

from typing import Final

#: What is said of a store to those who may not know where it is, nor what it says itself.
STORE_AWAY: Final = "the store of the history does not answer; the log of insight says why"


class HistoryError(Exception):
    """Any of those below; the message tells what to do."""


class InvalidUrl(HistoryError):
    """The address of the store cannot be one."""


class StoreUnavailable(HistoryError):
    """The database does not answer now."""


class SchemaTooNew(HistoryError):
    """A newer version has written the store; this one would damage what it does not know."""
