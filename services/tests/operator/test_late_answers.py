"""The answer to a write may come after the watch has told that the object is gone again."""

import copy
import itertools

import pytest

from kai.kube import errors
from kai.kube.reflector import Removed, Upserted
from kai.kube.resources import CONFIG_MAPS
from kai_operator.cache import Cache
from kai_operator.kinds import ref_of
from kai_operator.watching import World
from kai_operator.writer import Writer

from .conftest import NAMESPACE, OWNER, a_config_map


class Api:
    """Keeps objects. ``before_answer`` happens between a write and its answer."""

    def __init__(self, sink):
        self.sink, self.objects, self.versions, self.before_answer = sink, {}, itertools.count(1), []

    async def create(self, resource, manifest, *, namespace):
        return self.written(manifest, uid=f"uid-{next(self.versions)}")

    async def update(self, resource, name, manifest, *, namespace, dry_run):
        if name not in self.objects:
            raise errors.NotFound(f"update {name}", status=404)
        return manifest if dry_run else self.written(manifest, uid=self.objects[name]["metadata"]["uid"])

    def written(self, manifest, *, uid):
        made = copy.deepcopy(manifest)
        made["metadata"] |= {"uid": uid, "resourceVersion": str(next(self.versions))}
        self.objects[made["metadata"]["name"]] = made
        self.sink(Upserted(made, old_known=False))
        for happens in self.before_answer:
            happens(made)
        return made

    def somebody_deletes(self, made):
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        del self.objects[name]
        self.sink(Removed(f"{NAMESPACE}/{name}", uid, made))


@pytest.fixture
def cache():
    return Cache(lambda _: None)


@pytest.fixture
def api(cache):
    return Api(cache.sink(CONFIG_MAPS))


@pytest.mark.parametrize("write", ["create", "update"])
async def test_what_is_deleted_before_the_answer_to_its_write_comes_is_made_again(api, cache, write):
    writer = Writer(api, cache)
    if write == "update":
        await writer.settle(a_config_map(level="1"), OWNER)
    api.before_answer = [api.somebody_deletes]
    await writer.settle(a_config_map(level="2"), OWNER)
    assert cache.get(ref_of(a_config_map())) is None
    api.before_answer = []
    await writer.settle(a_config_map(level="2"), OWNER)
    assert api.objects["settings"]["data"] == {"level": "2"}


async def test_what_took_its_name_meanwhile_is_known_and_not_what_was_written(api, cache):
    def is_replaced(made):
        api.somebody_deletes(made)
        api.before_answer = []
        api.written(a_config_map(level="3"), uid="uid-of-another")

    api.before_answer = [is_replaced]
    await Writer(api, cache).settle(a_config_map(level="2"), OWNER)
    assert cache.get(ref_of(a_config_map()))["metadata"]["uid"] == "uid-of-another"


@pytest.mark.parametrize("kind", ["Config", "SchedulingShard"])
def test_what_somebody_changed_before_the_answer_to_our_write_comes_is_what_counts(kind):
    """The watch tells of a change once: an answer from before it must not put back what was."""
    world = World(lambda: None)
    into = world.configs if kind == "Config" else world.shards
    watch = world.keep(into)

    def at(version, **spec):
        metadata = {"name": "one", "uid": "u", "resourceVersion": str(version)}
        return {"kind": kind, "metadata": metadata, "spec": spec}

    watch(Upserted(at(1, enabled=True), old_known=False))
    answer = at(2, enabled=True)
    watch(Upserted(at(3, enabled=False), old_known=True))
    world.take(answer)
    assert into["one"]["spec"] == {"enabled": False}
    world.take(at(4, enabled=True))
    assert into["one"]["spec"] == {"enabled": True}


def test_what_a_list_tells_counts_though_something_newer_was_known(cache):
    """As where the store of the API server was restored from a backup."""
    sink = cache.sink(CONFIG_MAPS)

    def at(version, level):
        made = a_config_map(level=level)
        made["metadata"] |= {"uid": "u", "resourceVersion": str(version)}
        return made

    sink(Upserted(at(1000, "new"), old_known=False))
    for listed, level in ((False, "new"), (True, "old")):
        sink(Upserted(at(800, "old"), old_known=True, listed=listed))
        assert cache.get(ref_of(a_config_map()))["data"] == {"level": level}
