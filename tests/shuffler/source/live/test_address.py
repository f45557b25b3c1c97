"""Addresses say where a stream is and how it is read; every one survives being written and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decopa.choices import COLUMN_KINDS
from decopa.choices import PAYLOAD_FORMATS as FORMATS
from decopa.errors import TraceError
from shuffler.source.live.address import (
    SourceAddress,
    folder_address,
    is_address,
    parse_address,
)

names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)


@given(
    st.sampled_from(("kafka", "nats")),
    names,
    st.sampled_from(FORMATS),
    st.sampled_from(("earliest", "latest")),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 10**9).map(lambda us: us / 1e6)),
    st.dictionaries(st.sampled_from(("id", "a b", "ü")), st.sampled_from(COLUMN_KINDS)),
)
def test_an_address_survives_being_written(
    kind: str, topic: str, form: str, start: str, flag: bool, idle: float | None, columns: dict[str, str]
) -> None:
    address = SourceAddress(
        kind, "a:1,b:2", topic, form, start, flag, not flag, idle, "x.>", columns, "client.conf", flag
    )
    assert parse_address(str(address)) == address


def test_addresses_are_told_from_paths() -> None:
    assert is_address("kafka://host:9092/topic")
    assert is_address("folder:///data")
    assert not is_address("data/trace.parquet")
    assert not is_address("s3://bucket/trace.parquet")
    assert parse_address(str(folder_address("/some where/x?y"))).topic == "/some where/x?y"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kafka://host:9092", "names no topic; write kafka://host:9092/topic"),
        ("nats:///S", "names no server"),
        ("kafka://h:1/t?format=xml", "unknown format of payloads 'xml'"),
        ("kafka://h:1/t?from=yesterday", "begins at earliest or latest, not 'yesterday'"),
        ("kafka://h:1/t?idle=soon", "idle=soon is no time; write 5s, or never"),
        ("kafka://h:1/t?schema=x=number", "column 'x' cannot hold 'number'"),
        ("kafka://h:1/t?forma=json", "has no option 'forma=json'; did you mean 'format'?"),
        ("ftp://h/t", "unknown kind of source 'ftp'"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(text: str, problem: str) -> None:
    with pytest.raises(TraceError) as caught:
        parse_address(text)
    assert problem in str(caught.value)
