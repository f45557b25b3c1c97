"""What the command line says besides results: lines of a summary, and one line of progress that is rewritten."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable


def tell(what: str, value: str) -> None:
    """A line of a summary, on stderr: results alone go to stdout."""
    print(f"{what:<13}{value}", file=sys.stderr)


def width() -> int:
    return max(60, shutil.get_terminal_size((100, 24)).columns)


class Progress:
    """One line on the terminal that is rewritten: what is being done, and how far a run has come."""

    INTERVAL_S = 0.2

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()
        self._next = self._start

    def phase(self, doing: str) -> None:
        """What is done now; what `__call__` counts begins anew."""
        self._start = self._clock()
        self._next = self._start + self.INTERVAL_S
        self._write(doing)

    def __call__(self, events: int, matches: int) -> None:
        now = self._clock()
        if now >= self._next:
            self._next = now + self.INTERVAL_S
            rate = events / max(now - self._start, 1e-9)
            self._write(f"running: {events:,} events, {rate:,.0f} events/s, {matches:,} matches")

    def clear(self) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


class Silence(Progress):
    """Says nothing: output goes to a file or pipe, or the user wants quiet."""

    def _write(self, line: str) -> None:
        pass


def progress_line(*, quiet: bool) -> Progress:
    return Progress() if sys.stderr.isatty() and not quiet else Silence()
