"""Where an experiment reads and writes, how large it is, and what it hands to the report."""

from __future__ import annotations

import csv
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Section:
    """One chapter of the report: its name on the command line, its heading, and its Markdown."""

    name: str
    title: str
    body: str


@dataclass(frozen=True)
class Context:
    """`seeds` is how many random instances a point of a figure has; `quick` makes everything small."""

    out: Path
    shared: Path
    seeds: int = 50
    quick: bool = False
    jobs: int = 2
    script: str = "scripts/paper_experiments"

    def command(self, name: str, *, seeds: bool = False) -> str:
        """How to run an experiment again; `seeds` if it depends on their number."""
        flags = (f" --seeds {self.seeds}" if seeds else "") + (" --quick" if self.quick else "")
        return f"`{self.script} --only {name}{flags}`"

    def write_csv(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
        """Writes a table; returns the Markdown link to it."""
        with (self.out / name).open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows([_short(value) for value in row] for row in rows)
        return f"[{name}]({name})"

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The function on every item, on as many processes as there are jobs; results in the order of the items."""
        if self.jobs <= 1:
            return list(_counted(map(function, items), len(items)))
        with ProcessPoolExecutor(self.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            chunk = max(1, min(8, len(items) // (4 * self.jobs)))
            return list(_counted(pool.map(function, items, chunksize=chunk), len(items)))


def _counted(results: Iterable[Result], total: int) -> Iterator[Result]:
    """The results; says ten times how many there are."""
    for done, result in enumerate(results, 1):
        if done * 10 // total > (done - 1) * 10 // total:
            print(f"  {done} of {total}", file=sys.stderr, flush=True)
        yield result


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(_short(value)) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _short(value: Any) -> Any:
    """Numbers with four digits, which is more than any of them means."""
    return f"{value:.4g}" if isinstance(value, float) else value
