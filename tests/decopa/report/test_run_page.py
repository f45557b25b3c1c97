"""The page about a run."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa

from actors.latency import LatencySummary
from cluster.deploy.recorder import Recorder, Sample
from decopa.api import run_detailed
from decopa.commands.cli import main
from decopa.files import write_batches
from decopa.report.chart import Series, line_chart, ticks
from decopa.report.run_page import RunReport, matches_per_minute, report_page
from decopa.report.run_summary import PartSummary, reports_of
from decopa.traces.synthetic import SyntheticSpec

SPEC = SyntheticSpec(events=5_000, types=2, seed=1)
QUERY = 'QUERY "<b>" PATTERN SEQ(A a, B b) WHERE a.s = b.s AND a.x < b.x WITHIN 50 ms'


class _Balanced(HTMLParser):
    """Every element that is opened is closed, and nothing is loaded from elsewhere."""

    VOID = ("meta", "rect", "path", "line", "polyline", "polygon", "circle", "br", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def check(page: str) -> None:
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    assert parser.loaded == []


def test_the_page_of_a_local_run(tmp_path: Path) -> None:
    trace, page = tmp_path / "t.parquet", tmp_path / "run.html"
    write_batches(SPEC.schema, SPEC.batches(), trace, overwrite=False)
    arguments = ["run", QUERY, "--trace", str(trace), "--runtime", "local", "--report", str(page), "--quiet"]
    assert main(arguments) == 0
    text = page.read_text()
    check(text)
    assert "Matches per minute of event time" in text
    assert "<b>" not in text
    assert "SEQ(A,B)" in text
    assert main(arguments) == 2  # it is not overwritten unless asked for


def test_the_page_of_a_run_on_ray_names_the_busiest_unit() -> None:
    result = run_detailed(QUERY, SPEC.table())
    parts = [
        PartSummary(plan, mine) for plan, mine in zip(result.plan.parts, reports_of(result.plan, result.operators))
    ]
    samples = [
        Sample(
            second, 100 * second, second, {"b/o3/0": 0.9 * second, "b/o3/1": 0.2 * second}, LatencySummary(3, 1, 2, 2)
        )
        for second in range(5)
    ]
    page = report_page(RunReport(result, tuple(parts), tuple(samples), "decopa", emulated="5 events"))
    check(page)
    assert "b/o3/0" in page
    assert "busy 90 %" in page
    assert "(emulated)" in page


def test_matches_are_counted_by_the_minute_in_which_they_end() -> None:
    table = pa.table({"end_ts": [0, 60_000_000, 60_000_001, 600 * 60_000_000]})
    series = matches_per_minute(table)
    assert sum(series.y) * (series.x[1] - series.x[0]) * 60 == 4
    assert matches_per_minute(table.slice(0, 0)).x == []


def test_a_recorder_keeps_few_samples_however_long_a_run_is() -> None:
    now = [0.0]
    recorder = Recorder(interval_s=1, clock=lambda: now[0])
    note = recorder.watching(None)
    for second in range(5_000):
        now[0] = float(second)
        note(second, 0)
    assert 200 <= len(recorder.samples) <= 600
    assert recorder.samples[-1].events > 4_900


def test_charts_have_round_ticks_and_say_when_they_are_empty() -> None:
    assert ticks(0, 97) == [0, 20, 40, 60, 80, 100]
    assert "nothing was measured" in line_chart("t", [], x_label="x", y_label="y")
    check(line_chart("a < b", [Series("s", [0, 1], [0.0, 0.0])], x_label="x", y_label="y"))
