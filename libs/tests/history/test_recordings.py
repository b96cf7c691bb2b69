"""Recorded cycles are found again from the base before them, and go stretch by stretch."""

import pytest

from kai.history import recordings
from kai.history.recordings import Entry, Wanted
from libs.tests.history.builders import NOON

pytestmark = pytest.mark.integration


def an_entry(number, *, base=False, version=None, at=None, epoch=7, shard="default", size=10):
    return Entry(
        shard=shard,
        epoch=epoch,
        number=number,
        version=number if version is None else version,
        at=NOON + (number if at is None else at),
        base=base,
        data=f"{number}".encode() * size,
    )


def two_stretches():
    """Bases after cycles 10 and 20; cycles 11 to 24."""
    return [
        an_entry(10, base=True),
        *map(an_entry, range(11, 21)),
        an_entry(20, base=True),
        *map(an_entry, range(21, 25)),
    ]


def found(store, **wanted):
    said = {"shard": "default", **wanted}
    return [(each.number, each.base) for each in recordings.find(store.database, Wanted(**said))]


def test_an_entry_is_found_as_it_was_kept(store):
    entries = [an_entry(1, base=True, size=100_000), an_entry(2)]
    recordings.add(store.database, entries)
    recordings.add(store.database, entries)
    assert list(recordings.find(store.database, Wanted(shard="default"))) == entries


def test_one_cycle_comes_with_the_base_before_it_and_what_is_between(store):
    recordings.add(store.database, two_stretches())
    assert found(store, version=13) == [(10, True), (11, False), (12, False), (13, False)]
    assert found(store, version=22) == [(20, True), (21, False), (22, False)]
    assert found(store, version=20)[0] == (10, True)


def test_of_cycles_with_the_same_session_the_first_published_it(store):
    recordings.add(store.database, [an_entry(1, base=True), *(an_entry(n, version=5) for n in (2, 3, 4))])
    assert found(store, version=5) == [(1, True), (2, False)]


def test_the_last_term_counts_unless_one_is_named(store):
    for epoch in (7, 8):
        recordings.add(store.database, [an_entry(1, base=True, epoch=epoch), an_entry(2, epoch=epoch)])
    wanted = [Wanted(shard="default", version=2, epoch=epoch) for epoch in (0, 7)]
    assert [{each.epoch for each in recordings.find(store.database, one)} for one in wanted] == [{8}, {7}]


def before_and_after_a_restoration():
    """A term from before the API server's store was restored, and one after it, with a lesser epoch."""
    return [
        *(an_entry(number, base=number == 1, epoch=9_000_000) for number in (1, 2, 3)),
        *(an_entry(number, base=number == 1, epoch=5_000_000, at=100 + number) for number in (1, 2, 3)),
    ]


def test_the_last_term_is_the_last_in_time_though_epochs_went_back(store):
    recordings.add(store.database, before_and_after_a_restoration())
    one = recordings.find(store.database, Wanted(shard="default", version=2))
    assert {each.epoch for each in one} == {5_000_000}
    everything = recordings.find(store.database, Wanted(shard="default"))
    assert [each.epoch for each in everything] == [9_000_000] * 3 + [5_000_000] * 3


def test_the_last_stretch_in_time_stays_though_epochs_went_back(store):
    recordings.add(store.database, before_and_after_a_restoration())
    assert recordings.forget(store.database, before=NOON + 1e6, most_bytes=0) == 3
    assert {each.epoch for each in recordings.find(store.database, Wanted(shard="default"))} == {5_000_000}


def test_all_of_a_time_begins_with_the_base_before_it_whatever_their_number(store):
    many = [an_entry(1, base=True), *map(an_entry, range(2, 203))]
    recordings.add(store.database, many)
    assert found(store, since=NOON + 150, until=NOON + 180) == [
        (1, True),
        *((number, False) for number in range(2, 180)),
    ]


def test_a_base_that_nothing_has_followed_yet_is_found_alone(store):
    recordings.add(store.database, [an_entry(1, base=True)])
    assert found(store) == [(1, True)]


def test_what_is_not_kept_is_not_found(store):
    recordings.add(store.database, two_stretches())
    assert found(store, version=99) == []
    assert found(store, version=13, epoch=6) == []
    assert found(store, shard="other") == []
    assert found(store, since=NOON + 1000) == []


def test_whole_stretches_go_when_their_last_cycle_is_too_old(store):
    recordings.add(store.database, two_stretches())
    assert recordings.forget(store.database, before=NOON + 20, most_bytes=1 << 30) == 0
    assert recordings.forget(store.database, before=NOON + 21, most_bytes=1 << 30) == 11
    assert found(store) == [(20, True), *((number, False) for number in range(21, 25))]


def test_the_oldest_stretches_go_where_there_is_too_much_but_each_shard_keeps_its_last(store):
    recordings.add(store.database, two_stretches())
    recordings.add(store.database, [an_entry(1, base=True, shard="gold"), an_entry(2, shard="gold")])
    kept = recordings.size(store.database)
    assert recordings.forget(store.database, before=NOON, most_bytes=kept) == 0
    assert recordings.forget(store.database, before=NOON, most_bytes=kept - 1) == 11
    assert recordings.forget(store.database, before=NOON + 1e6, most_bytes=0) == 0
    assert found(store, shard="gold") == [(1, True), (2, False)]
    assert 0 < recordings.size(store.database) < kept


def test_everything_goes_where_nothing_is_to_be_kept(store):
    recordings.add(store.database, two_stretches())
    recordings.clear(store.database)
    assert (found(store), recordings.size(store.database)) == ([], 0)
