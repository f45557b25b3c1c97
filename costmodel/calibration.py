"""Calibration: what a processing unit can do, from measurements of what it did and how long that took (7.1).

    busy = ingested / iota + comparisons / kappa + emitted / epsilon

The three costs are fitted by least squares on relative errors, none of them negative.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from costmodel.capacity import FORMAT, VERSION, Capacity
from decopa.documents import as_document, read_document
from decopa.errors import StatisticsError

#: A cost that does not show is not said to be zero: so many per second are taken for no limit.
NO_LIMIT_PER_S = 1e12
_COSTS = ("ingested", "comparisons", "emitted")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one unit did under one load, and the time that it was busy with it."""

    load: str
    ingested: int
    comparisons: int
    emitted: int
    busy_s: float


@dataclass(frozen=True, slots=True)
class BusyModel:
    """Seconds that a unit is busy with one ingested row, one comparison and one match that it emits."""

    per_ingested_s: float
    per_comparison_s: float
    per_emitted_s: float

    def busy_s(self, ingested: float, comparisons: float, emitted: float) -> float:
        return ingested * self.per_ingested_s + comparisons * self.per_comparison_s + emitted * self.per_emitted_s

    def error(self, measured: Measurement) -> float:
        """(predicted - measured) / measured busy time."""
        predicted = self.busy_s(measured.ingested, measured.comparisons, measured.emitted)
        return (predicted - measured.busy_s) / measured.busy_s

    @property
    def capacity(self) -> Capacity:
        """The same as what a unit can do in a second."""
        costs = (self.per_ingested_s, self.per_comparison_s, self.per_emitted_s)
        return Capacity.per_second(*(min(NO_LIMIT_PER_S, 1 / cost) if cost else NO_LIMIT_PER_S for cost in costs))


def fit_busy_model(measurements: Sequence[Measurement]) -> BusyModel:
    """The costs that explain the measured times best; relative errors count, so that short runs count as long ones.

    With three unknowns the non-negative optimum is that of least squares on some subset of them: all are tried.
    """
    useful = [one for one in measurements if one.busy_s > 0]
    if not useful:
        raise StatisticsError("nothing was measured that took any time; calibrate with more events")
    rows = np.array([[one.ingested, one.comparisons, one.emitted] for one in useful], dtype=np.float64)
    rows /= np.array([[one.busy_s] for one in useful])
    scale = np.maximum(rows.max(axis=0), 1e-300)  # so that costs of very different size are solved for alike
    best, least = np.zeros(3), np.inf
    for size in (1, 2, 3):
        for chosen in itertools.combinations(range(3), size):
            columns = rows[:, chosen] / scale[list(chosen)]
            costs, *_ = np.linalg.lstsq(columns, np.ones(len(useful)), rcond=None)
            residual = float(np.sum((columns @ costs - 1) ** 2))
            if (costs >= 0).all() and residual < least * (1 - 1e-9):
                least = residual
                best = np.zeros(3)
                best[list(chosen)] = costs / scale[list(chosen)]
    return BusyModel(*best.tolist())


@dataclass(frozen=True, slots=True)
class Ramp:
    """A whole query under growing load: above `queueing_rate` events/s delays grew; `predicted_rate` is the model's."""

    queueing_rate: float
    predicted_rate: float

    @property
    def error(self) -> float:
        return (self.predicted_rate - self.queueing_rate) / self.queueing_rate


@dataclass(frozen=True)
class NodeCalibration:
    """One node: a model for each repeat, and how well they explain what was measured."""

    node: str
    models: tuple[BusyModel, ...]
    measurements: tuple[Measurement, ...]
    ramps: tuple[Ramp, ...] = ()

    @property
    def capacity(self) -> Capacity:
        """What a unit can do in a second, the mean over the repeats' costs."""
        return mean_model(self.models).capacity

    @property
    def spread(self) -> dict[str, float]:
        """By how much the repeats differ: standard deviation over mean, of each cost."""
        costs = {name: [_cost(model, name) for model in self.models] for name in _COSTS}
        return {name: _relative_spread(values) for name, values in costs.items()}

    @property
    def median_error(self) -> float:
        """The median over all measurements of the model's relative error, as a size."""
        model = mean_model(self.models)
        return statistics.median(abs(model.error(one)) for one in self.measurements)


@dataclass(frozen=True)
class Calibration:
    """All nodes that were measured, for one query; units are planned as alike, so the mean counts."""

    query: str
    nodes: tuple[NodeCalibration, ...]

    def __post_init__(self) -> None:
        if not self.nodes:
            raise StatisticsError("no node was measured; check the cluster with `ray status`")

    @property
    def capacity(self) -> Capacity:
        return mean_model([mean_model(node.models) for node in self.nodes]).capacity

    @property
    def spread(self) -> dict[str, float]:
        """By how much the nodes differ; with one node, its repeats."""
        if len(self.nodes) == 1:
            return self.nodes[0].spread
        models = [mean_model(node.models) for node in self.nodes]
        return {name: _relative_spread([_cost(model, name) for model in models]) for name in _COSTS}

    def to_json(self) -> str:
        """capacity.json, with what was measured."""
        return self.capacity.to_json(
            {"query": self.query, "spread": self.spread, "nodes": [_node_document(node) for node in self.nodes]}
        )


def mean_model(models: Sequence[BusyModel]) -> BusyModel:
    return BusyModel(*(statistics.fmean(_cost(model, name) for model in models) for name in _COSTS))


def node_speeds(text: str, name: str = "capacity.json") -> dict[str, float]:
    """How fast each node compares, by its address, as a share of the mean that planning goes by; empty if a capacity
    was not measured on nodes. `name` is how messages call the file."""
    document = read_document(
        text, format=FORMAT, version=VERSION, name=name, error=StatisticsError, remedy="run `decopa calibrate`"
    )
    if "measured" not in document:
        return {}
    measured = as_document(document.value("measured", dict), f"{name}: measured", StatisticsError)
    mean = document.number("max_comparisons") / (document.number("window_us") / 1e6 if "window_us" in document else 1.0)
    speeds: dict[str, float] = {}
    for node in measured.objects("nodes", optional=True):
        address = node.value("node", str).partition(" ")[0]
        speeds[address] = min(node.number("kappa") / mean, speeds.get(address, math.inf))
    if not all(math.isfinite(speed) and speed > 0 for speed in speeds.values()):
        raise StatisticsError(f"{name}: the speed of a node must be a positive number; run `decopa calibrate`")
    return speeds


def _node_document(node: NodeCalibration) -> Mapping[str, Any]:
    capacity = node.capacity
    return {
        "node": node.node,
        "iota": capacity.max_ingestion,
        "kappa": capacity.max_comparisons,
        "epsilon": capacity.max_emission,
        "spread": node.spread,
        "median_error": node.median_error,
        "repeats": [asdict(model) for model in node.models],
        "ramps": [asdict(ramp) for ramp in node.ramps],
        "measurements": [asdict(one) for one in node.measurements],
    }


def _cost(model: BusyModel, name: str) -> float:
    return {
        "ingested": model.per_ingested_s,
        "comparisons": model.per_comparison_s,
        "emitted": model.per_emitted_s,
    }[name]


def _relative_spread(values: Sequence[float]) -> float:
    mean = statistics.fmean(values)
    return statistics.pstdev(values) / mean if mean > 0 else 0.0
