"""The benchmark of being looked at, small."""

from e2e.bench import page


def test_what_it_costs_is_a_row_of_a_table(capsys):
    page.main(["--nodes", "400", "--idle-seconds", "0.2"])  # its status judges how fast this machine is, too
    said = capsys.readouterr()
    for what in ("400 nodes, 3,200 GPUs, 8,000 pods", "first frame", "from a cycle to its change", "10 look"):
        assert what in said.out
    assert not [line for line in said.err.splitlines() if "kB, more than" in line or "MiB, more than" in line]


def test_what_is_beyond_its_limit_is_told():
    report = page.Report()
    report.row("first frame", 101, "kB", most=100)
    report.row("memory", 599, "MiB", most=600)
    assert report.wrong == ["first frame: 101.000 kB, more than 100"]
