"""The authors' published inputs and plans (`paper_table3.json`) as our queries, statistics and plans."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costmodel.capacity import Capacity
from costmodel.formulas import RateModel
from costmodel.statistics import Statistics
from costmodel.time_order import TimeOrder
from decopa.language.text.parser import parse
from decopa.planning.plan import PlanOperator, QueryPlan
from decopa.planning.subquery import SubQuery
from decopa.query.query import Query
from scripts.experiments.model import Case

MINUTE_US = 60_000_000  # one window is replayed as one minute
#: Rates as the authors' planner computes them: a KL counts among the children of an AND.
TOOL = RateModel(time_order=TimeOrder.TOOL)
#: What the published Google plans were limited at; 2500 is printed (see the notes of the file).
GOOGLE_IOTA = 2400
#: Printed Google Q2 has a type without a rate, and Q3 lists its types in another order than the folders that reproduce
#: their numbers; these are the folders' queries.
_PATTERNS = {"google_Q2": "AND(D,C,I,E)", "google_Q3": "AND(KL(D),I,B)"}


@dataclass(frozen=True)
class PaperQuery:
    """A query of Table 3 with its inputs and the printed gains by units and strategy."""

    name: str
    letters: str
    case: Case
    gains: dict[int, dict[str, float]]


@dataclass(frozen=True)
class PublishedPlan:
    """A plan of the authors' repository; `scaling_factor` is what they ran it at."""

    folder: str
    group: str
    kind: str
    letters: str
    case: Case
    plan: QueryPlan
    units: int
    scaling_factor: float


def load(shared: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((shared / "data" / "paper_table3.json").read_text())
    return document


def paper_queries(document: dict[str, Any]) -> list[PaperQuery]:
    found = []
    for name, entry in document["queries"].items():
        letters = _PATTERNS.get(name, entry["pattern_letters"])
        rates = {one["letter"]: float(one["rate_per_window"]) for one in entry["event_types"]}
        entry = {**entry, "asymmetric_entries": _asymmetric(document, entry["nearest_folder"])}
        gains = {int(units): dict(values) for units, values in entry["gains"].items()}
        found.append(PaperQuery(name, letters, _case(letters, rates, entry, name, entry["kappa"]), gains))
    return found


def published_plans(document: dict[str, Any]) -> list[PublishedPlan]:
    kappas = document["constants"]["kappa"]
    found = []
    for entry in document["folders"]:
        group = entry["query_folder"]
        rates = {letter: float(rate) for letter, rate in entry["rates_per_window_unscaled"].items()}
        case = _case(entry["query"], rates, entry, group, kappas[group.split("_")[0]])
        plan = plan_from(case.query, entry["operators"])
        units = sum(len(one["units"]) for one in entry["operators"])
        kind, factor = entry["plan_kind"], entry["scaling_from_matrix"]
        found.append(PublishedPlan(entry["folder"], group, kind, entry["query"], case, plan, units, factor))
    return found


def plan_from(query: Query, operators: list[dict[str, Any]]) -> QueryPlan:
    """Their operators as ours. They note with each input how it comes in; we note it with the operator that sends it.

    What goes to a single unit is neither dealt out nor broadcast; it counts as broadcast.
    """
    composite = {_sub_query(one["sub_query"]): one for one in operators}
    dealt: set[SubQuery] = set()
    leaves: dict[SubQuery, None] = {}
    for one in operators:
        for source in one["inputs"]:
            sub_query = _sub_query(source["name"])
            if sub_query not in composite:
                leaves[sub_query] = None
            if source["distribution"].startswith("partition") and len(one["units"]) > 1:
                dealt.add(sub_query)
    names = {sub_query: f"o{number}" for number, sub_query in enumerate([*leaves, *composite], 1)}
    made = [PlanOperator(names[leaf], leaf, partitioned=leaf in dealt) for leaf in leaves]
    for sub_query, one in composite.items():
        sources = tuple(names[_sub_query(source["name"])] for source in one["inputs"])
        made.append(PlanOperator(names[sub_query], sub_query, sources, len(one["units"]), sub_query in dealt))
    return QueryPlan(query, tuple(made))


def _case(letters: str, rates: dict[str, float], entry: dict[str, Any], name: str, kappa: float) -> Case:
    query = parse(f"PATTERN {_with_aliases(letters)} WITHIN 1 min")
    selectivities = {(pair[0], pair[1]): float(value) for pair, value in entry["pairwise_selectivities"].items()}
    for pair, values in (entry["asymmetric_entries"] or {}).items():
        selectivities[pair[0], pair[1]] = float(max(values.values()))  # what the published sub-query rates come from
    for position in query.positions:
        if position.kleene:
            selectivities[position.type, position.type] = entry["kleene_self_selectivity"]
    iota = GOOGLE_IOTA if name.startswith("google") else 2500
    return Case(query, Statistics.of(MINUTE_US, rates, selectivities), Capacity(iota, kappa), TOOL)


def _asymmetric(document: dict[str, Any], folder: str | None) -> dict[str, dict[str, float]] | None:
    """Pairs for which the folder of a query has two selectivities, one for each order of the two."""
    found = [one["asymmetric_entries"] for one in document["folders"] if one["query_folder"] == folder]
    return next((one for one in found if one), None)


def _with_aliases(letters: str) -> str:
    """`AND(KL(D),I)` with each type's small letter as its alias."""
    return re.sub(r"\b([A-Z])\b", lambda found: f"{found[1]} {found[1].lower()}", letters)


def _sub_query(letters: str) -> SubQuery:
    aliases = frozenset(one.lower() for one in re.findall(r"\b[A-Z]\b", letters))
    return SubQuery(aliases, frozenset(one.lower() for one in re.findall(r"KL\(([A-Z])\)", letters)))
