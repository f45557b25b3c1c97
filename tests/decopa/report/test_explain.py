"""Plans as people see them: the tree on the terminal and the page for the browser."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.capacity import Capacity
from costmodel.rates import QueryRates
from costmodel.statistics import Statistics
from costmodel.throughput import Limit
from decopa.choices import Reading
from decopa.errors import PlanError
from decopa.language.text.parser import parse
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.price import PricedPlan, price_plan
from decopa.planning.split import SplitSpace
from decopa.planning.strategies.construct import construct
from decopa.planning.strategies.left_deep import left_deep
from decopa.planning.strategies.units import to_plan
from decopa.query.query import Query
from decopa.report.explain import explain, percent, quantity, verdict
from decopa.report.plan_page import NamedPlan, plan_page
from tests.support.plan_text import operator
from tests.support.plans import plans
from tests.support.strategies import queries

CAPACITY = Capacity(6_000, 60_000)
HOSTILE = "</title></text><script>alert('x')</script>\"&"


def statistics(query: Query, rates: dict[str, float] | None = None, selectivity: float = 0.01) -> Statistics:
    types = sorted({position.type for position in query.positions})
    pairs = itertools.combinations_with_replacement(types, 2)
    return Statistics.of(query.window_us, rates or dict.fromkeys(types, 10.0), dict.fromkeys(pairs, selectivity))


def paper_plan() -> PricedPlan:
    """Plan II of section 2.2: SEQ(A,C) and SEQ(B,C) on a unit each, their join on two."""
    query = parse("QUERY q PATTERN SEQ(A a, B b, C c) WITHIN 10 min")
    plan = QueryPlan(
        query,
        (
            operator("o1", "a", partitioned=True),
            operator("o2", "b", partitioned=True),
            operator("o3", "c"),
            operator("o4", "a c", "o1 o3"),
            operator("o5", "b c", "o2 o3", partitioned=True),
            operator("o6", "a b c", "o4 o5", units=2),
        ),
    )
    return price_plan(plan, statistics(query, {"A": 1000, "B": 1000, "C": 30}), CAPACITY)


def centralized(query: Query, *, slices: int = 1) -> PricedPlan:
    plan = left_deep(query)
    on_one = tuple(replace(one, hosts=(0,)) if one.inputs else one for one in plan.operators)
    rates = statistics(query, dict.fromkeys((position.type for position in query.positions), 500.0))
    return price_plan(replace(plan, operators=on_one, slices=slices), rates, CAPACITY)


def hostile_plan() -> PricedPlan:
    name = HOSTILE.replace('"', '""')
    query = parse(f'QUERY "{name}" PATTERN SEQ("{name}" a, B b) WITHIN 1 s')
    plan = left_deep(query)
    names = {one.name: f"{one.name}{HOSTILE}" for one in plan.operators}
    renamed = tuple(
        replace(one, name=names[one.name], inputs=tuple(names[source] for source in one.inputs))
        for one in plan.operators
    )
    return price_plan(replace(plan, operators=renamed), statistics(query), CAPACITY)


# ------------------------------------------------------------------ the tree


def test_the_papers_second_plan_is_limited_by_comparisons_at_its_root() -> None:
    priced = paper_plan()
    assert priced.scaling.scaling_factor == pytest.approx(2 / 3)
    assert explain(priced.plan, [priced]) == (
        "QUERY q PATTERN SEQ(A a, B b, C c) WITHIN 10 min\n"
        "3 operators on 4 units; c = 0.667, limited by comparison at o6 SEQ(A,B,C)\n"
        "rates per window, loads in % of what a unit sustains (6000 events and 60000 comparisons per window)\n"
        "\n"
        "operator        rule  units  matches       rate  ingestion  comparison\n"
        "o6 SEQ(A,B,C)   join      2  result          30      7.5 %       150 %  <- comparison limit\n"
        "├─ o4 SEQ(A,C)  join      1  broadcast      300       17 %       100 %\n"
        "│  ├─ o1 A      leaf      -  partitioned  1,000          -           -\n"
        "│  └─ o3 C      leaf      -  broadcast       30          -           -\n"
        "└─ o5 SEQ(B,C)  join      1  partitioned    300       17 %       100 %\n"
        "   ├─ o2 B      leaf      -  partitioned  1,000          -           -\n"
        "   └─ o3 C      see above\n"
    )  # fmt: skip


def test_a_plan_without_prices_shows_its_structure_alone() -> None:
    text = explain(Plan((paper_plan().plan,)))
    assert "3 operators on 4 units\n" in text
    assert "o6 SEQ(A,B,C)   join      2  result\n" in text
    assert "%" not in text and "limit" not in text


def test_color_adds_nothing_but_color() -> None:
    priced = paper_plan()
    colored = explain(priced.plan, [priced], color=True)
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == explain(priced.plan, [priced])


def test_long_sub_queries_continue_on_the_next_line_and_lose_nothing() -> None:
    query = parse("PATTERN SEQ(Submit s, AND(Schedule t, Evict e), Finish f) WITHIN 1 s")
    priced = price_plan(left_deep(query), statistics(query), CAPACITY)
    narrow = explain(priced.plan, [priced], width=80)
    assert max(map(len, narrow.splitlines())) <= 80
    tree = narrow.split("\n\n")[1].splitlines()
    assert tree[1:4] == [
        "o7 SEQ(Submit,           join      1  result      2e-8      0.2 %      <0.1 %",
        "│  AND(Schedule,Evict),",
        "│  Finish)",
    ]
    assert tree[6:9] == [
        "│  ├─ o3 SEQ(Submit,     join      1  broadcast      1      0.3 %       0.3 %",
        "│  │  │  Schedule)",
        "│  │  │  <- ingestion limit",
    ]


def test_loads_at_another_scaling_factor_and_reading_say_so() -> None:
    plan = paper_plan().plan
    rates = statistics(plan.query, {"A": 1000, "B": 1000, "C": 30})
    text = explain(plan, [price_plan(plan, rates, CAPACITY, reading=Reading.RATES, at=0.5)])
    assert "(rates reading)" in text
    assert "at scaling factor 0.5" in " ".join(text.split())


def test_operators_on_shared_units_are_added_up() -> None:
    priced = centralized(parse("PATTERN SEQ(A a, B b, C c) WITHIN 1 s"))
    text = explain(priced.plan, [priced])
    together = sum(figures.comparison_share for figures in priced.operators)
    assert "2 operators on 1 unit; " in text
    assert "limited by comparison at unit 0, shared by o3, o5" in text
    assert f"unit 0 shared by o3, o5: together 67 % ingestion, {percent(together)} comparison" in text
    assert text.count("<- comparison limit") == 2


def test_slices_are_mentioned() -> None:
    priced = centralized(parse("PATTERN SEQ(A a, B b, C c) WITHIN 1 s"), slices=5)
    assert "5 slices" in explain(priced.plan)
    assert "on 5 units" in explain(priced.plan)


def test_a_workload_ends_with_its_units_and_its_slowest_query() -> None:
    fast = parse("QUERY fast PATTERN SEQ(A a, B b) WITHIN 1 s")
    priced = [price_plan(left_deep(fast), statistics(fast), CAPACITY), paper_plan()]
    last = explain(Plan(tuple(one.plan for one in priced)), priced).splitlines()[-1]
    assert last == f"2 queries on 5 units in total; q: {verdict(priced[1])}"


def test_prices_of_another_plan_are_refused() -> None:
    with pytest.raises(PlanError, match="prices are of other plans"):
        explain(left_deep(parse("PATTERN SEQ(A a, B b) WITHIN 1 s")), [paper_plan()])


def test_positions_of_one_type_are_told_apart() -> None:
    text = explain(left_deep(parse("PATTERN SEQ(A first, A second) WITHIN 1 s")))
    assert "o1 A first" in text and "o2 A second" in text


def test_a_query_of_one_event_is_unlimited() -> None:
    query = parse("PATTERN A a WITHIN 1 s")
    priced = price_plan(left_deep(query), statistics(query), CAPACITY)
    assert "0 operators on 0 units; c is unlimited" in explain(priced.plan, [priced])
    assert "unlimited" in plan_page([NamedPlan("left-deep", priced)])


def test_a_hopeless_plan_does_not_sustain_zero() -> None:
    query = parse("PATTERN SEQ(A a, KL(B b)) WITHIN 1 s")
    rates = statistics(query, {"A": 2000, "B": 2000}, selectivity=1.0)
    priced = price_plan(left_deep(query), rates, CAPACITY)
    assert "c = under 1e-300, limited by" in explain(priced.plan, [priced])
    assert ">under 1e-300</td>" in plan_page([NamedPlan("left-deep", priced)])


def test_names_cannot_give_orders_to_the_terminal() -> None:
    text = explain(left_deep(parse('PATTERN SEQ("\x1b[2J\r\n" a, B b) WITHIN 1 s')))
    assert "\x1b" not in text and "\r" not in text
    assert r"\x1b[2J\r\n" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (2 / 3, "0.667"), (1000.0, "1,000"), (2.5e9, "2.5e9"), (1e-5, "1e-5"), (1e300, "over 1e300")],
)
def test_quantities_have_three_digits(value: float, text: str) -> None:
    assert quantity(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (1e-6, "<0.1 %"), (0.075, "7.5 %"), (2 / 3, "67 %"), (1.5, "150 %"), (250.0, "25,000 %"),
     (1.234e120, "1.2e122 %"), (float("inf"), ">1e299 %")],
)  # fmt: skip
def test_shares_fit_beside_their_bar(share: float, text: str) -> None:
    assert percent(share) == text
    assert len(text) <= 9


@given(st.data())
def test_every_operator_of_any_plan_is_shown_in_full_once(data: st.DataObject) -> None:
    for part in data.draw(plans(data.draw(queries()))).parts:
        tree = explain(part, width=500).split("\n\n", 1)[1].splitlines()[1:]
        shown = [line for line in tree if not line.endswith("see above")]
        assert len(shown) == len(part.operators)
        for one in part.operators:
            assert sum(f"{one.name} " in f"{line.lstrip('│├└─ ')} "[: len(one.name) + 1] for line in shown) == 1


# ------------------------------------------------------------------ the page


class Page(HTMLParser):
    """Elements with their attributes; fails on tags that are not closed in order."""

    VOID = frozenset({"meta", "rect", "path", "polygon"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def of_class(self, name: str) -> list[dict[str, str]]:
        return [attributes for _, attributes in self.elements if name in attributes.get("class", "").split()]


def test_the_page_shows_every_operator_and_edge_and_marks_the_bottleneck_once() -> None:
    priced = paper_plan()
    text = plan_page([NamedPlan("decopa-paper", priced)])
    page = Page(text)
    labels = [node["aria-label"] for node in page.of_class("node")]
    assert sorted(label.split("\n")[0] for label in labels) == sorted(
        f"{figures.operator.name} {figures.sub_query}" for figures in priced.operators
    )
    assert len(page.of_class("partitioned")) == 3 and len(page.of_class("broadcast")) == 3
    assert len(page.of_class("binds")) == 1
    assert text.count("bottleneck: comparison limit</text>") == 1


def test_each_operator_on_full_shared_units_is_marked() -> None:
    priced = centralized(parse("PATTERN SEQ(A a, B b, C c, D d) WITHIN 1 s"))
    assert len(Page(plan_page([NamedPlan("centralized", priced)])).of_class("binds")) == 3


def test_the_page_gives_the_shares_of_the_priced_plan() -> None:
    priced = paper_plan()
    text = plan_page([NamedPlan("decopa-paper", priced)])
    page = Page(text)
    bars = [float(bar["width"]) for bar in page.of_class("load")]
    shares = [
        s for one in priced.operators if one.rule.value != "leaf" for s in (one.ingestion_share, one.comparison_share)
    ]
    full = float(page.of_class("track")[0]["width"])
    assert bars == pytest.approx([full * min(share, 1) for share in shares], abs=0.06)
    for share in shares:
        assert f">{percent(share)}</text>" in text
    (root,) = (node["aria-label"] for node in page.of_class("binds"))
    assert "ingestion 450 of 6,000 (7.5 %)\ncomparisons 90,000 of 60,000 (150 %)" in root
    assert [bar["class"] for bar in page.of_class("load")].count("load limit") == 1
    assert next(one for one in priced.operators if one.operator.name == "o6").limit is Limit.COMPARISON


def test_edges_tell_what_each_unit_gets() -> None:
    labels = [
        edge["aria-label"]
        for edge in Page(plan_page([NamedPlan("x", paper_plan())])).of_class("edge")
        if edge.get("role")
    ]
    assert "o4 SEQ(A,C) to o6 SEQ(A,B,C)\n300 per window, broadcast: each of its 2 units gets 300" in labels
    assert "o5 SEQ(B,C) to o6 SEQ(A,B,C)\n300 per window, partitioned: each of its 2 units gets 150" in labels


def test_the_page_needs_nothing_from_elsewhere() -> None:
    text = plan_page([NamedPlan("decopa", paper_plan())])
    assert re.search(r"https?://|//[a-z]|url\(|@import|\bsrc=|\bhref=", text) is None


def test_names_in_queries_plans_and_strategies_cannot_become_markup() -> None:
    text = plan_page([NamedPlan(HOSTILE, hostile_plan())], title=HOSTILE)
    harmless = plan_page([NamedPlan("x", centralized(parse("PATTERN SEQ(A a, B b) WITHIN 1 s")))])
    assert "alert('x')" not in text
    assert [tag for tag, _ in Page(text).elements].count("script") == 1
    assert {tag for tag, _ in Page(text).elements} <= {tag for tag, _ in Page(harmless).elements}
    assert HOSTILE in unescape(text)


def test_dollar_signs_in_names_are_no_placeholders() -> None:
    query = parse('PATTERN SEQ("$title ${sections}" a, B b) WITHIN 1 s')
    text = plan_page([NamedPlan("$title", price_plan(left_deep(query), statistics(query), CAPACITY))])
    assert "$title ${sections}" in text


def test_strategies_are_compared_with_the_centralized_one() -> None:
    query = parse("PATTERN SEQ(A a, B b, C c) WITHIN 1 s")
    slow = centralized(query)
    rates = statistics(query, {"A": 500, "B": 500, "C": 500})
    space = SplitSpace(query, QueryRates(query, rates))
    fast = price_plan(to_plan(space, construct(space, 6, CAPACITY)), rates, CAPACITY)
    text = plan_page([NamedPlan("decopa", fast), NamedPlan("centralized", slow)])
    gain = fast.scaling.scaling_factor / slow.scaling.scaling_factor
    table = text[text.index("<table") : text.index("</table>")]
    assert f">{quantity(gain)}x</td>" in table
    assert table.count("1x (baseline)") == 1
    assert re.findall(r'class="best"><th scope="row">(.*?)</th>', table) == ["decopa"]
    assert text.count("<figure>") == 2 and text.count("<section") == 1


def test_queries_of_a_workload_get_a_section_each() -> None:
    one, other = paper_plan(), centralized(parse("QUERY other PATTERN SEQ(A a, B b) WITHIN 1 s"))
    assert plan_page([NamedPlan("decopa", one), NamedPlan("decopa", other)]).count("<section") == 2


def test_a_page_without_plans_is_refused() -> None:
    with pytest.raises(PlanError, match="no plan to draw"):
        plan_page([])


@given(st.data())
def test_boxes_of_any_plan_do_not_overlap_and_lie_inside_of_the_drawing(data: st.DataObject) -> None:
    for part in data.draw(plans(data.draw(queries()))).parts:
        page = Page(plan_page([NamedPlan("x", price_plan(part, statistics(part.query), CAPACITY))]))
        drawing = next(attributes for tag, attributes in page.elements if tag == "svg" and "viewbox" in attributes)
        width, height = map(float, drawing["viewbox"].split()[2:])
        corners = [tuple(map(float, re.findall(r"[-\d.]+", node["transform"]))) for node in page.of_class("node")]
        sizes = [(float(box["width"]), float(box["height"])) for box in page.of_class("box")]
        boxes = [(x, y, x + w, y + h) for (x, y), (w, h) in zip(corners, sizes, strict=True)]
        assert len(boxes) == len(part.operators)
        assert all(x >= 0 and y >= 0 and right <= width and bottom <= height for x, y, right, bottom in boxes)
        for (x, y, right, bottom), (x2, y2, right2, bottom2) in itertools.combinations(boxes, 2):
            assert right < x2 or right2 < x or bottom < y2 or bottom2 < y
