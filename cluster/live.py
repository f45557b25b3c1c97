"""Live runs: matches leave while the stream goes on."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class NewMatches:
    """Matches that have become certain, a table for each part of the plan.

    No later match of part i ends before `finals_us[i]`.
    """

    tables: tuple[pa.Table, ...]
    finals_us: tuple[int, ...]
