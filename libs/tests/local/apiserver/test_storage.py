"""What the store keeps of objects that are gone."""

from __future__ import annotations

import gc
import tracemalloc

from kai_local.apiserver.store.storage import Collection, Store

#: Of each namespace that was, a name alone would take more than this.
FEW_BYTES = 40


def come_and_go(collection: Collection, namespaces: range) -> None:
    """Objects in so many namespaces, looked for while they are there and afterwards."""
    for number in namespaces:
        namespace = f"n{number}"
        record = collection.put({"metadata": {"name": "a", "namespace": namespace, "uid": "u"}})
        assert collection.records(namespace) == collection.records() == [record]
        collection.remove(record)
        assert collection.records(namespace) == collection.records() == []


def test_nothing_is_kept_of_namespaces_that_are_gone() -> None:
    collection = Store(window=4).collection(("", "configmaps"))
    tracemalloc.start()
    try:
        come_and_go(collection, range(50))
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        come_and_go(collection, range(50, 1050))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1000 * FEW_BYTES
