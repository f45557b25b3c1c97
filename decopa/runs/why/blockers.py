"""Which event blocks a match: for NOTs of one event, how many partial matches each blocks, and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from costmodel.sampling.conditions import EventConditions
from costmodel.sampling.events import EventColumns, Ints
from decopa.query.analysis import Negation
from decopa.query.binding import BoundQuery
from decopa.query.pattern import types_text
from decopa.runs.why.parts import Blocking, Miss

_EXAMPLES = 3
#: Matches and blocking events that are looked at.
_MOST_MATCHES = 20_000
_MOST_PAIRS = 2_000_000


def blocking(
    bound: BoundQuery,
    events: EventColumns,
    evaluator: EventConditions,
    negation: Negation,
    matches: Mapping[str, Ints],
    negated: Ints,
    ids: Sequence[object],
) -> Blocking | None:
    """What a NOT does to the matches of the rest; None for a NOT of several events, which only a run can tell.

    KL positions stand for single events here, so that numbers are of matches with groups of one.
    """
    if len(negation.aliases) != 1 or any(one.scope[:-1] == negation.scope for one in bound.query.negations):
        return None
    (alias,) = negation.aliases
    count = min(_MOST_MATCHES, len(next(iter(matches.values()))))
    rows = {name: numbers[:count] for name, numbers in matches.items()}
    times = {name: events.ts[numbers] for name, numbers in rows.items()}
    earliest, latest = (np.minimum.reduce(list(times.values())), np.maximum.reduce(list(times.values())))
    after = [times[name] + 1 for name in negation.after] or [latest - bound.query.window_us]
    before = [times[name] - 1 for name in negation.before] or [earliest + bound.query.window_us]
    partners = events.ts[negated]
    low: Ints = np.asarray(np.searchsorted(partners, np.maximum.reduce(after), side="left"))
    reach = np.maximum(0, np.searchsorted(partners, np.minimum.reduce(before), side="right") - low)
    fitting = int(np.searchsorted(np.cumsum(reach), _MOST_PAIRS, side="right"))
    reach, sampled = reach[:fitting], fitting < len(next(iter(matches.values())))
    owner = np.repeat(np.arange(fitting), reach)
    candidate = negated[low[:fitting][owner] + np.arange(len(owner)) - (np.cumsum(reach) - reach)[owner]]
    pairs = {name: numbers[owner] for name, numbers in rows.items()} | {alias: candidate}
    blocks = np.ones(len(owner), dtype=np.bool_)
    for condition in bound.conditions:
        if alias in condition.aliases and condition.aliases <= pairs.keys() and len(owner):
            blocks &= evaluator.mask(condition.predicate, {name: pairs[name] for name in condition.aliases})
    blocked, first = np.unique(owner[blocks], return_index=True)
    at = np.flatnonzero(blocks)[first[:_EXAMPLES]]
    name = f"NOT({types_text(bound.query.position(alias).types)} {alias})"
    examples = tuple(
        Miss(name, {key: ids[int(numbers[place])] for key, numbers in pairs.items()}, f"{alias} blocks")
        for place in at.tolist()
    )
    return Blocking(name, fitting, len(blocked), sampled, examples)
