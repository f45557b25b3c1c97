"""`network.json`: a network, and what was measured in it, to and from JSON, with every way to be wrong named.

    {
      "format": "decopa-network", "version": 1, "window_us": 600000000,
      "nodes": {"n0": {"rates": {"A": 10, "B": 2.5}, "units": 4}, "n1": {"rates": {}}},
      "links": [{"from": "n0", "to": "n1", "cost": 3, "bytes_per_s": 1000000, "latency_ms": 20}],
      "statistics": [{"format": "decopa-stats", ...}],
      "partners": [{"types": ["E", "D"], "share": 0.04}]
    }

Everything after `nodes` may be left out. `statistics` are those of each query that was measured; `partners` say which
share of the first type's events has a partner of the second.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from costmodel import stats_file
from costmodel.networks.network import EventSourcedNetwork, Link
from costmodel.sampling.partners import PartnerShares
from costmodel.statistics import Statistics
from costmodel.sub_queries import check_share
from decopa.documents import Document, as_document, read_document, read_json
from decopa.errors import StatisticsError

FORMAT = "decopa-network"
VERSION = 1
_OPTIONAL = ("links", "statistics", "partners")


@dataclass(frozen=True)
class MeasuredNetwork:
    """A network with the statistics of queries in it, one for each query that was measured."""

    network: EventSourcedNetwork
    statistics: tuple[Statistics, ...] = ()
    partners: PartnerShares = field(default_factory=dict)


def to_json(measured: MeasuredNetwork) -> str:
    """The file's text; `from_json` reads it back to an equal value."""
    network = measured.network
    nodes: dict[str, Any] = {}
    for node, types in network.rates.items():
        nodes[node] = {"rates": types} | ({"units": network.units[node]} if node in network.units else {})
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION, "window_us": network.window_us, "nodes": nodes}
    links = []
    for link in network.links:
        entry: dict[str, Any] = {"from": link.source, "to": link.target, "cost": link.cost}
        if link.bytes_per_s is not None:
            entry["bytes_per_s"] = link.bytes_per_s
        if link.latency_ms:
            entry["latency_ms"] = link.latency_ms
        links.append(entry)
    partners = [{"types": list(pair), "share": share} for pair, share in measured.partners.items()]
    texts = [stats_file.to_json(one) for one in measured.statistics]
    statistics = [read_json(text, name="statistics", error=StatisticsError) for text in texts]
    optional = {"links": links, "statistics": statistics, "partners": partners}
    document |= {key: value for key, value in optional.items() if value}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def from_json(text: str, name: str = "network.json") -> MeasuredNetwork:
    """Reads what `to_json` wrote or a person did; `name` is how messages call the file."""
    document = read_document(
        text,
        format=FORMAT,
        version=VERSION,
        name=name,
        error=StatisticsError,
        remedy="make it with `decopa network stats`",
    )
    document.check_fields(("format", "version", "window_us", "nodes"), _OPTIONAL)
    rates: dict[str, dict[str, float]] = {}
    units: dict[str, int] = {}
    for node, fields in document.value("nodes", dict).items():
        entry = as_document(fields, f"{name}: node '{node}'", StatisticsError)
        entry.check_fields(("rates",), ("units",))
        rates[node] = entry.numbers("rates")
        if "units" in entry:
            units[node] = entry.value("units", int)
    links = tuple(map(_read_link, document.objects("links", optional=True)))
    network = EventSourcedNetwork(document.value("window_us", int), rates, links, units, name)
    statistics = tuple(
        stats_file.from_json(json.dumps(dict(entry.fields)), entry.where)
        for entry in document.objects("statistics", optional=True)
    )
    return MeasuredNetwork(network, statistics, _read_partners(document.objects("partners", optional=True)))


def _read_link(entry: Document) -> Link:
    entry.check_fields(("from", "to"), ("cost", "bytes_per_s", "latency_ms"))
    given = {key: entry.number(key) for key in ("cost", "bytes_per_s", "latency_ms") if key in entry}
    return Link(entry.value("from", str), entry.value("to", str), **given)


def _read_partners(entries: list[Document]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for entry in entries:
        entry.check_fields(("types", "share"))
        types = entry.texts("types")
        if len(types) != 2:
            entry.fail(f"'types' must be two names, got {len(types)}")
        share = entry.number("share")
        check_share(share, entry.where)
        found[types[0], types[1]] = share
    return found
