"""Table 3: the case study, as the published plans, the paper's algorithm and our search would evaluate it."""

from __future__ import annotations

from typing import Any

from decopa.planning.network.graphs.graph import NetworkPlan, Vertex
from decopa.planning.network.graphs.price import price
from decopa.planning.network.graphs.validate import violations
from decopa.planning.subquery import SubQuery
from scripts.experiments.context import Context, Section, markdown_table
from scripts.muse.instances import Problem, Published
from scripts.muse.strategies import planned

NAME = "table3"
#: Rows of Table 3, their queries, the file with the published plan, and the printed ratios of aMuSE and oOP.
ROWS = {
    "SEQ": (("SEQ(D, C, F, H)",), "SEQ2_MS", "1 %", "91 %"),
    "AND": (("AND(E, D, F, H)",), "AND3_MS", "4 %", "95 %"),
    "QWL": (("SEQ(D, C, F, H)", "SEQ(C, B, AND(D, I))", "AND(E, D, F, H)"), "QWL2_MS", "5 %", "95 %"),
}


def run(context: Context) -> Section:
    inputs = Published(context.shared / "data" / "muse" / "inputs.json")
    header = ["", "paper, aMuSE", "paper, oOP", "published plan", "oOP", "aMuSE", "search"]
    header += ["search, implied equalities", "with reducers"]
    rows = []
    for name, (patterns, file, printed, printed_oop) in ROWS.items():
        problem, keyed = inputs.case_study(*patterns), inputs.case_study(*patterns, keyed=True)
        central = sum(problem.network.total_rate(t) for t in {t for q in problem.queries for t in q.event_types})
        plan = published_plan(problem, inputs.plan(file))
        wrong = next(violations(plan), None)
        cost = price(plan, problem.rates()).cost
        shown = (
            _shown(cost, central) if wrong is None else f"rejected: {wrong.operator}: {wrong.message} [{wrong.rule}]"
        )
        found = [planned(problem, strategy)[1].cost for strategy in ("oop", "amuse", "search")]
        found += [planned(keyed, strategy, implied=True)[1].cost for strategy in ("search", "search+reducers")]
        rows.append((name, printed, printed_oop, shown, *(_shown(one, central) for one in found)))
    link = context.write_csv("case_study.csv", header, rows)
    about = (
        "Rows per window and their share of centralized evaluation, on 20 nodes that all produce all types, with the "
        "published rates and selectivities. With implied equalities, four events of one key have the selectivity of "
        "three equalities, and pairs that skip a link of the chain are as selective as neighbours.\n\n"
    )
    return Section(NAME, "Table 3: the case study", f"{about}{markdown_table(header, rows)}\n{link}\n")


def published_plan(problem: Problem, steps: list[dict[str, Any]]) -> NetworkPlan:
    """A plan of the authors as a graph: every node of a projection reads its own part of the partitioning input and
    all of the others."""
    network = problem.network
    vertices: dict[tuple[int, frozenset[str], str], Vertex] = {}
    for part, query in enumerate(problem.queries):
        wanted = {frozenset(_letters(step["projection"])): step for step in _of_query(steps, query.event_types)}
        for position in query.positions:
            for node in network.producers(position.type):
                key = (part, frozenset({position.type}), node)
                vertices[key] = Vertex(
                    f"{part}:{position.alias}@{node}", part, SubQuery(frozenset({position.alias})), node
                )
        for types, step in sorted(wanted.items(), key=lambda item: len(item[0])):
            alias_of = {one.type: one.alias for one in query.positions}
            sub_query = SubQuery(frozenset(alias_of[name] for name in types))
            partitioning = frozenset(_letters(step["partitioning_input"]))
            several = len(step["nodes"]) > 1
            for node in map(str, step["nodes"]):
                inputs = []
                for read in (frozenset(_letters(one)) for one in step["inputs"]):
                    hosts = [key for key in vertices if key[0] == part and key[1] == read]
                    own = several and read == partitioning
                    inputs += [vertices[key].name for key in hosts if not own or key[2] == node]
                name = f"{part}:{step['projection'].replace(' ', '')}@{node}"
                vertices[part, types, node] = Vertex(name, part, sub_query, node, tuple(inputs))
    producers = {name: network.producers(name) for name in network.event_types}
    return NetworkPlan(problem.queries, network.nodes, producers, tuple(vertices.values()))


def _of_query(steps: list[dict[str, Any]], types: tuple[str, ...]) -> list[dict[str, Any]]:
    """The steps that lead to the query of these types: the last one, and what its inputs name."""
    by_text = {step["projection"].replace(" ", ""): step for step in steps}
    found: list[dict[str, Any]] = []

    def add(step: dict[str, Any]) -> None:
        for one in step["inputs"]:
            if (below := by_text.get(one.replace(" ", ""))) is not None:
                add(below)
        if step not in found:
            found.append(step)

    add(next(step for step in steps if set(_letters(step["projection"])) == set(types)))
    return found


def _letters(text: str) -> list[str]:
    """The types in a projection such as SEQ(C, AND(D, I))."""
    for word in ("SEQ", "AND"):
        text = text.replace(word, "")
    return [letter for letter in text if letter.isalpha()]


def _shown(cost: float, central: float) -> str:
    return f"{cost:,.2f} ({100 * cost / central:.2f} %)"
