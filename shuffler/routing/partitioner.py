"""Partitioners: batch -> one part per target unit (5.2). No row is lost, none is sent twice to a unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from shuffler.rows.batch import Batch
from shuffler.rows.hashing import hash_columns


class Partitioner(Protocol):
    #: The unit that gets the next row; 0 where units do not take turns.
    turn: int

    def split(self, batch: Batch) -> Sequence[tuple[int, Batch]]:
        """(unit, part) for every unit that gets rows."""
        ...


class Broadcast:
    """Every row to every unit."""

    def __init__(self, units: int) -> None:
        self.units, self.turn = units, 0

    def split(self, batch: Batch) -> Sequence[tuple[int, Batch]]:
        return [(unit, batch) for unit in range(self.units)]


class Stay:
    """Every row to one unit: the one on the host where it was found."""

    def __init__(self, unit: int) -> None:
        self.unit, self.turn = unit, 0

    def split(self, batch: Batch) -> Sequence[tuple[int, Batch]]:
        return [(self.unit, batch)]


class RoundRobin:
    """Rows in turn, the first one to the first unit; the turn goes on from batch to batch."""

    def __init__(self, units: int) -> None:
        self.units, self.turn = units, 0

    def split(self, batch: Batch) -> Sequence[tuple[int, Batch]]:
        if self.units == 1:
            return [(0, batch)]
        first = self.turn
        self.turn = (first + batch.length) % self.units
        hands = ((unit, (unit - first) % self.units) for unit in range(self.units))
        return [(unit, batch.every(self.units, start)) for unit, start in hands if start < batch.length]


class HashByEventIds:
    """Rows that agree in the given id columns to the same unit: what a unary Kleene split needs."""

    def __init__(self, units: int, columns: Sequence[str]) -> None:
        self.units, self.turn, self._columns = units, 0, tuple(columns)

    def split(self, batch: Batch) -> Sequence[tuple[int, Batch]]:
        if self.units == 1 or not self._columns:
            return [(0, batch)]
        hashes = hash_columns([batch.columns[name] for name in self._columns], batch.length).view(np.uint64)
        # The low bits pick a bucket in a unit's index; the high ones pick the unit, so that buckets stay even.
        target = (hashes >> np.uint64(33)) % np.uint64(self.units)
        parts = ((unit, np.flatnonzero(target == unit)) for unit in range(self.units))
        return [(unit, batch.take(rows)) for unit, rows in parts if len(rows)]
