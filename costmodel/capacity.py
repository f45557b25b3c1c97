"""Capacity of one processing unit: what it can take in and compare per window (iota and kappa, 3.3)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from costmodel.documents import check_fields, number, read_document, value_of_kind
from decopa.errors import StatisticsError
from decopa.query.names import duration_text
from decopa.query.query import MAX_WINDOW_US

FORMAT = "decopa-capacity"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Capacity:
    """Events or matches that a unit can ingest (iota) and comparisons that it can make (kappa) per window.

    `window_us` is the window that is meant; None for the window of whatever query is planned, as in the paper.
    """

    max_ingestion: float
    max_comparisons: float
    window_us: int | None = None

    def __post_init__(self) -> None:
        limits = (("ingestion (iota)", self.max_ingestion), ("comparisons (kappa)", self.max_comparisons))
        for what, limit in limits:
            if not (math.isfinite(limit) and limit > 0):
                raise StatisticsError(
                    f"the largest {what} of a unit must be a positive number per window, got {limit:g}; "
                    "run `decopa calibrate`, or write 1e18 for no limit"
                )
        if self.window_us is not None and not 0 < self.window_us <= MAX_WINDOW_US:
            raise StatisticsError(f"the window of a capacity must be positive microseconds, got {self.window_us}")

    @classmethod
    def per_second(cls, max_ingestion: float, max_comparisons: float) -> Capacity:
        """What a unit can do in a second; `for_window` turns it into what it can do in a query's window."""
        return cls(max_ingestion, max_comparisons, window_us=1_000_000)

    def for_window(self, window_us: int) -> Capacity:
        """What the same unit can do in another window; unchanged if the window of this capacity is not known."""
        if self.window_us is None:
            return self
        factor = window_us / self.window_us
        return Capacity(self.max_ingestion * factor, self.max_comparisons * factor, window_us)

    def __str__(self) -> str:
        window = "window" if self.window_us is None else duration_text(self.window_us)
        return f"{self.max_ingestion:g} events and {self.max_comparisons:g} comparisons per {window}"

    def to_json(self) -> str:
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "max_ingestion": self.max_ingestion,
            "max_comparisons": self.max_comparisons,
        }
        if self.window_us is not None:
            document["window_us"] = self.window_us
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str = "capacity.json") -> Capacity:
        """Reads what `to_json` wrote; `name` is how messages call the file."""
        document = read_document(text, format=FORMAT, version=VERSION, name=name, command="decopa calibrate")
        fields = ("format", "version", "max_ingestion", "max_comparisons")
        check_fields(document, fields, ("window_us",), name)
        window_us = value_of_kind(document, "window_us", int, name) if "window_us" in document else None
        ingestion, comparisons = (number(document, key, name) for key in ("max_ingestion", "max_comparisons"))
        try:
            return cls(ingestion, comparisons, window_us)
        except StatisticsError as err:
            raise StatisticsError(f"{name}: {err}") from err
