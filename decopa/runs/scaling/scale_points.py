"""The points of a scaling test: one strategy on one number of units, planned, predicted, measured and kept on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from decopa.documents import as_document, read_json, record_of
from decopa.errors import DecoPaError
from decopa.files import write_text

BASELINE = "centralized"
FORMAT = "decopa-scaling"


@dataclass(frozen=True, slots=True)
class PointKey:
    """`centralized` has one unit whatever is asked for, so it is one point."""

    strategy: str
    units: int

    @property
    def file_name(self) -> str:
        return f"{self.strategy}_{self.units}.json"


@dataclass(frozen=True)
class Point:
    """Rates are events/s. `predicted` and `measured` are those of units with the capacity that was asked for; if they
    were emulated with a clock that runs `clock` times as fast, the rates that really passed were `clock` times these.
    """

    strategy: str
    units: int
    used_units: int
    predicted: float
    bottleneck: str | None
    measured: float
    failed: float | None
    emulated: bool
    clock: float = 1.0
    p50_s: float = 0.0
    p99_s: float = 0.0
    busiest: float = 0.0
    trials: list[dict[str, Any]] = field(default_factory=list)
    loads: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    #: Of the trace, and of half a window of observation at the rate that was sustained.
    trace_events: int = 0
    half_window_events: float = 0.0
    #: Each machine at the largest rate that was sustained: address, processes, sent_bytes, predicted_bytes, throttled.
    machines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def error(self) -> float | None:
        """(predicted - measured) / measured."""
        return (self.predicted - self.measured) / self.measured if self.measured > 0 else None


def point_keys(strategies: Sequence[str], units: Sequence[int]) -> list[PointKey]:
    """What is to be measured: small counts first, the baseline before everything."""
    ordered = sorted(dict.fromkeys(strategies), key=lambda strategy: strategy != BASELINE)
    baseline = [PointKey(BASELINE, 1)] if BASELINE in ordered else []
    rest = [one for one in ordered if one != BASELINE]
    return baseline + [PointKey(strategy, count) for count in sorted(set(units)) for strategy in rest]


class PointStore:
    """A folder with a file for each point; points that were measured with the same settings are not measured again."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder = folder / "points"
        self._settings = json.loads(json.dumps(settings))  # as it is read back

    def load(self, key: PointKey) -> Point | None:
        path = self._folder / key.file_name
        again = "delete it to measure this point again"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as err:
            raise DecoPaError(f"cannot read '{path}': {err}; {again}") from err
        try:
            document = as_document(read_json(content, name=str(path), error=DecoPaError), str(path), DecoPaError)
            if document.fields.get("format") != FORMAT or document.fields.get("settings") != self._settings:
                return None
            return record_of(Point, as_document(document.value("point", dict), str(path), DecoPaError))
        except DecoPaError as err:
            raise DecoPaError(f"{err}; {again}") from err

    def save(self, key: PointKey, point: Point) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        document = {"format": FORMAT, "settings": self._settings, "point": asdict(point)}
        write_text(json.dumps(document, indent=1) + "\n", self._folder / key.file_name, overwrite=True)


def measure_points(
    keys: Iterable[PointKey],
    store: PointStore,
    measure: Callable[[PointKey], Point],
    tell: Callable[[PointKey, Point, bool], None] = lambda key, point, again: None,
) -> list[Point]:
    """Every point: the one that is stored, or a new one, which is stored at once."""
    found = []
    for key in keys:
        point = store.load(key)
        known = point is not None
        if point is None:
            point = measure(key)
            store.save(key, point)
        tell(key, point, known)
        found.append(point)
    return found


def baseline_of(points: Sequence[Point]) -> Point | None:
    return next((point for point in points if point.strategy == BASELINE), None)


def gain(point: Point, points: Sequence[Point], *, predicted: bool = False) -> float | None:
    """How many times the throughput of the baseline; None without one."""
    base = baseline_of(points)
    if base is None:
        return None
    value, of = (point.predicted, base.predicted) if predicted else (point.measured, base.measured)
    return value / of if of > 0 else None


def gain_over(point: Point, other: str, points: Sequence[Point]) -> float | None:
    """How many times the throughput of another strategy on as many units."""
    peer = next((one for one in points if one.strategy == other and one.units == point.units), None)
    return point.measured / peer.measured if peer is not None and peer.measured > 0 else None
