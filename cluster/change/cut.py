"""The cut between two plans: which matches the old one reports and which the new one.

Both plans have worked on the same events up to the cut and have the same watermark there. Almost every query is
reported by all plans at the same watermark: what the old plan has found by the cut is reported, and what the new plan
has found repeats it. Where plans differ in when they are certain of a match (`uncertain_windows`), its end decides.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from decopa.planning.history import uncertain_windows
from decopa.planning.plan import Plan
from decopa.query.query import Query
from shuffler.routing.table import END_OF_STREAM
from shuffler.rows.columns import Ints, Place, timestamps_us


def ends_us(table: pa.Table) -> Ints:
    """The ends of matches, in microseconds."""
    chunks = [timestamps_us(chunk, "end_ts", Place("matches")) for chunk in table.column("end_ts").chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, dtype=np.int64)


def ending_in(table: pa.Table, from_us: int | None, until_us: int | None) -> pa.Table:
    """The matches that end at `from_us` or later and before `until_us`; None is no bound."""
    if not table.num_rows or (from_us is None and until_us is None):
        return table
    ends = ends_us(table)
    wanted = np.ones(len(ends), dtype=np.bool_)
    if from_us is not None:
        wanted &= ends >= from_us
    if until_us is not None:
        wanted &= ends < until_us
    return table if bool(wanted.all()) else table.filter(pa.array(wanted))


def reported(plan: Plan) -> dict[str, Query]:
    """The OR-free queries that a plan reports, by the keys of their parts."""
    return {plan.keys[place]: plan.parts[place].query for place in plan.reported}


def matches_at_cut(
    old: Mapping[str, pa.Table], new: Mapping[str, pa.Table], queries: Mapping[str, Query], watermark_us: int
) -> dict[str, pa.Table]:
    """The matches to report at the cut, by part: what both plans have found by then goes in, each match once.

    `old` are the matches of the old plan that have not been reported, `new` all those of the new plan. A part that
    only one of the plans has is reported by that plan alone.
    """
    found = {}
    for key in dict.fromkeys((*old, *new)):
        if key not in old or key not in new:
            found[key] = old[key] if key in old else new[key]
            continue
        final_us = final_at(queries[key], watermark_us)
        if final_us is None:
            found[key] = old[key]
        else:
            sides = [ending_in(old[key], None, final_us), ending_in(new[key], final_us, None)]
            found[key] = pa.concat_tables(sides).unify_dictionaries()
    return found


def final_at(query: Query, watermark_us: int) -> int | None:
    """Matches that end before this are out under every plan; None if that is so for all that one plan has found."""
    windows = uncertain_windows(query)
    return watermark_us - windows * query.window_us if windows and watermark_us != END_OF_STREAM else None


def held_from(queries: Mapping[str, Query], watermark_us: int) -> dict[str, int]:
    """Of the parts of which plans become certain at different moments: matches that end here or later are held back."""
    finals = {key: final_at(query, watermark_us) for key, query in queries.items()}
    return {key: final_us for key, final_us in finals.items() if final_us is not None}


def released(
    found: Mapping[str, pa.Table], queries: Mapping[str, Query], watermark_us: int
) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
    """The matches that can be handed out, and those that are held back until every plan would be certain of them."""
    out, held = dict(found), {}
    for key, final_us in held_from(queries, watermark_us).items():
        if key in found and found[key].num_rows:
            out[key], held[key] = ending_in(found[key], None, final_us), ending_in(found[key], final_us, None)
    return out, held
