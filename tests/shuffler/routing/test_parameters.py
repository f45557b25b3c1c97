"""Which rows views with different constants want: by search, and by comparing every row with every constant."""

from __future__ import annotations

import numpy as np
import pytest

from shuffler.routing.parameter_loops import count_wanted, wanted_rows
from shuffler.routing.parameters import _HOLDS, ViewTable
from shuffler.rows.batch import Array, Batch


class _Reader:
    """A view whose figures are the columns of a batch."""

    def __init__(self, comparisons: tuple[str, ...], constants: tuple[float, ...], *, counting: bool) -> None:
        self.comparisons, self.constants, self.counting = comparisons, constants, counting

    def eligible(self, batch: Batch) -> Batch:
        return batch

    def figures(self, batch: Batch) -> list[Array]:
        return list(batch.columns.values())

    def laid_out(self, batch: Batch, rows: Array | None = None) -> Batch:
        assert rows is not None
        return Batch(len(rows), {"row": rows}, {})


@pytest.mark.parametrize("comparisons", [("<",), (">=", "="), ("<=", ">", "<"), ("=", "<", ">=", "<=")])
@pytest.mark.parametrize("counting", [False, True])
def test_views_get_the_rows_that_their_constants_let_through(comparisons: tuple[str, ...], counting: bool) -> None:
    rng = np.random.default_rng(0)
    columns = {str(place): rng.integers(0, 8, 300).astype(float) for place in range(len(comparisons))}
    columns["0"][rng.random(300) < 0.1] = np.nan
    views = [tuple(rng.integers(-1, 9, len(comparisons)).astype(float)) for _ in range(40)]
    table = ViewTable([_Reader(comparisons, one, counting=counting) for one in views])  # type: ignore[arg-type, misc]
    found = dict(table.read(Batch(300, columns, {})))
    for place, constants in enumerate(views):
        masks = [_HOLDS[op](columns[str(n)], constants[n]) for n, op in enumerate(comparisons)]
        wanted = np.flatnonzero(np.logical_and.reduce(masks))
        assert (found[place].length if place in found else 0) == len(wanted)
        if len(wanted) and not counting:
            assert np.array_equal(found[place].columns["row"], wanted)


def test_the_compiled_loops_are_what_is_tested() -> None:
    assert hasattr(count_wanted, "py_func") and hasattr(wanted_rows, "py_func")
