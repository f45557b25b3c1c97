"""The authors' published plans under our cost model, next to the plans that our strategies make for as many units."""

from __future__ import annotations

from decopa.choices import Reading
from decopa.planning.validate import violations
from scripts.experiments.as_published.published import PublishedPlan, load, published_plans
from scripts.experiments.context import Context, Section, markdown_table

NAME = "authors"
_ROUNDING = 1e-6
HYBRID_WITHIN = 0.1


def run(context: Context) -> Section:
    plans = published_plans(load(context.shared))
    rows = []
    for plan in plans:
        problems = "; ".join(one.message for one in violations(plan.plan)) or "none"
        for reading in Reading:
            theirs = plan.case.priced(plan.plan, reading).scaling
            ours = {one: plan.case.scaling(one, plan.units, reading) for one in ("decopa", "decopa-paper", "hybrid")}
            limit = theirs.limit.value if theirs.limit else "none"
            whose = [plan.group, plan.kind, plan.letters, plan.units, problems, plan.scaling_factor, reading.value]
            rows.append([*whose, theirs.scaling_factor, limit, *ours.values()])
    header = ["folder", "kind", "query", "units", "violations", "authors' c", "reading", "c of their plan", "limit"]
    link = context.write_csv("authors_plans.csv", [*header, "decopa", "decopa-paper", "hybrid"], rows)
    body = [
        f"Command: {context.command(NAME)}. All {len(plans)} published plans (some queries have two DecoPa plans, one "
        "of them for Hybrid's rates) as our plans, priced by our cost model; ours with as many units. Their c differs "
        "from the one they ran at where they used other limits (2000 events, 60,000 comparisons) or another Kleene "
        f"cost: their tool divides all comparisons of a binary Kleene operator by its units, the printed formula only "
        f"some. All figures: {link}.\n\n"
    ]
    for reading in Reading:
        body.append(f"**c read as `{reading.value}`**\n\n" + _comparison(plans, rows, reading) + "\n")
    return Section(NAME, "The authors' own plans", "".join(body))


def _comparison(plans: list[PublishedPlan], rows: list[list[object]], reading: Reading) -> str:
    table = []
    for group in dict.fromkeys(plan.group for plan in plans):
        mine = [row for row in rows if row[0] == group and row[6] == reading.value]
        decopa = max((row for row in mine if row[1] == "DecoPa"), key=lambda row: float(str(row[7])))
        hybrid = next(row for row in mine if row[1] == "Hybrid")
        theirs, ours = float(str(decopa[7])), float(str(decopa[9]))
        their_hybrid, our_hybrid = float(str(hybrid[7])), float(str(hybrid[11]))
        off = our_hybrid / their_hybrid - 1
        at_least = "yes" if ours >= theirs * (1 - _ROUNDING) else "NO"
        near = "yes" if abs(off) <= HYBRID_WITHIN else "NO"
        paper = float(str(decopa[10]))
        table.append([group, decopa[2], theirs, paper, ours, at_least, their_hybrid, our_hybrid, f"{off:+.1%}", near])
    header = ["folder", "query", "their DecoPa plan", "`decopa-paper`", "`decopa`", "at least theirs"]
    return markdown_table([*header, "their Hybrid plan", "`hybrid`", "difference", "within 10 %"], table)
