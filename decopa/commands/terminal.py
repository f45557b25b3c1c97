"""What the command line says besides results: lines of a summary, and one line of progress that is rewritten."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def tell(what: str, value: str) -> None:
    """A line of a summary, on stderr: results alone go to stdout."""
    print(f"{what:<13}{value}", file=sys.stderr)


def width() -> int:
    return max(60, shutil.get_terminal_size((100, 24)).columns)


class Progress:
    """One line on the terminal that is rewritten: what is being done, and how far a run has come."""

    INTERVAL_S = 0.2
    WATCH_S = 0.5

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_s = 0.0
        self._first: tuple[int, float] | None = None
        self._last = (0, 0.0)
        self._matches = 0

    def phase(self, doing: str) -> None:
        """What is done now, while nothing can be counted."""
        self._first, self._matches = None, 0
        self._write(doing)

    def __call__(self, events: int, matches: int) -> None:
        """Events that were taken from the trace and matches that were found so far."""
        now_s = self._clock()
        if self._first is None:
            self._first = self._last = (events, now_s)
        if events > self._last[0]:
            self._last = (events, now_s)
        self._matches = max(self._matches, matches)
        if now_s >= self._next_s:
            self._next_s = now_s + self.INTERVAL_S
            self._write(f"running: {events:,} events{self._rate()}, {self._matches:,} matches")

    def _rate(self) -> str:
        """Events per second between the first time that some were counted and the last time that there were more."""
        assert self._first is not None
        seconds = self._last[1] - self._first[1]
        return f", {(self._last[0] - self._first[0]) / seconds:,.0f} events/s" if seconds > 0 else ""

    @contextmanager
    def watching(self, line: Callable[[], str]) -> Iterator[None]:
        """Rewrites the line twice a second with what `line` says, from a thread, until the work inside is done."""
        ended = threading.Event()

        def rewrite() -> None:
            while not ended.wait(self.WATCH_S):
                self._write(line())

        thread = threading.Thread(target=rewrite, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.clear()

    def clear(self) -> None:
        self._write("")

    def _write(self, line: str) -> None:
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


class Silence(Progress):
    """Says nothing: output goes to a file or pipe, or the user wants quiet."""

    @contextmanager
    def watching(self, line: Callable[[], str]) -> Iterator[None]:
        yield

    def _write(self, line: str) -> None:
        pass


def progress_line(*, quiet: bool) -> Progress:
    return Progress() if sys.stderr.isatty() and not quiet else Silence()
