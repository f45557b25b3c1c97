"""Traffic: what crossed each edge of a network, counted where it is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: Bytes of a watermark on the wire: its lane and its time.
WATERMARK_BYTES = 16
#: (stream, from node, to node)
EdgeName = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class EdgeTraffic:
    """Rows of one stream from one node to another, their bytes, and the messages that carried them.

    `watermarks` are promises about time that came with them or alone; the paper has none, so they count apart.
    """

    rows: int = 0
    bytes: int = 0
    messages: int = 0
    watermarks: int = 0

    def __add__(self, other: EdgeTraffic) -> EdgeTraffic:
        return EdgeTraffic(
            self.rows + other.rows,
            self.bytes + other.bytes,
            self.messages + other.messages,
            self.watermarks + other.watermarks,
        )

    @property
    def watermark_bytes(self) -> int:
        return self.watermarks * WATERMARK_BYTES


@dataclass
class Traffic:
    """Counts by edge; those of several processes are added."""

    edges: dict[EdgeName, EdgeTraffic] = field(default_factory=dict)

    def count(self, edge: EdgeName, more: EdgeTraffic) -> None:
        self.edges[edge] = self.edges.get(edge, EdgeTraffic()) + more

    @classmethod
    def united(cls, parts: Iterable[Mapping[EdgeName, EdgeTraffic]]) -> Traffic:
        found = cls()
        for part in parts:
            for edge, traffic in part.items():
                found.count(edge, traffic)
        return found

    @property
    def total(self) -> EdgeTraffic:
        return sum(self.edges.values(), EdgeTraffic())
