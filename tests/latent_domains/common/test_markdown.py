"""Markdown tables."""

import pytest

from latent_domains.common.markdown import table


def test_columns_line_up():
    assert table(["a", "b"], [["xyz", "1"]]) == "| a   | b |\n| --- | - |\n| xyz | 1 |"


def test_a_bar_in_a_cell_ends_no_column():
    assert table(["a|b"], [["c"]]) == "| a\\|b |\n| ---- |\n| c    |"


def test_a_cell_is_no_html():
    assert table(["a <b>"], [["c"]]).startswith("| a \\<b> |\n")


def test_rows_have_the_headers_length():
    with pytest.raises(ValueError, match="zip"):
        table(["a", "b"], [["x", "y", "z"]])
