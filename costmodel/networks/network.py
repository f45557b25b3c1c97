"""Event-sourced network: which node produces which types at which rate, and what its links cost (MuSE 2.1).

The network is a complete graph. A link that is not listed costs 1 per row, in either direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from costmodel.statistics import MAX_RATE
from decopa.errors import StatisticsError, did_you_mean
from decopa.query.query import MAX_WINDOW_US, Query

#: More nodes than this are no network that anyone plans by hand or in memory.
MAX_NODES = 1024


@dataclass(frozen=True, slots=True)
class Link:
    """The way from one node to another: its cost per row, and what an emulation of it lets through."""

    source: str
    target: str
    cost: float = 1.0
    bytes_per_s: float | None = None
    latency_ms: float = 0.0

    def __post_init__(self) -> None:
        for what, value in (("cost", self.cost), ("latency_ms", self.latency_ms)):
            if not (math.isfinite(value) and value >= 0):
                raise StatisticsError(f"{self}: '{what}' must be 0 or more, got {value:g}")
        if self.bytes_per_s is not None and not (math.isfinite(self.bytes_per_s) and self.bytes_per_s > 0):
            raise StatisticsError(f"{self}: 'bytes_per_s' must be positive, got {self.bytes_per_s:g}")

    def __str__(self) -> str:
        return f"the link {self.source} -> {self.target}"


@dataclass(frozen=True)
class EventSourcedNetwork:
    """Nodes with the rates of the events born there, per window (N, f and r of 2.1; r may differ between nodes).

    `units` says how many processing units a node has for its operators (1 where nothing is said). `name` is how
    messages call the network.
    """

    window_us: int
    rates: Mapping[str, Mapping[str, float]]
    links: tuple[Link, ...] = ()
    units: Mapping[str, int] = field(default_factory=dict)
    name: str = field(default="the network", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", {node: dict(types) for node, types in self.rates.items()})
        object.__setattr__(self, "units", dict(self.units))
        if not 0 < self.window_us <= MAX_WINDOW_US:
            raise StatisticsError(f"the window of {self.name} must be positive microseconds, got {self.window_us}")
        if not 0 < len(self.rates) <= MAX_NODES:
            raise StatisticsError(f"{self.name} has {len(self.rates)} nodes; it needs between 1 and {MAX_NODES}")
        for node, types in self.rates.items():
            for event_type, rate in types.items():
                if not (math.isfinite(rate) and 0 < rate <= MAX_RATE):
                    raise StatisticsError(
                        f"the rate of '{event_type}' at node '{node}' of {self.name} must be above 0 and at most "
                        f"{MAX_RATE:g} events per window, got {rate:g}; leave the type out if it never occurs there"
                    )
        seen: set[tuple[str, str]] = set()
        for link in self.links:
            for end in (link.source, link.target):
                if end not in self.rates:
                    raise StatisticsError(
                        f"{link} of {self.name} leads to no node: there is no '{end}'{did_you_mean(end, self.rates)}"
                    )
            if link.source == link.target or (link.source, link.target) in seen:
                raise StatisticsError(f"{link} of {self.name} is given twice or leads nowhere; keep one per direction")
            seen.add((link.source, link.target))
        for node, units in self.units.items():
            if node not in self.rates or units < 1:
                raise StatisticsError(f"{self.name}: 'units' of node '{node}' must be 1 or more, at a known node")

    @classmethod
    def of(
        cls, window_us: int, sources: Mapping[str, Iterable[Any]], rates: Mapping[str, float], nodes: Iterable[Any] = ()
    ) -> EventSourcedNetwork:
        """The paper's form: the producers of each type, and one rate per type for every producer."""
        found: dict[str, dict[str, float]] = {str(node): {} for node in nodes}
        for event_type, producers in sources.items():
            for node in producers:
                found.setdefault(str(node), {})[event_type] = float(rates[event_type])
        return cls(window_us, found)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.rates)

    @cached_property
    def event_types(self) -> tuple[str, ...]:
        return tuple(sorted({event_type for types in self.rates.values() for event_type in types}))

    def producers(self, event_type: str) -> tuple[str, ...]:
        """The nodes where events of the type are born, in the network's order."""
        return self._producers.get(event_type, ())

    @cached_property
    def _producers(self) -> dict[str, tuple[str, ...]]:
        return {
            event_type: tuple(node for node, types in self.rates.items() if event_type in types)
            for event_type in self.event_types
        }

    def total_rate(self, event_type: str) -> float:
        """Events of the type per window, over all nodes."""
        return math.fsum(self.rates[node][event_type] for node in self.producers(event_type))

    def units_at(self, node: str) -> int:
        return self.units.get(node, 1)

    def link(self, source: str, target: str) -> Link:
        """The way between two nodes; one of cost 1 if none is listed."""
        return self._links.get((source, target)) or Link(source, target)

    @cached_property
    def _links(self) -> dict[tuple[str, str], Link]:
        return {(link.source, link.target): link for link in self.links}

    @property
    def even_links(self) -> bool:
        """Whether every hop costs the same, as in the paper."""
        return all(link.cost == 1 for link in self.links)

    def check_fits(self, query: Query) -> None:
        """Raises StatisticsError unless some node produces each type of the query."""
        for event_type in query.event_types:
            if not self.producers(event_type):
                raise StatisticsError(
                    f"no node of {self.name} produces event type '{event_type}', which query '{query.name}' needs"
                    f"{did_you_mean(event_type, self.event_types)}"
                )

    def rescaled(self, window_us: int) -> EventSourcedNetwork:
        """The same network with its rates counted per another window."""
        factor = window_us / self.window_us
        rates = {
            node: {event_type: rate * factor for event_type, rate in types.items()}
            for node, types in self.rates.items()
        }
        return EventSourcedNetwork(window_us, rates, self.links, self.units, self.name)
