"""Tables of matches by the keys of the parts that found them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa


def joined(first: Mapping[str, pa.Table], second: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tables of both, by key; those of one key one below the other."""
    found = dict(first)
    for key, table in second.items():
        before = found.get(key)
        empty = before is None or not before.num_rows
        found[key] = table if empty else pa.concat_tables([before, table]).unify_dictionaries()
    return found
