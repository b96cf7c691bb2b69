"""Rules of Topology objects that their schema cannot state: names of levels are unambiguous."""

from collections import Counter

from kai.model.objects import Topology
from kai.validation.verdict import Verdict


def check(topology: Topology) -> Verdict:
    """Refuses an alias that names two levels, or that is also the node label of a level."""
    labels = {level.node_label for level in topology.spec.levels}
    aliases = Counter(level.alias for level in topology.spec.levels if level.alias)
    repeated = sorted(alias for alias, uses in aliases.items() if uses > 1)
    clashing = sorted(aliases.keys() & labels)
    problems = []
    if repeated:
        problems.append(f"used for more than one level: {', '.join(repeated)}")
    if clashing:
        problems.append(f"equal to a nodeLabel of this topology: {', '.join(clashing)}")
    if not problems:
        return Verdict()
    where = f"topology {topology.metadata.name}: spec.levels[].alias is "
    return Verdict((where + " and ".join(problems) + "; give every level a name of its own",))
