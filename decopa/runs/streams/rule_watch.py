"""RuleWatch: makes the changes of a rule folder in a run, while that works on its stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any, Protocol

from cluster.change.rules.folder import RuleChange, RuleFolder
from cluster.change.rules.versions import Version
from decopa.errors import DecoPaError, OutputError
from decopa.runs.streams.rules import RuleState
from shuffler.routing.table import NOTHING_YET

#: How often to look for changes, and to write down how far the rules are (s).
_LOOK_EVERY_S = 0.1
_SHOW_EVERY_LOOKS = 10


class Ruled(Protocol):
    """A run whose rules come and go."""

    def add(self, query: str, *, at: Any, sees: Any) -> Version: ...

    def remove(self, name: str, *, at: Any) -> Version: ...

    def replace(self, name: str, query: str, *, at: Any, sees: Any) -> Version: ...

    def queries(self) -> tuple[RuleState, ...]: ...

    @property
    def events(self) -> int: ...

    @property
    def reached_us(self) -> int | None: ...


class RuleWatch:
    """Looks for changes in a thread of its own, so that they are made while a stream is quiet, too.

    A change that cannot be made is answered with the reason, and the run continues as it was. `tell` gets a line for
    each change.
    """

    def __init__(self, run: Ruled, folder: RuleFolder, tell: Callable[[str], None] = lambda line: None) -> None:
        self._run, self._folder, self._tell = run, folder, tell
        self._done = 0
        self._over = threading.Event()
        self._shown: list[dict[str, Any]] | None = None
        self._without_room = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Makes the changes that were made before again, and those that wait; then watches until the end."""
        with self._folder.watching():
            self._again()
            self._look()
            self._show()
            thread = threading.Thread(target=self._watch, name="decopa-rules", daemon=True)
            thread.start()
            try:
                yield
            finally:
                self._over.set()
                thread.join()
                self._settle()
                self._show()

    def _again(self) -> None:
        """Changes that were made in an earlier run of the same stream are made at the same times."""
        answers = self._folder.answers()
        for number, line in self._folder.asked():
            answer = answers.get(number)
            if answer is None:
                break
            self._done = number
            if "refused" not in answer:
                change = RuleChange.from_line(line, f"line {number}")
                self._make(change, answer["at_us"])

    def _watch(self) -> None:
        looks = 0
        while not self._over.wait(_LOOK_EVERY_S):
            looks += 1
            with suppress(OutputError):  # told when it happened; there may be room again later
                self._look()
                if looks % _SHOW_EVERY_LOOKS == 0:
                    self._show()

    def _look(self) -> None:
        for number, line in self._folder.asked(self._done):
            if not self._has_room(number):
                return
            self._done = number
            try:
                version = self._make(RuleChange.from_line(line, f"line {number} of the changes"))
            except DecoPaError as err:
                self._refuse(number, err)
                continue
            self._answer(number, version)

    def _answer(self, number: int, version: Version) -> None:
        self._folder.answer(number, answer_of(version))
        self._tell(_in_words(version))
        self._show()

    def _refuse(self, number: int, err: DecoPaError) -> None:
        self._folder.answer(number, {"refused": str(err)})
        self._tell(f"refused: {err}")

    def _settle(self) -> None:
        """The run is over, and its last changes with it."""

    def _has_room(self, number: int) -> bool:
        """A change whose answer cannot be written waits: made again it would come at another time."""
        try:
            self._folder.answer(0, {"trying": number})
        except OutputError as err:
            if not self._without_room:
                self._tell(f"changes wait: {err}")
            self._without_room = True
            return False
        self._without_room = False
        return True

    def _make(self, change: RuleChange, at_us: int | None = None) -> Version:
        at = change.at if at_us is None else at_us
        if change.do == "remove":
            return self._run.remove(change.name, at=at)
        if change.do == "replace":
            return self._run.replace(change.name, change.query, at=at, sees=change.sees)
        return self._run.add(change.query, at=at, sees=change.sees)

    def _show(self) -> None:
        rules = [asdict(rule) for rule in self._run.queries()]
        if rules != self._shown:
            self._folder.show(rules, self._run.reached_us, self._run.events)
            self._shown = rules


def answer_of(version: Version) -> dict[str, Any]:
    at_us = version.from_us if version.until_us is None else version.until_us
    beginning = at_us == NOTHING_YET  # of a rule that was removed before the stream began
    return {"rule": version.name, "version": version.number, "at_us": None if beginning else at_us}


def _in_words(version: Version) -> str:
    what = f"version {version.number} of rule '{version.name}'"
    if version.until_us == NOTHING_YET:
        return f"{what} never lives: it is removed before the stream begins"
    if version.until_us is not None:
        return f"{what} ends at {version.until_us} us"
    return f"{what} lives from {'the beginning' if version.from_us is None else f'{version.from_us} us'} on"
