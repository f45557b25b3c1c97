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
from costmodel.network import EventSourcedNetwork, Link
from costmodel.partners import PartnerShares
from costmodel.statistics import Statistics, check_share
from decopa.documents import check_fields, fail, kind_of, number, numbers, read_document, texts, value_of_kind

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
    statistics = [json.loads(stats_file.to_json(one)) for one in measured.statistics]
    optional = {"links": links, "statistics": statistics, "partners": partners}
    document |= {key: value for key, value in optional.items() if value}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def from_json(text: str, name: str = "network.json") -> MeasuredNetwork:
    """Reads what `to_json` wrote or a person did; `name` is how messages call the file."""
    document = read_document(text, format=FORMAT, version=VERSION, name=name, command="decopa network stats")
    check_fields(document, ("format", "version", "window_us", "nodes"), _OPTIONAL, name)
    rates: dict[str, dict[str, float]] = {}
    units: dict[str, int] = {}
    nodes = value_of_kind(document, "nodes", dict, name)
    for node in nodes:
        where = f"{name}: node '{node}'"
        entry = value_of_kind(nodes, node, dict, name)
        check_fields(entry, ("rates",), ("units",), where)
        rates[node] = numbers(entry, "rates", where)
        if "units" in entry:
            units[node] = value_of_kind(entry, "units", int, where)
    entries = _list(document, "links", name)
    links = tuple(_read_link(entry, f"{name}: links[{index}]") for index, entry in enumerate(entries))
    network = EventSourcedNetwork(value_of_kind(document, "window_us", int, name), rates, links, units, name)
    statistics = tuple(
        stats_file.from_json(json.dumps(entry), f"{name}: statistics[{index}]")
        for index, entry in enumerate(_list(document, "statistics", name))
    )
    return MeasuredNetwork(network, statistics, _read_partners(_list(document, "partners", name), name))


def _list(document: dict[str, Any], key: str, name: str) -> list[Any]:
    found: list[Any] = value_of_kind(document, key, list, name) if key in document else []
    return found


def _read_link(entry: Any, where: str) -> Link:
    if not isinstance(entry, dict):
        fail(where, f"must be an object, got {kind_of(entry)}")
    check_fields(entry, ("from", "to"), ("cost", "bytes_per_s", "latency_ms"), where)
    ends = (value_of_kind(entry, "from", str, where), value_of_kind(entry, "to", str, where))
    given = {key: number(entry, key, where) for key in ("cost", "bytes_per_s", "latency_ms") if key in entry}
    return Link(*ends, **given)  # type: ignore[arg-type]


def _read_partners(entries: list[Any], name: str) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for index, entry in enumerate(entries):
        where = f"{name}: partners[{index}]"
        if not isinstance(entry, dict):
            fail(where, f"must be an object, got {kind_of(entry)}")
        check_fields(entry, ("types", "share"), (), where)
        types = texts(entry, "types", where)
        if len(types) != 2:
            fail(where, f"'types' must be two names, got {len(types)}")
        share = number(entry, "share", where)
        check_share(share, where)
        found[types[0], types[1]] = share
    return found
