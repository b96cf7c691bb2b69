"""The benchmark of simulations, small: what it measures comes out as it should."""

from e2e.bench import simulate


def test_all_who_come_in_a_week_have_run_also_where_they_have_to_wait():
    for hours in (20, 200):
        measured = simulate.week(4, 60, hours=hours)
        assert measured.wrong == ()
        assert " events, at most " in measured.what


def test_questions_to_a_full_cluster_are_answered_by_what_the_engine_does():
    loaded, quota, little, drained = simulate.what_if(250, 5000)
    assert (quota.wrong, little.wrong, drained.wrong) == ((), (), ())
    assert (quota.what, little.what) == ("20 have to go", "2 have to go")
    assert loaded.what == "4950 run"


def test_the_table_has_a_row_for_each(capsys):
    assert simulate.main(["--only", "what-if", "--nodes", "20", "--pods", "400"]) == 0
    assert capsys.readouterr().out.count("\n| ") == 4
    assert simulate.main(["--nodes", "20", "--pods", "100"]) == 0
    assert capsys.readouterr().out.count("\n| ") == 6
