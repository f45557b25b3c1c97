"""Tables for the eye: one renderer for the terminal and for Markdown."""

from __future__ import annotations

import pyarrow as pa

from decopa.report.table import markdown_table, preview, text_table

MATCHES = pa.table(
    {
        "query": pa.array(["q", "q"]).dictionary_encode(),
        "a": [1, 20],
        "b": pa.array([[2, 3], [4]], pa.list_(pa.int64())),
        "x": [0.5, None],
        "s": ["u,v", None],
    }
)
HEADER, ROWS = ("name", "n"), [("a", "1"), ("語", "1,000")]


def test_words_are_aligned_left_and_numbers_right() -> None:
    assert text_table(HEADER, ROWS) == "name      n\na         1\n語    1,000"


def test_markdown_says_which_columns_are_numbers() -> None:
    assert markdown_table(HEADER, ROWS) == "| name | n |\n| --- | ---: |\n| a | 1 |\n| 語 | 1,000 |"


def test_a_preview_shows_the_first_rows_in_aligned_columns() -> None:
    assert preview(MATCHES, 1) == (
        "query  a  b      x  s\n"
        "q      1  2,3  0.5  u,v"
    )  # fmt: skip


def test_a_preview_of_a_long_table_is_cut() -> None:
    table = pa.concat_tables([MATCHES] * 5)
    assert len(preview(table, 3).splitlines()) == 4
    assert len(preview(table, 100).splitlines()) == 11
