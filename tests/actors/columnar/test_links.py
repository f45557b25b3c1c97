"""Links lead to the first event after each row."""

from __future__ import annotations

import numpy as np

from actors.columnar.links import successors


def test_links_are_what_a_search_for_each_row_finds() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        ends, begins = (np.sort(rng.integers(0, 30, rng.integers(0, 12))) for _ in range(2))
        expected = np.searchsorted(begins, ends, side="right")
        assert successors(ends, begins).tolist() == expected[expected < len(begins)].tolist()
