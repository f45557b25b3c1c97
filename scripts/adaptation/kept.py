"""Results that are kept in a file between calls, so that the experiment can be made in portions."""

from __future__ import annotations

import csv
from dataclasses import fields
from pathlib import Path

from decopa.errors import DecoPaError
from scripts.adaptation.runs import Result

Key = tuple[str, ...]


class Kept:
    """A CSV file with a line for each run: what was run (`key`), and what came of it."""

    def __init__(self, path: Path, key_names: tuple[str, ...], *, resume: bool) -> None:
        self._path, self._key_names = path, key_names
        self._results: dict[Key, Result] = {}
        if resume and path.is_file():
            self._read()

    def __contains__(self, key: Key) -> bool:
        return key in self._results

    def __getitem__(self, key: Key) -> Result:
        return self._results[key]

    def add(self, key: Key, result: Result) -> None:
        self._results[key] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*self._key_names, *(field.name for field in fields(Result))])
            for one, found in sorted(self._results.items()):
                changes = " ".join(f"{at:g}" for at in found.changes)
                writer.writerow([*one, found.rows, found.replayed, changes, found.matches])

    def _read(self) -> None:
        with self._path.open(newline="") as file:
            header, *lines = list(csv.reader(file)) or [[]]
        if header != [*self._key_names, *(field.name for field in fields(Result))]:
            raise DecoPaError(f"{self._path} has other columns; leave out --resume to make it anew")
        width = len(self._key_names)
        for line in lines:
            rows, replayed, changes, matches = line[width:]
            times = tuple(map(float, changes.split()))
            self._results[tuple(line[:width])] = Result(int(rows), int(replayed), times, int(matches))
