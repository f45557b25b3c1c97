from __future__ import annotations

import pytest

from decopa.errors import QueryError
from decopa.query.pattern import (
    And,
    EventRef,
    Except,
    Kleene,
    Next,
    Not,
    Or,
    Pattern,
    Seq,
    leaves,
    type_form,
)

A, B, C = (EventRef(name, name.lower()) for name in "ABC")


def test_patterns_are_values() -> None:
    assert Seq((A, And((B, C)))) == Seq((A, And((B, C))))
    assert hash(Kleene(A)) == hash(Kleene(EventRef("A", "a")))


def test_a_pattern_prints_as_query_text() -> None:
    pattern = Seq((A, Kleene(B), Not(Or((C, EventRef("my type", "other"))))))
    assert str(pattern) == 'SEQ(A a, KL(B b), NOT(OR(C c, "my type" other)))'


def test_a_type_that_is_a_keyword_prints_in_quotes() -> None:
    assert str(EventRef("SEQ", "s")) == '"SEQ" s'


def test_leaves_come_from_left_to_right_with_negated_and_kleene_ones() -> None:
    assert list(leaves(Seq((Not(A), And((Kleene(C), B)))))) == [A, C, B]


def test_the_type_form_leaves_out_aliases() -> None:
    assert type_form(Seq((A, Not(B), And((Kleene(C), A))))) == "SEQ(A,NOT(B),AND(KL(C),A))"


@pytest.mark.parametrize("operator", [Seq, And, Or])
def test_an_operator_without_children_is_refused(operator: type[Seq] | type[And] | type[Or]) -> None:
    with pytest.raises(QueryError, match="at least one child"):
        operator(())


@pytest.mark.parametrize(("event_type", "alias"), [("", "a"), ("A", "")])
def test_an_event_without_type_or_alias_is_refused(event_type: str, alias: str) -> None:
    with pytest.raises(QueryError, match="type and an alias"):
        EventRef(event_type, alias)


def test_an_alias_with_blanks_is_refused() -> None:
    with pytest.raises(QueryError, match="'my a' is no alias"):
        EventRef("A", "my a")


def test_kleene_over_several_events_has_their_aliases() -> None:
    assert Kleene(Seq((A, B)), 2).aliases == ("a", "b")
    assert Kleene(Seq((A,))) == Kleene(A)


@pytest.mark.parametrize("inner", [Or((A, B)), Seq((A, Not(B))), Next((A, B)), Kleene(A), Except(Seq((A, B)), C)])
def test_kleene_takes_seq_and_and_of_events_only(inner: Pattern) -> None:
    with pytest.raises(QueryError, match="KL takes an event, or SEQ and AND of events"):
        Kleene(inner)  # type: ignore[arg-type]


def test_runs_are_of_single_events() -> None:
    with pytest.raises(QueryError, match="ITER takes one event type"):
        Kleene(Seq((A, B)), runs=True)


def test_not_directly_inside_not_is_refused() -> None:
    with pytest.raises(QueryError, match="NOT directly inside NOT"):
        Not(Not(A))


def test_not_as_an_alternative_is_refused() -> None:
    with pytest.raises(QueryError, match="put NOT inside SEQ or AND"):
        Or((A, Not(B)))


@pytest.mark.parametrize("operator", [Seq, And])
def test_negations_only_are_refused(operator: type[Seq] | type[And]) -> None:
    with pytest.raises(QueryError, match="no positive event"):
        operator((Not(A), Not(B)))
