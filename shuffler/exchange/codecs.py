"""The codecs of a process: one for each operator whose matches it sends or receives."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from decopa.planning.plan import Plan
from decopa.query.binding import BoundQuery, bind
from decopa.query.schema import Schema
from shuffler.exchange.wire import BatchCodec
from shuffler.rows.layout import layout_of
from shuffler.rows.strings import StringPool


class Codecs:
    def __init__(self, plan: Plan, schema: Schema, strings: StringPool) -> None:
        self._plan, self._schema, self._strings = plan, schema, strings
        self.bound = cache(self._bound)
        self.codec = cache(self._codec)

    def _bound(self, part: int) -> BoundQuery:
        return bind(self._plan.parts[part].query, self._schema)

    def _codec(self, part: int, operator: str) -> BatchCodec:
        bound = self.bound(part)
        layout = layout_of(bound, self._plan.parts[part].operator(operator).sub_query)
        return BatchCodec(bound, layout, self._strings)


def needed_attributes(bounds: Iterable[BoundQuery], schema: Schema) -> list[str]:
    """The attributes that any of the queries reads; string ids too, because results name events by them."""
    needed = frozenset[str]().union(*(bound.source_attributes for bound in bounds))
    return sorted(needed if schema.attributes["id"].kind.is_number else needed | {"id"})
