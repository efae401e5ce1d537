"""Markdown tables."""

from latent_domains.common.wording import table


def test_table_columns_line_up_whatever_is_in_their_cells():
    assert table(["a", "b"], [["xyz", "1"]]) == "| a   | b |\n| --- | - |\n| xyz | 1 |"
    assert table(["a|b"], [["c"]]) == "| a\\|b |\n| ---- |\n| c    |"
    assert table(["a <b>"], [["c"]]).startswith("| a \\<b> |\n")
