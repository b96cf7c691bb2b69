"""What an attack costs a cycle, counted in work that does not depend on the machine."""

import random
from collections import Counter

from e2e.hostile import site
from e2e.hostile.attacks import Tenant, floods
from e2e.hostile.offline import World
from kai.engine.kernel import neighbours
from kai.engine.kernel.selections import Selection, Selections
from kai.engine.neighbourhood import attraction


def besieged(*forms, seed):
    """A world in which pods run, others wait in vain, and these attacks have come, one after the other."""
    world, tenant = World(), Tenant(random.Random(seed), site.TENANT_NAMESPACES)
    for form in (floods.a_flood, *forms):
        _, attack = tenant.draw([form])
        world.attack(attack)
        world.cycle()
    return world


def test_a_term_is_compared_with_a_pod_a_few_times_in_a_cycle_however_often_pods_are_moved(monkeypatch):
    world = besieged(*[floods.terms_about_other_pods] * 2, floods.pods_that_are_all_unlike, seed=0)
    compared: Counter[tuple[int, tuple[tuple[str, str], ...]]] = Counter()
    kept: list[object] = []

    def counted(original):
        def asked(self, namespace, labels, **more):
            kept.append(self)
            compared[id(self), tuple(labels.items())] += 1
            return original(self, namespace, labels, **more)

        return asked

    monkeypatch.setattr(Selection, "matches", counted(Selection.matches))
    monkeypatch.setattr(Selections, "about", counted(Selections.about))
    world.cycle()
    assert compared
    assert compared.most_common(1)[0][1] <= 3 * len(world.state.tasks)


def test_wishes_by_keys_that_no_node_has_are_not_weighed(monkeypatch):
    world, tenant = World(), Tenant(random.Random(5), site.TENANT_NAMESPACES)
    namespace = tenant.namespaces[0]
    wished = [
        {"weight": 100, "podAffinityTerm": {"topologyKey": key, "labelSelector": {}}}
        for key in ("kubernetes.io/hostname", *(f"k{n}.example.com/zone" for n in range(50)))
    ]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wished}}
    world.put([tenant.pod("wishes", namespace, spec={"affinity": affinity})])
    assert len(world.cycle().binds) == 1
    weighed: Counter[str] = Counter()
    original = attraction.in_domains

    def counted(handle, key, *, amounts):
        weighed[key] += 1
        return original(handle, key, amounts=amounts)

    monkeypatch.setattr(attraction, "in_domains", counted)
    world.put([tenant.pod("another", namespace)])
    assert len(world.cycle().binds) == 1
    assert set(weighed) == {"kubernetes.io/hostname"}


def test_the_counts_of_neighbours_are_those_of_the_state_after_any_moves():
    """Also of a term that was asked about between a move and its being taken back."""
    world = besieged(seed=1)
    state = world.state
    told = neighbours.Neighbours(state.nodes, {})
    tasks = [task for task in state.tasks.values() if task.node is not None][:6]
    terms = [{"labelSelector": {}}, {"labelSelector": {"matchLabels": {"no": "body"}}}]
    first = told.counts(terms[0], tasks[0]).copy()
    mark = told.mark()
    for task in tasks:
        told.moved(task, task.node, sign=-1)
    told.counts(terms[1], tasks[0])
    told.undo(mark)
    assert (told.counts(terms[0], tasks[0]) == first).all()
    assert not told.counts(terms[1], tasks[0]).any()
