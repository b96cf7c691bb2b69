"""The plugins by the names of the configuration; none knows another.

The other names of :mod:`kai.engine.config.plugin_table` are switches of what the engine itself does for all
nodes, queues or jobs at once.
"""

from collections.abc import Mapping
from typing import Final

from kai.engine.framework.protocols import Opener
from kai.engine.plugins import dynamicresources, minruntime, numa, predicates, topology

OPENERS: Final[Mapping[str, Opener]] = {
    "predicates": predicates.opened,
    "dynamicresources": dynamicresources.opened,
    "topology": topology.opened,
    "numa": numa.opened,
    "minruntime": minruntime.opened,
}
