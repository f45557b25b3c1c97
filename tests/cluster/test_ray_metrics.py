"""What a run shows to Prometheus is what it reports, and the dashboard asks for nothing else."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import decopa
from actors.columnar.jit import interpreted
from actors.metrics import CATALOGUE, LATENCY_BOUNDS_S, UNIT_METRICS
from cluster.options import RayOptions
from decopa.runs.result import RunResult
from decopa.traces.synthetic import SyntheticSpec
from shuffler.exchange.ray_metrics import SHUFFLER_METRICS, TAGS
from shuffler.source.pacing import Replay

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "cluster" / "grafana" / "dashboards" / "decopa.json"
PATTERN = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x AND b.k = c.k WITHIN 200 ms"
#: Ray hands metrics on every 10 s, and when an actor ends.
PATIENCE_S = 40.0


@dataclass(frozen=True)
class Sample:
    name: str
    tags: Mapping[str, str]
    value: float


def scrape() -> Iterator[Sample]:
    """The numbers of this project at the Prometheus endpoint of the node."""
    import ray
    from prometheus_client.parser import text_string_to_metric_families

    (node,) = [node for node in ray.nodes() if node["Alive"]]
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("ray_decopa_"):
                yield Sample(sample.name, sample.labels, sample.value)


@dataclass(frozen=True)
class Scraped:
    result: RunResult
    samples: tuple[Sample, ...]

    def total(self, name: str, **tags: str) -> float:
        return sum(sample.value for sample in self.of(name, **tags))

    def of(self, name: str, **tags: str) -> list[Sample]:
        return [one for one in self.samples if one.name == name and tags.items() <= one.tags.items()]


@pytest.fixture(scope="module")
def scraped(ray_cluster: None) -> Scraped:
    """A run with metrics, after one without, and what Prometheus would read a little later."""
    spec = SyntheticSpec(events=1_500, rate_per_s=1000, types=3, keys=10, zipf=0.5, seed=4)
    events = pa.Table.from_batches(list(spec.batches()))
    with interpreted():
        decopa.run(f"QUERY hidden {PATTERN}", events, units=2, runtime="ray", ray=RayOptions(metrics=False))
        options = RayOptions(shufflers=2, replay=Replay(rate=500.0))
        result = decopa.run_detailed(f"QUERY shown {PATTERN}", events, units=4, runtime="ray", ray=options)
    # An actor's last numbers come together, so the run is known as a whole once every actor's total is.
    expected = sum(report.comparisons for report in result.operators) + result.matches.num_rows + result.events
    counted = ("ray_decopa_comparisons_total", "ray_decopa_query_matches_total", "ray_decopa_events_total")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = Scraped(result, tuple(scrape()))
        if sum(found.total(name, query="shown") for name in counted) >= expected or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


@pytest.mark.ray
def test_totals_are_those_that_the_run_reports(scraped: Scraped) -> None:
    result = scraped.result
    assert result.matches.num_rows > 1_000
    for report in result.operators:
        tags = {"query": "shown", "operator": report.name}
        assert scraped.total("ray_decopa_ingested_rows_total", **tags) == report.ingested
        assert scraped.total("ray_decopa_comparisons_total", **tags) == report.comparisons
        assert scraped.total("ray_decopa_matches_total", **tags) == report.emitted
        assert {one.tags["unit"] for one in scraped.of("ray_decopa_state_rows", **tags)} == {"0", "1"}
    assert scraped.total("ray_decopa_events_total", query="shown") == result.events
    assert scraped.total("ray_decopa_query_matches_total", query="shown") == result.matches.num_rows


@pytest.mark.ray
def test_latency_is_shown_in_buckets_and_as_quantiles(scraped: Scraped) -> None:
    buckets = {
        float(one.tags["le"]): one.value
        for one in scraped.of("ray_decopa_detection_latency_seconds_bucket_total", query="shown")
    }
    assert buckets[float("inf")] == scraped.result.latency.count == scraped.result.matches.num_rows
    assert set(buckets) <= {*LATENCY_BOUNDS_S, float("inf")}
    counts = [buckets[bound] for bound in sorted(buckets)]
    assert counts == sorted(counts)
    assert scraped.total("ray_decopa_detection_latency_p99_seconds", query="shown") == scraped.result.latency.p99_s


@pytest.mark.ray
def test_every_process_shows_its_work_under_its_actors_name(scraped: Scraped) -> None:
    units = {f"shown/{report.name}/{unit}" for report in scraped.result.operators for unit in range(2)}
    shufflers = {"shown/shuffler/0", "shown/shuffler/1"}
    busy = scraped.of("ray_decopa_busy_fraction", query="shown")
    assert {one.tags["process"] for one in busy} == units | shufflers
    assert all(0 <= one.value <= 1 for one in busy)
    queues = scraped.of("ray_decopa_queue_messages", query="shown")
    assert {one.tags["process"] for one in queues} == {*units, "shown/sink"}
    assert {one.tags["sender"] for one in queues} == units | shufflers
    lags = {one.tags["process"]: one.value for one in scraped.of("ray_decopa_watermark_lag_seconds", query="shown")}
    assert lags == dict.fromkeys([*units, "shown/sink"], 0.0)


@pytest.mark.ray
def test_nothing_is_shown_that_is_not_listed(scraped: Scraped) -> None:
    assert {sample.name for sample in scraped.samples} <= set(CATALOGUE)
    assert {spec.exported for spec in (*UNIT_METRICS, *SHUFFLER_METRICS) if spec.kind == "gauge"} <= {
        sample.name for sample in scraped.samples
    }
    for sample in scraped.samples:
        assert set(CATALOGUE[sample.name].tags) <= set(sample.tags)


@pytest.mark.ray
def test_metrics_can_be_turned_off(scraped: Scraped) -> None:
    assert not [sample for sample in scraped.samples if sample.tags["query"] == "hidden"]


def test_every_metric_is_documented() -> None:
    text = (ROOT / "docs" / "profiling.md").read_text()
    shortened = text.replace("`_p99_seconds`", "`ray_decopa_detection_latency_p99_seconds`")
    assert set(re.findall(r"ray_decopa_\w+", shortened)) == set(CATALOGUE)


# ------------------------------------------------------------- Grafana


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def expressions(dashboard: Mapping[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def test_the_dashboard_asks_only_for_metrics_that_exist(dashboard: dict[str, Any]) -> None:
    asked = set(re.findall(r"ray_decopa_\w+", json.dumps(dashboard)))
    assert asked <= set(CATALOGUE)
    assert set(CATALOGUE) <= asked, "a metric without a panel"


def test_the_dashboard_selects_and_groups_by_tags_that_its_metrics_have(dashboard: dict[str, Any]) -> None:
    by_ray = {"SessionName", "ray_io_cluster"}
    for expression in expressions(dashboard):
        (name,) = set(re.findall(r"ray_decopa_\w+", expression))
        grouped = {tag.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for tag in group.split(",")}
        selected = {tag for inside in re.findall(r"{([^}]*)}", expression) for tag in re.findall(r"(\w+)=~", inside)}
        assert grouped <= set(CATALOGUE[name].tags)
        assert selected == {*by_ray, "query"} <= {*by_ray, *TAGS}


def test_the_dashboard_fits_into_rays_own(dashboard: dict[str, Any]) -> None:
    """Ray's page sets these variables in the address of the frame, and finds the dashboard by its uid."""
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert {"datasource", "SessionName", "Cluster", "query"} <= set(variables)
    assert variables["datasource"]["type"] == "datasource"
    assert dashboard["uid"] == "decopa"
    identities = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identities)) == len(identities)
    assert all(
        target["datasource"]["uid"] == "${datasource}"
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    )
