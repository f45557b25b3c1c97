"""Columns of matches: what lies together is not copied, and stays what it is."""

from __future__ import annotations

import numpy as np

from actors.columnar.output import Pieces
from actors.sinks.match_columns import Run, Values


def run_in(room: Pieces, kind: type, values: list[float]) -> Run:
    column = room.column(len(values), np.dtype(kind))
    column[:] = values
    return Run(column, column, {"x": Values(column)})


def test_columns_that_share_a_piece_keep_their_kind_when_they_are_joined() -> None:
    room = Pieces()
    whole = Run.joined([run_in(room, np.float64, [0.5, 1.5]), run_in(room, np.float64, [2.5])])
    assert whole.values["x"].flat.dtype == np.float64
    assert whole.values["x"].flat.tolist() == [0.5, 1.5, 2.5]


def test_whole_numbers_that_lie_together_are_not_copied() -> None:
    room = Pieces()
    first = run_in(room, np.int64, [1, 2])
    whole = Run.joined([first, run_in(room, np.int64, [3])])
    assert whole.end.tolist() == [1, 2, 3]
    assert np.shares_memory(whole.end, first.end)
