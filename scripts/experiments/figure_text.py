"""What each figure of the paper shows, what its text says about it, and what it leaves open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """`measure` is what is drawn: gains of `all` strategies or the `main` ones over centralized, of DecoPa `over
    hybrid`, or events `exchanged`. `differs` is said of the results with 50 seeds.
    """

    title: str
    axis: str
    measure: str
    varies: str
    paper: str
    differs: str


FIGURES = {
    "9": Figure(
        "comparison against state-of-the-art approaches",
        "gain over centralized (factor)",
        "all",
        "Varies the number of units (5 to 20) and the length of the query (4 to 7 types, 15 units; the text calls this "
        "panel Fig. 17b). Gains of all strategies over centralized.",
        "no values in the text but: state-parallel does not depend on the units; DecoPa gains more than 2 orders of "
        "magnitude at length 7; Hybrid is the best baseline; the steepest rise of DecoPa is from 5 to 15 units.",
        "The rise from 5 to 15 units and the flat `state` agree. The gain at length 7 is one order of magnitude, not "
        "two, and falls with the length: how much there is to gain depends on the rates, whose unit the paper leaves "
        "open (windows of 30 minutes, Figure 11, give three orders). `rip` gains half the number of units by "
        "construction, since the model charges it only for overlapping batches; that is more than `hybrid` at 5, 15 "
        "and 20 units and from 6 types on.",
    ),
    "11": Figure(
        "throughput gain over centralized",
        "gain over centralized (factor)",
        "main",
        "Varies units, query length, time window (1 to 30 minutes; iota and kappa grow with the window as the rates "
        "do), and the rate of a Kleene type (1, 10 and 100 times the mean of the other types). Open in the paper: the "
        "length of the Kleene queries (here 4), and where the KL stands (here anywhere).",
        "5 orders of magnitude for long queries, up to 5 for long windows, up to 12 over Hybrid for Kleene.",
        "One order for long queries and three for long windows, see Figure 9. Kleene gains are far larger than the "
        "paper's: match rates of KL grow exponentially with the rate, so centralized and Hybrid sustain next to "
        "nothing. The authors' search for c stops near 0.001 (see Table 3), which bounds what they can show.",
    ),
    "12": Figure(
        "throughput gain over Hybrid",
        "gain over Hybrid (factor)",
        "over hybrid",
        "Varies the units for kappa 60k and 600k and for types in random order or ordered by rate. The paper calls "
        "increasing rates the worst case for Hybrid; under its cost model that is decreasing rates (the first join "
        "then takes the two most frequent types), as the authors' generator orders them. Both are shown.",
        "no values; lower kappa and ordered types give the largest gains.",
        "Agrees for decreasing rates. For increasing rates Hybrid's order is a good one already: there is less to "
        "gain, and kappa makes no difference to the medians. With 5 units there are as many operators as units, so "
        "only the order can gain. `decopa` is often behind `decopa-paper` by up to 0.1 %, the width at which its "
        "search for c stops.",
    ),
    "14": Figure(
        "events exchanged at the largest c of Hybrid",
        "matches sent per window",
        "exchanged",
        "The matches of sub-queries that units send each other per window when all plans run at Hybrid's largest c, "
        "for the four sweeps of Figure 11. Open: whether primitive events count (here they do not, they come from the "
        "sources) and whether the plan is made for this c (here it is the plan for the largest c).",
        "no values; lower by orders of magnitude for DecoPa.",
        "Agrees, by one to three orders but for Kleene. `decopa-paper` sends least, since it chooses sub-queries with "
        "few matches; `decopa` looks at c alone. With Kleene at 10 and 100 times the mean rate, Hybrid's c is mostly "
        "so small that no plan sends anything.",
    ),
    "15": Figure(
        "workloads of several queries",
        "gain over centralized (factor)",
        "main",
        "Varies the number of queries (1 to 7, of 3 or 4 out of 8 types) on 20 units; c is that of the slowest query. "
        "Our planner divides the units among the queries and shares no operators yet, so this is the figure without "
        "its sharing. Where a query gets fewer units than it has operators, all of it runs on one unit. Open in the "
        "paper: lengths and units (the authors' script allows as many operators as 20 units hold).",
        "no values; DecoPa scales proportionally thanks to sharing, Hybrid falls with more queries.",
        "Hybrid falls, too. Without sharing DecoPa holds its gain up to 5 queries and falls at 7, when each query has "
        "hardly more units than operators.",
    ),
    "17": Figure(
        "results on bounds",
        "gain over centralized (factor)",
        "main",
        "Varies the query length on 15 units in an ingestion-bound (kappa 500k, iota 2k) and a comparison-bound (kappa "
        "60k, iota 15k) setting.",
        "no values; notable improvements in both.",
        "Agrees: 1.8 to 5.6 times the gain of Hybrid.",
    ),
}
