"""Whatever is typed, the parser answers with a query or with one QueryError."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from decopa.errors import QueryError
from decopa.language.text.parser import parse_workload
from tests.support.examples import examples
from tests.support.strategies import queries

TOKENS = re.findall(
    r"\S+",
    "QUERY PATTERN WHERE WITHIN RETURN SEQ AND OR KL NSEQ NOT FORALL IN TRUE FALSE ( ) , . : ; + - * / < <= > >= = != "
    '<> == a b c x A B "A" "a b" \'p\' 1 0 2.5 1e5 .5 1s 10min 3us -- \' " @ é 0x 1e abs( dist_km( min( a.x b.x',
)


def survives(text: str) -> None:
    try:
        queries_read = parse_workload(text)
    except QueryError as err:
        message = str(err)
    else:
        assert parse_workload("\n".join(map(str, queries_read))) == queries_read
        return
    assert message
    assert "\n" not in message


@settings(max_examples=examples(150))
@given(st.text(max_size=80))
def test_any_text_is_a_query_or_one_clear_error(text: str) -> None:
    survives(text)


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(TOKENS), max_size=30))
def test_any_words_of_the_language_are_a_query_or_one_clear_error(words: list[str]) -> None:
    survives("PATTERN SEQ(A a, B b) " + " ".join(words))


@settings(max_examples=examples(200))
@given(queries(), st.data())
def test_a_damaged_query_is_a_query_or_one_clear_error(query: object, data: st.DataObject) -> None:
    text = str(query)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    inserted = data.draw(st.one_of(st.sampled_from(TOKENS), st.text(max_size=5)))
    survives(text[:start] + inserted + text[end:])
