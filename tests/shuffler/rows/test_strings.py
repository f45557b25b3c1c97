"""StringPool: codes stand for strings, for as long as they are needed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decopa.query.schema import NULL
from shuffler.rows.strings import FORGET_ABOVE, StringPool, distinct_texts

TEXTS = st.lists(st.none() | st.text(max_size=3), max_size=30)


@given(TEXTS)
def test_decoding_gives_back_what_was_encoded(texts: list[str | None]) -> None:
    pool = StringPool()
    assert pool.decode(pool.encode(pa.array(texts, pa.string()), 0)).to_pylist() == texts


@given(TEXTS, TEXTS)
def test_equal_strings_have_equal_codes_over_batches(first: list[str | None], second: list[str | None]) -> None:
    pool = StringPool()
    codes = [*pool.encode(pa.array(first, pa.string()), 0), *pool.encode(pa.array(second, pa.string()), 1)]
    texts = [*first, *second]
    for one, text in zip(codes, texts, strict=True):
        for other, other_text in zip(codes, texts, strict=True):
            assert (one == other) == (text == other_text)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_every_string_type_and_its_dictionary_encode_alike(kind: pa.DataType) -> None:
    pool = StringPool()
    column = pa.array(["a", "b", None, "a"], kind)
    plain = pool.encode(column, 0)
    assert plain[2] == NULL
    assert np.array_equal(plain, pool.encode(column.dictionary_encode(), 0))


def test_null_inside_a_dictionary_is_missing() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    pool = StringPool()
    codes = pool.encode(column, 0)
    assert codes.tolist() == [pool.pin("a"), NULL, NULL]


def test_a_slice_of_a_long_dictionary_takes_only_what_it_uses() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array(np.arange(1000)), pa.array([f"s{n}" for n in range(1000)]))
    pool = StringPool()
    assert pool.decode(pool.encode(column[500:503], 0)).to_pylist() == ["s500", "s501", "s502"]
    assert len(pool) == 3


def test_old_strings_are_forgotten_but_pinned_and_recent_ones_stay() -> None:
    pool = StringPool()
    pinned = pool.pin("constant")
    many = pa.array([f"s{n}" for n in range(FORGET_ABOVE)])
    pool.encode(many, 10)
    recent = pool.encode(pa.array(["s7", "constant"]), 20)
    pool.forget_before(15)
    assert len(pool) == 2
    assert pool.decode(recent).to_pylist() == ["s7", "constant"]
    assert pool.pin("constant") == pinned


def test_a_forgotten_string_is_gone_and_has_its_code_again_when_it_comes_again() -> None:
    pool = StringPool()
    old = pool.encode(pa.array([f"s{n}" for n in range(FORGET_ABOVE)]), 10)
    pool.forget_before(15)
    with pytest.raises(KeyError):
        pool.decode(old[:1])
    assert pool.encode(pa.array(["s0"]), 20)[0] == old[0]


def test_a_string_has_the_same_code_in_every_process() -> None:
    """Rows are dealt out by codes, so these must not depend on what a process has seen before."""
    first, second = StringPool(), StringPool()
    second.encode(pa.array(["other", "b", "a"]), 0)
    assert first.encode(pa.array(["a", "b"]), 0).tolist() == second.encode(pa.array(["a", "b"]), 0).tolist()
    assert len(set(first.encode(pa.array([f"s{n}" for n in range(10_000)]), 0).tolist())) == 10_000


def test_few_strings_are_never_forgotten() -> None:
    pool = StringPool()
    codes = pool.encode(pa.array(["a"]), 10)
    pool.forget_before(1_000)
    assert pool.decode(codes).to_pylist() == ["a"]


def test_distinct_texts_are_listed_once() -> None:
    positions, texts = distinct_texts(pa.array(["a", "b", "a"]))
    assert texts == ["a", "b"]
    assert positions.tolist() == [0, 1, 0]
