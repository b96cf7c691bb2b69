from kai.model.objects import ObjectMeta, Topology, TopologyLevel, TopologySpec
from kai.validation import topologies


def a_topology(*levels):
    """A topology from (node label, alias) pairs."""
    return Topology(
        metadata=ObjectMeta(name="fabric"),
        spec=TopologySpec(levels=[TopologyLevel(node_label=label, alias=alias) for label, alias in levels]),
    )


def test_levels_may_have_names_of_their_own_or_none():
    assert topologies.check(a_topology(("example.com/zone", "zone"), ("example.com/rack", ""))).allowed


def test_two_levels_without_an_alias_do_not_clash():
    assert topologies.check(a_topology(("a", ""), ("b", ""))).allowed


def test_one_alias_for_two_levels_is_refused():
    message = topologies.check(a_topology(("a", "x"), ("b", "x"))).message
    assert "topology fabric: spec.levels[].alias is used for more than one level: x" in message


def test_an_alias_that_is_also_a_label_is_refused():
    assert (
        "equal to a nodeLabel of this topology: b"
        in topologies.check(a_topology(("a", "b"), ("b", ""))).message
    )


def test_all_clashes_come_sorted_in_one_error():
    verdict = topologies.check(
        a_topology(("a", "z"), ("b", "y"), ("c", "z"), ("d", "y"), ("e", "b"), ("f", "a"))
    )
    assert verdict.errors == (
        (
            "topology fabric: spec.levels[].alias is used for more than one level: y, z"
            " and equal to a nodeLabel of this topology: a, b; give every level a name of its own"
        ),
    )
