"""Streams whose plan changes at random moments, in one process."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pyarrow as pa
from hypothesis import strategies as st

from cluster.change.history import BlockRing
from cluster.change.local import ChangingPipeline
from decopa.planning.history import history_us
from decopa.planning.plan import Plan
from decopa.query.pattern import And, EventRef, Next, Not, Pattern, Seq
from decopa.query.query import Query
from decopa.runs.result import united
from shuffler.rows.events import EventBatch
from shuffler.source.trace import open_trace
from tests.support.chains import chains_in_patterns, plain_chains
from tests.support.strategies import TYPES, conditions, queries, written_leaves


@st.composite
def nested_nots(draw: st.DrawFn) -> Query:
    """NOT inside NOT, each at the start, in the middle or at the end of its SEQ."""
    events = [EventRef(draw(st.sampled_from(TYPES)), alias) for alias in "abcde"]
    inner = _with_not(draw, events[:2], events[2])
    pattern = _with_not(draw, events[3:], inner)
    leaves = tuple(written_leaves(pattern))
    where = draw(st.lists(conditions(leaves), max_size=1))
    return Query(pattern=pattern, where=tuple(where), window_us=draw(st.sampled_from((3, 5, 8))))


def _with_not(draw: st.DrawFn, events: Sequence[EventRef], absent: Pattern) -> Pattern:
    chosen: list[Pattern] = list(events[: draw(st.integers(1, len(events)))])
    chosen.insert(draw(st.integers(0, len(chosen))), Not(absent))
    return Seq(tuple(chosen))


@st.composite
def open_chains(draw: st.DrawFn) -> Query:
    """NEXT beside a NOT that is open at its end: plans differ in when they are certain."""
    a, b, c, d = (EventRef(draw(st.sampled_from(TYPES)), alias) for alias in "abcd")
    shapes: tuple[Pattern, ...] = (
        Next((Seq((a, Not(d))), b)),
        Seq((Next((a, b)), Not(d))),
        Seq((Next((a, b, c)), Not(d))),
        And((Next((a, b)), Seq((c, Not(d))))),
    )
    return Query(pattern=draw(st.sampled_from(shapes)), where=(), window_us=draw(st.sampled_from((3, 6))))


def changeable_queries() -> st.SearchStrategy[Query]:
    """Queries of every kind, with more of those that look far back than chance would give."""
    kinds = (queries(max_positions=4), queries(max_positions=4), nested_nots(), plain_chains(), chains_in_patterns(),
             open_chains())  # fmt: skip
    return st.one_of(*kinds)


def changed_run(
    query: Query,
    events: pa.Table,
    plans: Sequence[Plan],
    chaos: Random,
    kind: type[ChangingPipeline] = ChangingPipeline,
    sizes: Sequence[int] = (1, 2, 3, 5, 100),
) -> pa.Table:
    """Runs the plans one after the other, each from a random place on; matches are taken at random moments. Plans are
    built at once, or a batch at a time while the stream goes on."""
    source = open_trace(events)
    history: BlockRing[EventBatch] = BlockRing(max(map(history_us, plans)))
    interleaving = chaos if chaos.random() < 0.5 else None
    pipeline = kind(plans[0], source.format, source.strings, history, interleaving=interleaving)
    attributes = list(source.schema.attributes)
    cuts = sorted(chaos.randrange(events.num_rows + 1) for _ in plans[1:])
    found: list[dict[str, pa.Table]] = []
    waiting = list(zip(cuts, plans[1:], strict=True))
    for batch in source.batches(attributes, 1 << 20):
        done = 0
        while done < len(batch):
            while waiting and waiting[0][0] <= done:
                if pipeline.changing:
                    pipeline.step()
                if chaos.random() < 0.5:
                    pipeline.switch(waiting.pop(0)[1])
                else:
                    pipeline.begin(waiting.pop(0)[1])
            ends = [done + chaos.choice(sizes), len(batch), *(cut for cut, _ in waiting[:1])]
            end = min(ends)
            pipeline.feed(batch.slice(done, end))
            done = end
            if pipeline.changing:
                pipeline.step(0.0)
            if chaos.random() < 0.3:
                found.append(pipeline.take())
    if pipeline.changing:
        pipeline.step()
    for _, plan in waiting:
        pipeline.switch(plan)
    pipeline.finish()
    found.append(pipeline.take())
    keys = [plans[0].keys[place] for place in plans[0].reported]
    tables = [pa.concat_tables([one[key] for one in found if key in one]) for key in keys]
    return united(query, tables)
