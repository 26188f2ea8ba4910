"""The tables of clades and of branches."""

from phloem.report.clades import branch_table, clade_table
from support.made_up_report import made_up_contents


def test_clades_are_all_those_that_are_probable_enough_and_the_others_are_counted():
    contents = made_up_contents(12)
    table = clade_table(contents)
    frequency = contents.splits.frequency[12:]
    assert [row.probability for row in table.rows] == frequency[frequency >= 0.01].tolist()
    assert table.left_out == (frequency < 0.01).sum()
    assert all(row.is_in_consensus == (row.probability > 0.5) for row in table.rows)
    assert all(2 <= row.size <= 6 for row in table.rows)


def test_branches_of_the_consensus_come_longest_first_within_their_intervals():
    contents = made_up_contents(12)
    table = branch_table(contents)
    means = [float(row.mean_text) for row in table.rows]
    assert means == sorted(means, reverse=True)
    assert len(means) == len(contents.consensus.tree.parent) - 1
    for row in table.rows:
        lower, mean, width = (float(part[:-1]) for part in (row.lower, row.mean, row.width))
        assert 0 <= lower <= mean <= lower + width + 0.02 <= 100
        assert bool(row.support) != row.is_tip
