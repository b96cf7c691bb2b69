"""What is written is there, on both databases."""

from dataclasses import replace

import pytest

from kai.history.addresses import open_database
from kai.history.errors import StoreUnavailable
from kai.history.questions import Selection, count, find
from kai.history.records import RECORDS, Cycle, Decision, QueueState, Run, Taking
from kai.history.store import ended, open_store
from libs.tests.history.builders import (
    HOUR,
    NOON,
    a_cycle,
    a_decision,
    a_queue_state,
    a_run,
    an_eviction,
)

ONE_OF_EACH = (a_run(), an_eviction(), a_cycle(), a_decision(), a_queue_state())


@pytest.fixture
def impatient(monkeypatch):
    """Who would wait for another fails instead."""
    monkeypatch.setattr("kai.history.sqlite._BUSY_SECONDS", 0.0)


def all_of(store, kind):
    return find(store.database, kind, Selection())


def test_what_is_written_is_read_as_it_was(store):
    store.add(ONE_OF_EACH)
    assert [all_of(store, kind) for kind in RECORDS] == [[each] for each in ONE_OF_EACH]


def test_what_is_written_twice_is_there_once_as_it_was_last(store):
    run = a_run()
    store.add([run])
    store.add([run, ended(run, at=NOON + HOUR, ending="Failed")])
    assert all_of(store, Run) == [replace(run, ended=NOON + HOUR, ending="Failed")]


def test_a_run_does_not_end_before_it_began():
    run = a_run(began=2)
    assert ended(run, at=NOON).ended == run.began


def test_more_records_than_one_statement_may_have_values(store):
    runs = [a_run(f"pod-{number}") for number in range(5000)]
    store.add(runs)
    assert store.size().rows["kai_runs"] == 5000


def test_text_of_others_is_kept_as_it_was_written(store):
    said = "100% of 'node'; \"x\" ? %s \\ ü 😀\nDROP TABLE kai_runs; --"
    store.add([a_decision(message=said)])
    assert all_of(store, Decision)[0].message == said


def test_records_are_written_all_or_none(store):
    broken = replace(a_cycle(2), at=None)
    with pytest.raises(StoreUnavailable):
        store.add([a_run(), a_cycle(), broken])
    assert store.size().rows == dict.fromkeys((kind.table for kind in RECORDS), 0)


def test_the_runs_that_last_are_found_again(store):
    store.add([a_run("over", ended=1), a_run("lasts")], seen=NOON + 2 * HOUR)
    assert store.open_runs() == [a_run("lasts")]
    assert store.seen() == NOON + 2 * HOUR


def test_nothing_was_seen_in_a_new_store(store):
    assert store.seen() is None
    assert store.open_runs() == []


# --- forgetting ---------------------------------------------------------------------------------
def test_what_was_over_before_is_forgotten_and_what_lasts_stays(store):
    old = [replace(each, at=NOON) for each in ONE_OF_EACH[1:]]
    new = [a_cycle(2, at=48), an_eviction("b", at=48), a_decision("b", at=48), a_queue_state(at=48)]
    runs = [a_run("over", ended=1), a_run("later", began=0, ended=48), a_run("lasts")]
    store.add([*old, *new, *runs])
    assert store.forget(before=NOON + 24 * HOUR) == 5
    assert {each.pod for each in all_of(store, Run)} == {"later", "lasts"}
    assert [all_of(store, kind) for kind in (Cycle, Taking, Decision, QueueState)] == [[each] for each in new]


def test_forgetting_nothing_is_harmless(store):
    assert store.forget(before=NOON) == 0


def test_room_of_what_is_forgotten_is_given_back(tmp_path):
    store = open_store(open_database(f"sqlite:///{tmp_path / 'history.db'}"))
    store.add([a_decision(f"pg-{number}", message="x" * 500) for number in range(20_000)])
    before = store.size().size_bytes
    store.forget(before=NOON + HOUR)
    assert store.size().size_bytes < before / 10
    assert (tmp_path / "history.db").stat().st_size < before / 10


# --- size ---------------------------------------------------------------------------------------
def test_the_size_of_a_day_is_told_by_what_there_is(store):
    assert store.size().bytes_per_day is None
    store.add([a_cycle(number, at=number) for number in range(13)])
    found = store.size()
    assert (found.oldest, found.newest) == (NOON, NOON + 12 * HOUR)
    assert found.bytes_per_day == pytest.approx(2 * found.size_bytes)
    assert found.size_bytes > 0


# --- connections --------------------------------------------------------------------------------
def test_a_connection_that_was_ended_at_the_other_side_is_made_anew(postgresql):
    url = postgresql.make("ended_connections")
    store = open_store(open_database(url))
    other = open_database(url)
    other.write(
        lambda transaction: transaction.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    )
    store.add([a_cycle()])
    assert all_of(store, Cycle) == [a_cycle()]
    store.close()
    other.close()


@pytest.mark.parametrize(
    "url",
    ["postgresql://kai:secret@127.0.0.1:9/none?sslmode=disable", "sqlite:////nonexistent/folder/history.db"],
)
def test_a_database_that_is_not_there_is_told_without_its_password(url):
    with pytest.raises(StoreUnavailable) as told:
        open_store(open_database(url))
    assert "history in " in str(told.value)
    assert "secret" not in str(told.value)


def test_who_only_reads_does_not_wait_for_who_writes(tmp_path, impatient):
    url = f"sqlite:///{tmp_path / 'history.db'}"
    writing, reading = open_database(url), open_database(url)
    store = open_store(writing)
    store.add([a_run("before")])

    def read_meanwhile(transaction):
        transaction.rows("DELETE FROM kai_runs")
        return count(reading, Run, Selection())

    assert writing.write(read_meanwhile) == 1


def test_a_write_that_failed_keeps_nobody_waiting_while_its_error_is_held(tmp_path, impatient):
    store = open_store(open_database(f"sqlite:///{tmp_path / 'history.db'}"))
    with pytest.raises(StoreUnavailable) as held:
        store.add([a_run("before"), replace(a_cycle(), at=None)])
    store.add([a_run("after")])
    assert held.tb
    assert count(store.database, Run, Selection()) == 1


def test_others_may_not_read_the_file(tmp_path):
    open_store(open_database(f"sqlite:///{tmp_path / 'history.db'}"))
    assert (tmp_path / "history.db").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_not_there_is_told_in_words(tmp_path):
    with pytest.raises(StoreUnavailable, match=r"later/history\.db: No such file or directory"):
        open_store(open_database(f"sqlite:///{tmp_path}/later/history.db"))


def test_a_file_that_was_taken_away_is_not_written_to_and_another_is_made(tmp_path):
    path = tmp_path / "history.db"
    store = open_store(open_database(f"sqlite:///{path}"))
    store.add([a_cycle()])
    for each in tmp_path.iterdir():
        each.unlink()
    with pytest.raises(StoreUnavailable):
        store.add([a_run()])
    store.prepare()
    store.add([a_run()])
    assert all_of(open_store(open_database(f"sqlite:///{path}")), Run) == [a_run()]
