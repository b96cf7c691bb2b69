"""The benchmark of a very large cluster, small."""

from e2e.bench import large


def test_all_comes_out_as_it_should_and_is_a_row_of_a_table(capsys):
    assert large.main(["--nodes", "400"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    for what in ("400 nodes, 8,000 pods", "400 binds", "3,200 binds", "a gang takes four nodes back"):
        assert what in said.out


def test_what_is_wrong_is_told_and_fails(capsys, monkeypatch):
    monkeypatch.setattr(large, "NEW_GANGS", 101)  # the last has a queue that there is not
    assert large.main(["--nodes", "400"]) == 1
    assert "binds of gangs: 400 instead of 404" in capsys.readouterr().err
