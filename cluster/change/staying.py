"""Which parts of a plan stay when it becomes another, and what they hold on other numbers of units."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from actors.state.migrate import may_rescale, rescale, rescale_feeders
from cluster.pipeline import PartState
from decopa.planning.history import uncertain_windows
from decopa.planning.plan import Plan, QueryPlan
from shuffler.routing.topology import Topology


def staying_parts(old: Plan, new: Plan) -> tuple[frozenset[str], frozenset[str]]:
    """The keys of the parts that both plans have, with what they view: those that are equal in all that decides what
    they hold, and those that have the same operators on other numbers of units.

    Where plans report a match at different moments, nobody could tell from what units hold which ones are out.
    """
    before = dict(zip(old.keys, zip(old.parts, Topology(old).routing, strict=True), strict=True))
    equal, alike = set(), set()
    for key, part, table in zip(new.keys, new.parts, Topology(new).routing, strict=True):
        if key not in before:
            continue
        was, was_table = before[key]
        if was == part:
            equal.add(key)
        elif was.since_us == part.since_us and not uncertain_windows(part.query) and may_rescale(was_table, table):
            alike.add(key)
    stay = frozenset(key for key in equal | alike if with_sources(new, frozenset({key})) <= equal | alike)
    kept = frozenset(key for key in stay if with_sources(new, frozenset({key})) <= equal)
    return kept, stay - kept


def carried_parts(old: Plan, new: Plan) -> frozenset[str]:
    """The keys of the parts, with what they view, that processes of the new plan can begin with as units of the old one
    hold them."""
    kept, alike = staying_parts(old, new)
    parts = zip(new.keys, new.parts, strict=True)
    fit = {key for key, part in parts if part.slices == 1 and not uncertain_windows(part.query)} & (kept | alike)
    return frozenset(key for key in fit if with_sources(new, frozenset({key})) <= fit)


def dealt_out(old: Plan, new: Plan, keys: Collection[str], held: Mapping[str, PartState]) -> dict[str, PartState]:
    """What some parts hold, on other numbers of units, which begin to count."""
    before, after = (dict(zip(plan.keys, Topology(plan).routing, strict=True)) for plan in (old, new))
    found = {}
    for key in keys:
        tables, state = (before[key], after[key]), held[key]
        (feeder,) = rescale_feeders(*tables, [state.feeder])
        group = rescale(*tables, state.groups.values(), counted=False)
        found[key] = PartState({0: group}, feeder, state.watermarks)
    return found


def with_sources(plan: Plan, keys: frozenset[str]) -> frozenset[str]:
    """These parts and all that they take matches from."""
    found, waiting = set(keys), list(keys)
    while waiting:
        for operator in plan.parts[plan.place_of[waiting.pop()]].views:
            assert operator.view is not None
            if operator.view.part not in found:
                found.add(operator.view.part)
                waiting.append(operator.view.part)
    return frozenset(found)


def parts_without(plan: Plan, keys: Collection[str]) -> tuple[QueryPlan, ...]:
    """The parts that remain without some that report: also without fragments that nobody takes matches from."""
    reporting = frozenset(
        reported for reported in (plan.keys[place] for place in plan.reported) if reported not in keys
    )
    needed = with_sources(plan, reporting)
    return tuple(part for key, part in zip(plan.keys, plan.parts, strict=True) if key in needed)


def renamed(plan: Plan, names: Mapping[str, str]) -> Plan:
    """The plan with other keys for its parts, also where they take matches from each other."""
    parts = []
    for key, part in zip(plan.keys, plan.parts, strict=True):
        operators = []
        for one in part.operators:
            view = None if one.view is None else replace(one.view, part=names.get(one.view.part, one.view.part))
            operators.append(replace(one, view=view))
        parts.append(replace(part, operators=tuple(operators), key=names.get(key, key)))
    return replace(plan, parts=tuple(parts))
