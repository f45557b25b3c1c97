from __future__ import annotations

import pytest
from hypothesis import given

from decopa.errors import QueryError
from decopa.language.text.parser import parse
from decopa.query.conditions.predicate import AllOf, Attr, Compare, Literal, Negated
from decopa.query.pattern import EventRef, Seq
from decopa.query.query import MAX_POSITIONS, Query
from tests.support.strategies import queries


def query_of(pattern: str, where: str = "") -> Query:
    return parse(f"PATTERN {pattern} {'WHERE ' + where if where else ''} WITHIN 1 s")


def branch_texts(query: Query) -> list[str]:
    return [str(branch.pattern) for branch in query.branches]


# ------------------------------------------------------------- canonical text
@given(queries())
def test_the_canonical_text_parses_back_to_the_same_query(query: Query) -> None:
    assert parse(str(query)) == query


def test_the_canonical_text_keeps_groups_of_conditions_as_they_are() -> None:
    small, large, equal = (Compare(op, Attr("a", "x"), Literal(1)) for op in ("<", ">", "="))
    grouped = Negated(AllOf((AllOf((small, large)), equal)))
    query = Query(EventRef("A", "a"), (grouped,), 1)
    assert parse(str(query)) == query


@pytest.mark.parametrize("value", [1, 1.0, True, -2, 0.1, 1e300, 5e-324, "it's", "", "--", 'a "b"', "line\nbreak"])
def test_constants_survive_the_canonical_text(value: int | float | str | bool) -> None:
    query = Query(EventRef("A", "a"), (Compare("=", Attr("a", "x"), Literal(value)),), 1)
    (condition,) = parse(str(query)).where
    assert isinstance(condition, Compare)
    assert condition.right == Literal(value)


def test_one_and_one_point_zero_are_different_queries() -> None:
    assert query_of("A a", "a.x = 1") != query_of("A a", "a.x = 1.0")


def test_top_level_conjunctions_are_taken_apart() -> None:
    assert query_of("A a", "(a.x < 1 AND (a.y < 2 AND a.z < 3))") == query_of("A a", "a.x < 1 AND a.y < 2 AND a.z < 3")


# ------------------------------------------------------------------ structure
@pytest.mark.parametrize(
    ("pattern", "order"),
    [
        ("SEQ(A a, B b, AND(C c, D d))", "ab ac ad bc bd"),
        ("AND(SEQ(A a, B b), C c)", "ab"),
        ("AND(A a, B b, C c)", ""),
        ("SEQ(A a, AND(B b, SEQ(C c, D d)), E e)", "ab ac ad ae be cd ce de"),
        ("SEQ(KL(A a), B b)", "ab"),
        ("SEQ(A a, NOT(SEQ(B b, C c)), D d)", "ad bc"),
    ],
)
def test_order_constraints_follow_seq_within_one_scope(pattern: str, order: str) -> None:
    assert query_of(pattern).order_constraints == {(pair[0], pair[1]) for pair in order.split()}


def test_aliases_and_types_come_in_query_order() -> None:
    query = query_of("SEQ(B b, NOT(C c), KL(A a), B b2)")
    assert query.aliases == ("b", "c", "a", "b2")
    assert query.positive_aliases == ("b", "a", "b2")
    assert query.event_types == ("B", "C", "A")
    assert query.kleene_aliases == {"a"}
    assert query.negated_aliases == {"c"}


def test_a_negation_lies_between_its_nearest_positive_neighbours() -> None:
    first, second = query_of("SEQ(A a, AND(B b, C c), NOT(D d), NOT(E e), F f, G g)").negations
    assert (first.after, first.before) == ({"b", "c"}, {"f"})
    assert (second.after, second.before) == ({"b", "c"}, {"f"})


def test_a_negation_in_the_middle_depends_on_its_neighbours_and_on_its_conditions() -> None:
    query = query_of("SEQ(A a, B b, NOT(C c), D d, E e)", "c.x < e.x AND a.x < b.x")
    assert query.context_of(query.negations[0]) == {"b", "d", "e"}


@pytest.mark.parametrize(
    "pattern", ["SEQ(A a, B b, NOT(C c))", "SEQ(NOT(C c), A a, B b)", "AND(A a, SEQ(B b, NOT(C c)))"]
)
def test_a_negation_at_an_end_depends_on_the_whole_match(pattern: str) -> None:
    query = query_of(pattern)
    assert query.context_of(query.negations[0]) == {"a", "b"}


# ------------------------------------------------------------------- branches
def test_or_makes_one_branch_per_choice() -> None:
    query = query_of("SEQ(OR(A a, B b), OR(C c, D d))")
    assert branch_texts(query) == ["SEQ(A a, C c)", "SEQ(A a, D d)", "SEQ(B b, C c)", "SEQ(B b, D d)"]


def test_a_branch_leaves_out_conditions_and_returns_on_absent_aliases() -> None:
    query = parse("PATTERN SEQ(A a, OR(B b, C c)) WHERE a.x < b.x AND a.y < c.y WITHIN 1 s RETURN a.x, c.y")
    first, second = query.branches
    assert [str(condition) for condition in first.where] == ["a.x < b.x"]
    assert [str(attr) for attr in first.returns] == ["a.x"]
    assert [str(condition) for condition in second.where] == ["a.y < c.y"]
    assert [str(attr) for attr in second.returns] == ["a.x", "c.y"]


def test_or_under_not_becomes_several_negations_of_one_branch() -> None:
    assert branch_texts(query_of("SEQ(A a, NOT(OR(B b, D d)), C c)")) == ["SEQ(A a, NOT(B b), NOT(D d), C c)"]


def test_or_deep_under_not_names_what_its_alternatives_share_anew() -> None:
    query = query_of("SEQ(A a, NOT(SEQ(B b, OR(C c, D d))), E e)", "a.x < b.x AND b.y < c.y AND d.z = 1")
    (branch,) = query.branches
    assert str(branch.pattern) == "SEQ(A a, NOT(SEQ(B b, C c)), NOT(SEQ(B b_2, D d)), E e)"
    assert list(map(str, branch.where)) == ["a.x < b.x", "a.x < b_2.x", "b.y < c.y", "d.z = 1"]


def test_a_new_name_is_none_that_the_query_uses() -> None:
    (branch,) = query_of("SEQ(A a, NOT(SEQ(B b, OR(C c, D d))), E b_2)").branches
    assert str(branch.pattern) == "SEQ(A a, NOT(SEQ(B b, C c)), NOT(SEQ(B b_3, D d)), E b_2)"


def test_kleene_under_not_blocks_like_one_of_its_events() -> None:
    query = query_of("SEQ(A a, NOT(KL(B b)), C c)", "b.x < b.x AND a.x < b.x")
    (branch,) = query.branches
    assert str(branch.pattern) == "SEQ(A a, NOT(B b), C c)"
    assert list(map(str, branch.where)) == ["a.x < b.x"]


def test_kleene_under_not_beside_a_further_not_stays() -> None:
    query = query_of("SEQ(A a, NOT(SEQ(KL(B b), NOT(D d), C c)), E e)")
    assert branch_texts(query) == ["SEQ(A a, NOT(SEQ(KL(B b), NOT(D d), C c)), E e)"]


def test_too_many_alternatives_are_refused() -> None:
    choices = ", ".join(f"OR(A a{n}, B b{n})" for n in range(10))
    with pytest.raises(QueryError, match="more than 256 alternatives"):
        query_of(f"SEQ({choices})")


# ----------------------------------------------------------------- projection
@pytest.mark.parametrize(
    ("aliases", "pattern"),
    [
        ("ab", "SEQ(A a, B b)"),
        ("cd", "AND(C c, D d)"),
        ("ac", "SEQ(A a, C c)"),
        ("acd", "SEQ(A a, AND(C c, D d))"),
        ("d", "D d"),
        ("abcd", "SEQ(A a, B b, AND(C c, D d))"),
    ],
)
def test_a_projection_keeps_the_operators_around_its_positions(aliases: str, pattern: str) -> None:
    assert str(query_of("SEQ(A a, B b, AND(C c, D d))").project(aliases).pattern) == pattern


def test_a_projection_merges_operators_that_become_nested() -> None:
    assert str(query_of("SEQ(A a, AND(B b, SEQ(C c, D d)))").project("acd").pattern) == "SEQ(A a, C c, D d)"


def test_a_projection_keeps_a_sequence_with_not_at_its_end_apart() -> None:
    query = query_of("SEQ(A a, AND(B b, SEQ(C c, NOT(D d))))")
    assert str(query.project("acd").pattern) == "SEQ(A a, SEQ(C c, NOT(D d)))"


def test_a_projection_keeps_the_conditions_on_its_positions() -> None:
    query = query_of("SEQ(A a, B b, KL(C c))", "a.x < b.x AND c.x < c.x AND a.y = 1")
    assert list(map(str, query.project("ac").where)) == ["c.x < c.x", "a.y = 1"]


def test_stripping_kleene_drops_the_comparison_of_its_members() -> None:
    query = query_of("SEQ(A a, B b, KL(C c))", "c.x < c.x AND c.x > 0")
    stripped = query.project("ac", stripped={"c"})
    assert str(stripped.pattern) == "SEQ(A a, C c)"
    assert list(map(str, stripped.where)) == ["c.x > 0"]


def test_every_subset_of_types_of_the_running_example_is_a_sub_query() -> None:
    query = query_of("SEQ(A a, B b, AND(C c, D d))")
    subsets = [[alias for place, alias in enumerate("abcd") if number >> place & 1] for number in range(1, 16)]
    assert len({str(query.project(aliases).pattern) for aliases in subsets}) == 15


def test_a_projection_to_an_unknown_alias_is_refused() -> None:
    with pytest.raises(QueryError, match="no alias 'z'"):
        query_of("SEQ(A a, B b)").project("az")


# --------------------------------------------------------------------- checks
@pytest.mark.parametrize("window_us", [0, -1, 2**63])
def test_a_window_is_positive_and_fits_into_64_bits(window_us: int) -> None:
    with pytest.raises(QueryError, match="window must be positive"):
        Query(EventRef("A", "a"), (), window_us)


def test_a_pattern_of_too_many_events_is_refused() -> None:
    with pytest.raises(QueryError, match=f"more than {MAX_POSITIONS} events"):
        Query(Seq(tuple(EventRef("A", f"a{n}") for n in range(MAX_POSITIONS + 1))), (), 1)


@pytest.mark.parametrize(
    ("pattern", "where", "message"),
    [
        ("SEQ(A a, B a)", "", "alias 'a' is used twice"),
        ("OR(A a, B a)", "", "alias 'a' stands for A and B"),
        ("OR(A a, KL(A a))", "", r"alias 'a' stands for A and KL\(A\)"),
        ("OR(SEQ(A a, NOT(B b), C c), B b)", "", "alias 'b' stands for B and a negated B"),
        ("SEQ(A start_ts, B b)", "", "alias 'start_ts' is the name of a column of every result"),
        ("SEQ(A a, KL(B end_ts))", "", "alias 'end_ts' is the name of a column of every result"),
        ("SEQ(A a, B b)", "a.x < c.x", "unknown alias 'c'"),
        ("SEQ(A a, NOT(B b), NOT(C c), D d)", "b.x < c.x", "ties a negated event"),
        ("SEQ(A a, NOT(SEQ(B b, NOT(C c), D d)), E e)", "a.x < c.x", "ties a negated event"),
        ("SEQ(KL(A a), B b)", "a.x < a.x + b.x", "compares members of KL alias 'a'"),
        ("SEQ(KL(A a), B b)", "NOT a.x < a.y", "compares members of KL alias 'a'"),
    ],
)
def test_a_query_that_cannot_be_meant_is_refused(pattern: str, where: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        query_of(pattern, where)


def test_alternatives_may_bind_the_same_alias() -> None:
    assert query_of("OR(SEQ(A a, B b), SEQ(B b, A a))").positive_aliases == ("a", "b")
