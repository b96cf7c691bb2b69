"""The only place that changes what nodes, queues and pod groups are charged.

Every entry has an exact inverse: amounts are integers, so doing and undoing in any order leaves no trace.
A :class:`Ledger` has three parts that know nothing of each other, and enters itself only what concerns
several of them in one step:

``counts``   which tasks a pod group has, and how many of them are in which state
``charges``  what queues are charged, and what is requested of them
``holds``    what tasks hold of nodes, and what they are promised there
"""

from kai.snapshot.ledger.ledger import Ledger

__all__ = ["Ledger"]
