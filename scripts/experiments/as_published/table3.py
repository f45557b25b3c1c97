"""Table 3: gains over centralized on the inputs that the authors published, next to what they printed."""

from __future__ import annotations

from decopa.choices import Reading
from scripts.experiments.as_published.published import PaperQuery, load, paper_queries
from scripts.experiments.context import Context, Section, markdown_table

NAME = "table3"
UNITS = (5, 10, 15, 20)
STRATEGIES = ("decopa-paper", "decopa", "hybrid")
#: Cells that the published inputs suffice for; the others are off for the reasons below.
REPRODUCIBLE = ("google_Q2", "google_Q3")
WITHIN = 0.05

REASONS = {
    "citibike_Q1": "The folder with this query has selectivity 0.09, plans limited at 2000 events, and a ratio of 4.2 "
    "between its two plans where the table has 80.8: the inputs behind the printed column were not published.",
    "citibike_Q2": "No published folder holds this query; 0.07 is the selectivity of the other Citi Bike folders.",
    "citibike_Q3": "The printed gains imply a centralized c of 0.00102, the resolution at which the authors' search "
    "stops; their tool does not scale the comparisons of a Kleene operator with c for centralized and Hybrid. The "
    "ratio DecoPa : Hybrid is the part that can be compared.",
    "google_Q1": "The printed order (Submit first) is used here; it gives the column's magnitude. The published folder "
    "has Submit last and other gains (43.5 and 1.06); which order and iota made the column is not known.",
    "google_Q2": "Inputs of folder google_Q2, AND(D,C,I,E), since the printed query names a type without a rate; iota "
    "2400, at which the published plans were limited (2500 is printed).",
    "google_Q3": "The types in the order of folder google_Q3, AND(KL(D),I,B), and its selectivity 1 for I and B, from "
    "which its published rates come (B before I has 0.07); iota 2400 as for Q2.",
}


def run(context: Context) -> Section:
    queries = paper_queries(load(context.shared))
    body = [
        f"Command: {context.command(NAME)}. Inputs: rates, selectivities, kappa and iota of `paper_table3.json` per "
        f"query; Google with iota 2400. Rates as the authors' planner computes them: a KL counts among the children of "
        "an AND (the printed formula leaves it out). Gains are c / c of `centralized` on one unit.\n\n"
        "This is no blind reproduction. What the paper leaves open was chosen so that the published plans and the "
        "Google columns come out, after looking at the plans and at how the authors' public tool behaves: KL closed "
        "where it stands (tried: last), the cost of a split with its input (tried: comparisons alone), units in "
        "proportion to both, KL counted among the children of AND (tried: the printed formula), the folder's order of "
        "Google Q3 (tried: the printed one), the selectivity of I and B (the folder holds 0.07 and 1), and at most "
        "units - 1 operators (the tool's units - 2 would fit Q3 at 5 units, but neither Q2 there nor Figure 2).\n"
    ]
    rows, checks = [], []
    for reading in Reading:
        gains = {query.name: _gains(query, reading) for query in queries}
        body.append(f"\n**c read as `{reading.value}`**" + (" (the paper's formulas)" if not rows else "") + "\n\n")
        table = []
        for query in queries:
            for units in UNITS:
                printed = query.gains[units]
                ours = gains[query.name][units]
                cells = [ours[one] for one in STRATEGIES]
                row = [query.name, units, printed["DecoPa"], cells[0], cells[1], printed["Hybrid"], cells[2]]
                table.append([*row[:2], *(float(cell) for cell in row[2:])])
                rows.append([reading.value, *row])
                if reading is Reading.LINEAR and query.name in REPRODUCIBLE:
                    for strategy, column in (("decopa-paper", "DecoPa"), ("hybrid", "Hybrid")):
                        off = ours[strategy] / printed[column] - 1
                        checks.append([query.name, units, strategy, printed[column], ours[strategy], off])
        body.append(markdown_table(_HEADER, table))
    link = context.write_csv("table3.csv", ["reading", *_CSV_HEADER], rows)
    body.append(f"\nAs numbers: {link}.\n\n**Google Q2 and Q3 within 5 %** (linear reading)\n\n")
    verdicts = [
        [*check[:3], float(check[3]), check[4], f"{check[5]:+.1%}", "yes" if abs(check[5]) <= WITHIN else "NO"]
        for check in checks
    ]
    body.append(markdown_table(["query", "units", "strategy", "paper", "ours", "difference", "within 5 %"], verdicts))
    body.append(
        "\nThe paper prints one decimal; a printed 1.2 stands for anything from 1.15 to 1.25.\n\n"
        "**Why other cells differ**\n\n"
    )
    body += [f"- {name}: {reason}\n" for name, reason in REASONS.items()]
    body.append(
        "- `rates` multiplies the primitive rates, so loads grow with a power of c and all gains shrink to that "
        "power's root; the printed gains are linear ones.\n"
    )
    return Section(NAME, "Table 3: throughput gain for the real-world data sets", "".join(body))


_HEADER = ["query", "units", "paper DecoPa", "`decopa-paper`", "`decopa`", "paper Hybrid", "`hybrid`"]
_CSV_HEADER = ["query", "units", "paper_decopa", "decopa_paper", "decopa", "paper_hybrid", "hybrid"]


def _gains(query: PaperQuery, reading: Reading) -> dict[int, dict[str, float]]:
    base = query.case.scaling("centralized", 1, reading)
    return {units: {one: query.case.scaling(one, units, reading) / base for one in STRATEGIES} for units in UNITS}
