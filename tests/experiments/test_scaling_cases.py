"""The queries on which the cost model is checked, and traces with the paper's rates."""

from __future__ import annotations

from pathlib import Path

import pytest

from decopa.language.text.parser import parse
from decopa.runs.preparation.measure import measure
from scripts.benchmarks.model.model_cases import all_cases, open_case
from scripts.benchmarks.paper_traces import WINDOW_US, paper_case
from scripts.experiments.as_published.published import load, paper_queries
from shuffler.source.trace import open_trace


def test_the_model_is_checked_on_at_least_twenty_queries_of_both_kinds() -> None:
    cases = all_cases()
    assert len(cases) >= 20
    assert len({case.name for case in cases}) == len(cases)
    assert sum(case.is_real for case in cases) >= 5
    assert all(parse(case.query) for case in cases)


def test_a_synthetic_case_can_be_opened() -> None:
    source = open_case(all_cases()[0], Path())
    assert source.row_count == 100_000


def test_traces_have_the_rates_and_selectivities_that_the_paper_published(shared: Path) -> None:
    for paper in paper_queries(load(shared)):
        case = paper_case(paper)
        if sum(case.rates.values()) > 10_000:
            continue  # nothing new, and large
        found = measure([case.query], open_trace(case.trace(20)))[0].statistics
        for position in case.query.positions:
            measured = found.rate(position) * case.query.window_us / WINDOW_US
            assert measured == pytest.approx(case.rates[position.type], rel=0.1, abs=0.2), (case.name, position)
        assert found.type_pairs or found.alias_pairs
        for pair in case.pairs:
            one, other = (next(p for p in case.query.positions if p.type == name) for name in (pair.first, pair.second))
            if case.rates[pair.first] * case.rates[pair.second] > 1_000:
                value = found.selectivity(one, other, connected=True)
                assert value == pytest.approx(pair.selectivity, rel=0.15), (case.name, pair)
