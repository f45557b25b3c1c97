"""Whatever strategy planned it: the same matches."""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st

import decopa
from actors.columnar.jit import interpreted
from costmodel.capacity import Capacity
from costmodel.statistics import Statistics
from decopa.choices import COST_BASED
from decopa.planning.planner import plan_workload
from decopa.planning.strategies.exhaustive import MAX_POSITIONS
from tests.property.test_matches import ATTRIBUTES
from tests.support.brute_force import brute_force, canonical
from tests.support.engine import matches_of, table_of
from tests.support.examples import examples
from tests.support.strategies import queries, streams


@settings(max_examples=examples(60))
@given(st.data())
def test_plans_of_every_strategy_find_exactly_the_matches(data: st.DataObject) -> None:
    query = data.draw(queries(max_positions=4))
    events = data.draw(streams(query))
    rates = {name: data.draw(st.floats(1, 100)) for name in query.event_types}
    statistics = Statistics(query.window_us, rates, default_selectivity=data.draw(st.floats(0.01, 1)))
    units = data.draw(st.integers(1, 9))
    batch_size = data.draw(st.sampled_from((1, 3, None)))
    expected = list(map(canonical, brute_force(query, events)))
    most = max(len(branch.aliases) for branch in query.branches)  # NOT of an OR is a NOT of each alternative
    for strategy in COST_BASED:
        if strategy == "exhaustive" and most > MAX_POSITIONS:
            continue
        result = plan_workload([query], statistics, Capacity(1000, 10_000), units=units, strategy=strategy)
        note(f"{strategy}\n{result.plan.to_json()}")
        with interpreted():
            found = decopa.run(
                query,
                table_of(events, ATTRIBUTES),
                planning=decopa.Planning(plan=result.plan),
                trace=decopa.TraceOptions(batch_size=batch_size),
            )
        assert sorted(map(canonical, matches_of(query, found))) == expected, strategy
