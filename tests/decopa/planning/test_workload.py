"""Plans of several queries: what they share, and how cheap that is."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from costmodel.capacity import Capacity
from costmodel.statistics import PairSelectivity, Statistics
from decopa.choices import WORKLOAD_STRATEGIES
from decopa.errors import PlanError
from decopa.language.text.parser import parse_workload
from decopa.planning.plan import Plan, PlanOperator, QueryPlan, View
from decopa.planning.planner import plan_workload
from decopa.planning.price import plan_units, price_plan, workload_log_scaling
from decopa.planning.subquery import SubQuery
from decopa.planning.validate import check_structure, plan_violations
from decopa.planning.workload.packing import packed, runs
from decopa.planning.workload.statistics import part_statistics
from decopa.planning.workload.trees import response
from decopa.planning.workload.trees.instance_problem import InstanceProblem, avoidable_cost, exhaustive_trees
from decopa.planning.workload.trees.mcep import TypePattern
from decopa.planning.workload.trees.response import Budget, best_responses
from decopa.planning.workload.trees.search import V4, LocalSearch
from decopa.query.conditions.predicate import Compare, Literal
from decopa.query.pattern import And
from decopa.query.query import Query
from decopa.runs.preparation.planning import choose_plan
from decopa.runs.spec import Planning
from decopa.traces.rule_sets import RuleSet, families, independent

CAPACITY = Capacity.per_second(2e6, 1e8)
TWO = """
QUERY q1 PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.y < c.y WITHIN 10 s
QUERY q2 PATTERN SEQ(A u, B v, D w) WHERE v.x > u.x AND u.k = w.k WITHIN 10 s
"""
STATISTICS = Statistics(10_000_000, {"A": 50.0, "B": 50.0, "C": 20000.0, "D": 20000.0}, default_selectivity=0.001)


def shared_plan(units: int = 2) -> Plan:
    return plan_workload(parse_workload(TWO), STATISTICS, CAPACITY, units=units, strategy="shared").plan


def test_queries_that_have_a_sub_query_in_common_share_it() -> None:
    plan = shared_plan()
    (fragment,) = [part for part in plan.parts if part.fragment]
    assert str(fragment.query.pattern) == "SEQ(A p0, B p1)"
    assert set(map(str, fragment.query.returns)) == {"p1.y", "p0.k"}
    assert [len(part.views) for part in plan.parts if not part.fragment] == [1, 1]
    assert plan.keys[0].startswith("f-") and plan.keys[1:] == ("q1", "q2")


def test_a_plan_that_shares_survives_json() -> None:
    plan = shared_plan()
    assert json.loads(plan.to_json())["version"] == 2
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("strategy", [*WORKLOAD_STRATEGIES, "decopa-paper"])
def test_many_queries_take_as_many_units_as_there_are(strategy: str) -> None:
    rules = families(25, 20, 5, 3, 1, seed=3)
    result = plan_workload(rules.queries, rules.statistics, CAPACITY, units=4, strategy=strategy, seconds=0.2)
    assert plan_units(result.plan) == 4
    assert result.plan.queries == rules.queries


def test_as_printed_order_and_windows_do_not_prevent_sharing() -> None:
    """DecoPa 6.3: queries are read as AND in the longest window; what one query alone uses is turned back."""
    workload = parse_workload(
        "QUERY q1 PATTERN SEQ(A a, B b, C c) WHERE a.x = b.x WITHIN 10 s\n"
        "QUERY q2 PATTERN SEQ(B u, A v, D w) WHERE u.x = v.x WITHIN 4 s"
    )
    known = Statistics(10_000_000, {"A": 5, "B": 5, "C": 50, "D": 50}, (PairSelectivity("A", "B", 0.01),))
    plan = plan_workload(workload, [known, known.rescaled(4_000_000)], CAPACITY, units=1, strategy="decopa-paper").plan
    (fragment,) = (part for part in plan.parts if part.fragment)
    assert isinstance(fragment.query.pattern, And) and fragment.query.window_us == 10_000_000
    assert [part.query for part in plan.parts if not part.fragment] == list(workload)
    assert all(len(part.views) == 1 for part in plan.parts if not part.fragment)


def test_the_same_seed_makes_the_same_plan() -> None:
    rules = families(20, 12, 3, 3, 1, seed=1)
    one, other = (
        plan_workload(rules.queries, rules.statistics, CAPACITY, units=3, strategy="shared").plan for _ in range(2)
    )
    assert one == other


def test_sharing_and_reordering_together_do_less_work_than_either() -> None:
    rules = families(25, 20, 4, 3, 1, seed=2)
    costs = {}
    for strategy in ("shared", "reordering-only", "sharing-only", "trivial"):
        plan = plan_workload(rules.queries, rules.statistics, CAPACITY, units=1, strategy=strategy, seconds=5).plan
        costs[strategy] = sum(1 for part in plan.parts for operator in part.operators if operator.inputs)
    assert costs["shared"] < costs["reordering-only"] == costs["trivial"]


def test_a_query_that_looks_for_the_same_twice_shares_nothing_where_only_orders_are_chosen() -> None:
    workload = parse_workload("PATTERN AND(SEQ(B a, A b), SEQ(B c, A d)) WITHIN 6 s")
    known = Statistics(6_000_000, {"A": 9.0, "B": 9.0}, default_selectivity=0.1)
    plan = plan_workload(workload * 2, known, CAPACITY, units=1, strategy="reordering-only").plan
    assert not any(part.fragment or part.views for part in plan.parts)


def template(number: int) -> str:
    return (
        f"QUERY q{number} PATTERN SEQ(A a, B b) WHERE abs(a.x - b.x) < 0.{number + 1} AND a.k = {number % 3} "
        f"WITHIN {10 + number} s"
    )


def known_of(queries: Sequence[Query]) -> list[Statistics]:
    return [Statistics(one.window_us, {"A": 50.0, "B": 50.0}, default_selectivity=0.01) for one in queries]


def test_rules_that_differ_in_constants_and_windows_are_views_of_the_weakest() -> None:
    queries = parse_workload("\n".join(map(template, range(9))))
    plan = plan_workload(queries, known_of(queries), CAPACITY, units=2, strategy="shared").plan
    (fragment,) = [part for part in plan.parts if part.fragment]
    assert set(map(str, fragment.query.where)) == {"abs((p0.x - p1.x)) < 0.9", "p0.k IN (0, 1, 2)"}
    assert fragment.query.window_us == 18_000_000
    assert all([one.view is not None for one in part.operators] == [True] for part in plan.parts if not part.fragment)


def test_a_rule_that_finds_far_more_than_the_others_of_its_template_stays_on_its_own() -> None:
    queries = parse_workload("\n".join(f"QUERY q{n} PATTERN SEQ(A a, B b) WHERE a.x - b.x < {n} WITHIN 10 s"
                                       for n in range(4)))  # fmt: skip
    rates = {"A": 5000.0, "B": 5000.0}
    known = [
        Statistics(10_000_000, rates, alias_pairs=(PairSelectivity("a", "b", share),))
        for share in (1e-5, 1e-5, 1e-5, 1.0)
    ]
    plan = plan_workload(queries, known, CAPACITY, units=1, strategy="shared").plan
    assert [len(part.views) for part in plan.parts if not part.fragment] == [1, 1, 1, 0]


def test_a_view_must_not_lose_matches_to_a_stricter_constant() -> None:
    queries = parse_workload("\n".join(map(template, range(3))))
    plan = plan_workload(queries, known_of(queries), CAPACITY, units=1, strategy="shared").plan
    fragment = plan.parts[0]
    where = tuple(Compare("<", one.left, Literal(0.15)) if isinstance(one, Compare) else one
                  for one in fragment.query.where)  # fmt: skip
    strict = replace(fragment, query=replace(fragment.query, where=where))
    assert rules_of(replace(plan, parts=(strict, *plan.parts[1:]))) == {"view-cover"}


# ------------------------------------------------------------------ rules


def damaged(**changes: object) -> Plan:
    """The plan of two queries with the view of the first one changed."""
    plan = shared_plan()
    place = plan.place_of["q1"]
    part = plan.parts[place]
    (view,) = part.views
    changed = replace(view, view=replace(view.view, **changes))
    operators = tuple(changed if one is view else one for one in part.operators)
    return replace(plan, parts=(*plan.parts[:place], replace(part, operators=operators), *plan.parts[place + 1 :]))


def rules_of(plan: Plan) -> set[str]:
    return {violation.rule for violation in plan_violations(plan)}


def test_a_view_names_a_part_that_there_is() -> None:
    assert "view-source" in rules_of(damaged(part="nowhere"))
    assert "view-source" in rules_of(damaged(operator="o99"))
    assert "view-source" in rules_of(damaged(operator="o1"))


def test_a_view_must_not_confuse_events() -> None:
    assert rules_of(damaged(positions=(("a", "p1"), ("b", "p0")))) == {"view-cover"}


def test_a_view_must_not_lose_matches_to_a_shorter_window() -> None:
    plan = shared_plan()
    fragment = plan.parts[0]
    short = replace(fragment, query=replace(fragment.query, window_us=5_000_000))
    assert rules_of(replace(plan, parts=(short, *plan.parts[1:]))) == {"view-cover"}


def test_a_view_must_not_lose_matches_to_a_condition_of_others() -> None:
    plan = shared_plan()
    fragment = plan.parts[0]
    (more,) = parse_workload("PATTERN SEQ(A p0, B p1) WHERE p0.z = 1 WITHIN 10 s")
    strict = replace(fragment, query=replace(fragment.query, where=(*fragment.query.where, *more.where)))
    assert rules_of(replace(plan, parts=(strict, *plan.parts[1:]))) == {"view-cover"}


def test_a_fragment_passes_on_what_its_users_need() -> None:
    plan = shared_plan()
    fragment = plan.parts[0]
    poor = replace(fragment, query=replace(fragment.query, returns=()))
    found = [one.message for one in plan_violations(replace(plan, parts=(poor, *plan.parts[1:])))]
    assert any("does not pass on p1.y; add it to its RETURN" in message for message in found)


def test_a_fragment_that_nobody_uses_is_refused() -> None:
    plan = shared_plan()
    assert rules_of(replace(plan, parts=plan.parts[:1])) == {"unused-fragment"}


def test_parts_must_not_take_matches_from_each_other_in_a_circle() -> None:
    (query,) = parse_workload("PATTERN SEQ(A a, B b, C c) WITHIN 1 s")
    leaf, both, whole = (SubQuery(frozenset(names)) for names in (["c"], ["a", "b"], ["a", "b", "c"]))
    names = (("a", "a"), ("b", "b"))

    def part(key: str, other: str) -> QueryPlan:
        view = PlanOperator("o1", both, view=View(other, "o3", names))
        return QueryPlan(query, (view, PlanOperator("o2", leaf), PlanOperator("o3", whole, ("o1", "o2"))), key=key)

    plan = Plan((part("x", "y"), part("y", "x")))
    assert "view-cycle" in rules_of(plan)
    with pytest.raises(PlanError, match="view"):
        check_structure(plan)


def test_hosts_must_not_feed_each_other_in_a_circle() -> None:
    rules = families(4, 8, 1, 3, 1, seed=0)
    plan = plan_workload(rules.queries, rules.statistics, CAPACITY, units=2, strategy="trivial").plan
    part = plan.parts[0]
    places = itertools.cycle((0, 1))
    back = tuple(replace(one, hosts=(next(places),)) if one.inputs else one for one in part.operators)
    broken = replace(plan, parts=(replace(part, operators=back), *plan.parts[1:]))
    assert rules_of(broken) == {"host-cycle"}


def test_random_packings_never_form_a_circle() -> None:
    rules = families(20, 15, 4, 3, 1, seed=5)
    plan = plan_workload(rules.queries, rules.statistics, CAPACITY, units=1, strategy="shared").plan
    for seed in range(50):
        draw = random.Random(seed)
        weight = draw.random
        hosts = draw.randint(1, 8)
        again = packed(plan, hosts, lambda part, operator, weight=weight: weight() ** 3)
        assert not list(plan_violations(again))
        several = packed(plan, hosts, lambda part, operator, weight=weight: weight() ** 9, lambda part, operator: 1.0)
        assert not list(plan_violations(several))


def test_a_join_that_has_more_to_do_than_a_hosts_share_has_several_units() -> None:
    text = "QUERY heavy PATTERN SEQ(A a, B b) WITHIN 10 s QUERY light PATTERN SEQ(C c, D d) WITHIN 10 s"
    known = Statistics(10_000_000, {"A": 9000.0, "B": 4000.0, "C": 100.0, "D": 100.0}, default_selectivity=1e-4)
    plan = plan_workload(parse_workload(text), known, CAPACITY, units=4, strategy="shared").plan
    heavy, light = plan.parts
    assert heavy.root.units == 4 and heavy.root.hosts == (0, 1, 2, 3) and light.root.units == 1
    assert [one.partitioned for one in heavy.operators] == [True, False, False]
    assert not list(plan_violations(plan))


def test_runs_of_loads_are_even_and_use_every_host() -> None:
    assert runs([1, 1, 1, 1], 2) == [0, 0, 1, 1]
    assert runs([100, 1, 1, 1], 4) == [0, 1, 2, 3]
    assert runs([1, 1], 4) == [0, 1]
    assert runs([], 3) == []


# ------------------------------------------------------------------ how good


def random_patterns(draw: random.Random, windows: tuple[int, ...]) -> InstanceProblem:
    types = "ABCDE"
    patterns = [
        TypePattern(draw.choice(("SEQ", "AND")), tuple(sorted(draw.sample(types, draw.choice((3, 3, 4))))), window)
        for window in (draw.choice(windows) for _ in range(draw.choice((2, 2, 3))))
    ]
    rates = {name: draw.uniform(0.5, 5) for name in types}
    pairs = {pair: draw.choice((0.01, 0.1, 0.5, 1.0)) for pair in itertools.combinations(types, 2)}
    return InstanceProblem(patterns, rates, pairs)


@pytest.mark.parametrize("windows", [(4,), (1, 2, 10)])
def test_small_workloads_are_planned_optimally_nearly_always(windows: tuple[int, ...]) -> None:
    optimal, cases = 0, 20
    for seed in range(cases):
        problem = random_patterns(random.Random(seed), windows)
        best, _ = exhaustive_trees(problem)
        found = best_responses(problem).cost
        assert found <= 1.05 * best
        optimal += found <= best * (1 + 1e-9)
    assert optimal >= 0.95 * cases


def test_events_that_several_patterns_hold_in_a_narrow_window_are_held_once_in_the_widest() -> None:
    """No pattern alone gains by taking them from the wide window, as long as others need the narrow one."""
    narrow = [TypePattern("SEQ", types, 1) for types in (("A", "B", "C"), ("A", "B", "D"))]
    patterns = [*narrow, TypePattern("AND", ("A", "B", "E"), 2)]
    problem = InstanceProblem(patterns, dict.fromkeys("ABCDE", 4.0), {("A", "B"): 0.01})
    best, _ = exhaustive_trees(problem)
    assert best_responses(problem).cost == pytest.approx(best)


def test_a_pattern_that_others_stop_sharing_with_looks_for_another_tree() -> None:
    patterns = [TypePattern("AND", types, 4) for types in (("A", "C", "E"), ("A", "D", "E"), ("B", "D", "E"))]
    rates = {"A": 2.12, "B": 1.17, "C": 1.996, "D": 3.924, "E": 2.951}
    shares = {("A", "C"): 0.5, ("A", "D"): 0.5, ("A", "E"): 0.5, ("C", "E"): 0.5, ("D", "E"): 0.1}
    shares |= {("B", "D"): 0.01, ("B", "E"): 0.01}
    problem = InstanceProblem(patterns, rates, shares)
    best, _ = exhaustive_trees(problem)
    assert best_responses(problem).cost == pytest.approx(best)


def test_a_shared_sub_pattern_is_split_anew_once_others_compute_a_part_of_it() -> None:
    """Those who share it get it for nothing, so that none of them alone would look for another split."""
    draw, types = random.Random(314), "ABCDEF"
    patterns = [TypePattern("SEQ", tuple(sorted(draw.sample(types, 4))), 1) for _ in range(4)]
    rates = {name: draw.uniform(1, 8) for name in types}
    shares = {pair: draw.choice((0.01, 0.1, 0.5, 1.0)) for pair in itertools.combinations(types, 2)}
    problem = InstanceProblem(patterns, rates, shares)
    best, _ = exhaustive_trees(problem)
    assert best_responses(problem).cost == pytest.approx(best)


def test_best_responses_are_not_worse_than_the_searches_of_mcep() -> None:
    rules = independent(12, 8, 0.3, seed=4)
    patterns = [TypePattern("SEQ", query.event_types, 1) for query in rules.queries]
    problem = InstanceProblem(patterns, rules.rates, rules.selectivities)
    ours = best_responses(problem)
    for neighbourhood in (LocalSearch(problem, seed=1), LocalSearch(problem, seed=1, neighbourhood=V4)):
        annealed = neighbourhood.anneal(Budget(2.0), first_neighbours=50)
        tabu = neighbourhood.tabu(Budget(2.0), neighbours=20, most_steps=10)
        for theirs in (annealed, tabu):
            assert avoidable_cost(problem, ours) <= avoidable_cost(problem, theirs) * (1 + 1e-9)
            assert theirs.cost <= neighbourhood.start().cost * (1 + 1e-9)


def test_a_start_in_which_sharing_is_cheap_finds_what_others_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = independent(20, 10, 0.3, seed=5)
    patterns = [
        TypePattern("AND" if isinstance(one.pattern, And) else "SEQ", one.event_types, 1) for one in rules.queries
    ]
    problem = InstanceProblem(patterns, rules.rates, rules.selectivities)
    found = avoidable_cost(problem, best_responses(problem))
    monkeypatch.setattr(response, "_POWERS", ())
    assert found < 0.9 * avoidable_cost(problem, best_responses(problem))


def test_few_queries_get_the_plan_that_sustains_most_on_their_units() -> None:
    gained = []
    for seed in range(6):
        rules = families(4, 8, 2, 3, 1, seed=seed)

        def sustained(strategy: str, rules: RuleSet = rules) -> float:
            plan = plan_workload(rules.queries, rules.statistics, CAPACITY, units=12, strategy=strategy).plan
            known = part_statistics(plan, [rules.statistics] * len(plan.reported))
            priced = [price_plan(*each, CAPACITY) for each in zip(plan.parts, known, strict=True)]  # type: ignore[arg-type]
            return workload_log_scaling(priced, plan.hosts)

        others = max(sustained("decopa-paper"), sustained("reordering-only"))
        gained.append(sustained("shared") - others)
    assert min(gained) > -1e-6 and max(gained) > 0.01


def test_a_query_without_statistics_leaves_what_the_others_share_alone() -> None:
    queries = parse_workload(TWO + "QUERY q3 PATTERN SEQ(X x, Y y) WITHIN 10 s")
    plan = choose_plan(Planning(2), queries, [STATISTICS, STATISTICS, None]).plan
    assert not list(plan_violations(plan))
    assert plan.queries == tuple(queries) and sum(part.fragment for part in plan.parts) == 1


def test_a_search_ends_when_its_time_is_over_with_a_plan() -> None:
    rules = families(30, 15, 4, 3, 1, seed=1)
    planning = Planning(2, "mcep", planning_time_s=0.01)
    plan = choose_plan(planning, rules.queries, [rules.statistics] * 30).plan
    assert plan.queries == rules.queries and not list(plan_violations(plan))
    with pytest.raises(PlanError, match="planning time must be a positive number"):
        Planning(planning_time_s=0)


def test_a_given_plan_whose_parts_go_in_circles_is_refused_before_anything_looks_at_it() -> None:
    plan = shared_plan()
    fragment = plan.parts[0]
    root = SubQuery(frozenset(fragment.query.aliases))
    names = tuple((alias, alias) for alias in fragment.query.aliases)
    circle = replace(fragment, operators=(PlanOperator("o3", root, view=View(fragment.key, "o3", names)),))
    given = replace(plan, parts=(circle, *plan.parts[1:]))
    with pytest.raises(PlanError, match="view"):
        choose_plan(Planning(plan=given), plan.queries)
