"""Capacity of one processing unit: what it can take in, compare and emit per window (iota and kappa, 3.3)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from decopa.choices import Objective
from decopa.documents import read_document
from decopa.errors import StatisticsError
from decopa.query.names import duration_text
from decopa.query.query import MAX_WINDOW_US

FORMAT = "decopa-capacity"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Capacity:
    """Events or matches that a unit can ingest (iota) and comparisons that it can make (kappa) per window.

    `window_us` is the window that is meant; None for the window of whatever query is planned, as in the paper.
    `max_emission` (epsilon) is how many matches it can put out; None if that costs nothing. It counts in the `BUSY`
    objective only, since the paper has no such limit.
    """

    max_ingestion: float
    max_comparisons: float
    window_us: int | None = None
    max_emission: float | None = None
    objective: Objective = Objective.LIMITS

    def __post_init__(self) -> None:
        limits = [("ingestion (iota)", self.max_ingestion), ("comparisons (kappa)", self.max_comparisons)]
        limits += [] if self.max_emission is None else [("emission (epsilon)", self.max_emission)]
        for what, limit in limits:
            if not (math.isfinite(limit) and limit > 0):
                raise StatisticsError(
                    f"the largest {what} of a unit must be a positive number per window, got {limit:g}; "
                    "run `decopa calibrate`, or write 1e18 for no limit"
                )
        if self.window_us is not None and not 0 < self.window_us <= MAX_WINDOW_US:
            raise StatisticsError(f"the window of a capacity must be positive microseconds, got {self.window_us}")

    @classmethod
    def per_second(cls, max_ingestion: float, max_comparisons: float, max_emission: float | None = None) -> Capacity:
        """What a unit can do in a second; `for_window` turns it into what it can do in a query's window."""
        return cls(max_ingestion, max_comparisons, window_us=1_000_000, max_emission=max_emission)

    def for_window(self, window_us: int) -> Capacity:
        """What the same unit can do in another window; unchanged if the window of this capacity is not known."""
        if self.window_us is None:
            return self
        return replace(self.times(window_us / self.window_us), window_us=window_us)

    def per_second_at(self, window_us: int) -> Capacity:
        """What a unit can do in a second, if this is what it can do in its own window or, where none is named, in
        `window_us`."""
        named = self if self.window_us is not None else replace(self, window_us=window_us)
        return named.for_window(1_000_000)

    def times(self, factor: float) -> Capacity:
        """A unit that is `factor` times as fast."""
        emission = None if self.max_emission is None else self.max_emission * factor
        return replace(
            self,
            max_ingestion=self.max_ingestion * factor,
            max_comparisons=self.max_comparisons * factor,
            max_emission=emission,
        )

    def busy(self, ingested: float, comparisons: float, emitted: float = 0.0) -> float:
        """The share of its time that a unit needs for so much per window; above 1 it falls behind."""
        emission = 0.0 if self.max_emission is None else emitted / self.max_emission
        return ingested / self.max_ingestion + comparisons / self.max_comparisons + emission

    def __str__(self) -> str:
        window = "window" if self.window_us is None else duration_text(self.window_us)
        matches = "" if self.max_emission is None else f" ({self.max_emission:.4g} matches)"
        return f"{self.max_ingestion:.6g} events and {self.max_comparisons:.6g} comparisons{matches} per {window}"

    def to_json(self, measured: Mapping[str, Any] | None = None) -> str:
        """`measured` says where the numbers come from; planning does not need it."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "max_ingestion": self.max_ingestion,
            "max_comparisons": self.max_comparisons,
        }
        if self.window_us is not None:
            document["window_us"] = self.window_us
        if self.max_emission is not None:
            document["max_emission"] = self.max_emission
        if measured is not None:
            document["measured"] = dict(measured)
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str = "capacity.json") -> Capacity:
        """Reads what `to_json` wrote; `name` is how messages call the file."""
        document = read_document(
            text, format=FORMAT, version=VERSION, name=name, error=StatisticsError, remedy="run `decopa calibrate`"
        )
        document.check_fields(
            ("format", "version", "max_ingestion", "max_comparisons"), ("window_us", "max_emission", "measured")
        )
        window_us = document.value("window_us", int) if "window_us" in document else None
        emission = document.number("max_emission") if "max_emission" in document else None
        ingestion, comparisons = (document.number(key) for key in ("max_ingestion", "max_comparisons"))
        try:
            return cls(ingestion, comparisons, window_us, emission)
        except StatisticsError as err:
            raise StatisticsError(f"{name}: {err}") from err
