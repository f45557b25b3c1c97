"""DurableRuleWatch: makes the changes of a rule folder in a run with checkpoints."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from cluster.change.rules.folder import RuleChange, RuleFolder
from cluster.change.rules.notes import KeptRules
from cluster.change.rules.versions import RunEnded, Version
from decopa.errors import DecoPaError
from decopa.runs.streams.durable_rules import DurableRules
from decopa.runs.streams.rule_watch import RuleWatch, answer_of


class DurableRuleWatch(RuleWatch):
    """As `RuleWatch`, for a run with checkpoints: a change is answered once it is in one, and one that is in none is
    made anew when the run has been taken up."""

    def __init__(self, run: DurableRules, folder: RuleFolder, tell: Callable[[str], None] = lambda line: None) -> None:
        super().__init__(run, folder, tell)
        self._rules = run
        #: Changes that were asked for, by their numbers, in order.
        self._asked: deque[tuple[int, Future[Version]]] = deque()
        self._begun = threading.Event()
        run.changes.began = self._begin

    def _again(self) -> None:
        """The run tells what is in its checkpoints when it begins."""

    def _begin(self, rules: KeptRules) -> None:
        """The run has its rules from a checkpoint, or those of its beginning, and has not been fed yet: it makes what
        was asked for by now before anything else."""
        answers, last = self._folder.answers(), rules.last_version
        if last is not None and rules.number and answers.get(rules.number) != _numbered(rules.number, last):
            told: Future[Version] = Future()
            told.set_result(last)
            self._asked.append((rules.number, told))
        self._done = rules.number
        for number, line in self._folder.asked(rules.number):
            self._done = number
            if "refused" not in answers.get(number, {}):
                self._ask(number, line)
        self._begun.set()

    def _settle(self) -> None:
        while self._asked and self._asked[0][1].done():
            number, asked = self._asked[0]
            failure = asked.exception()
            if isinstance(failure, DecoPaError) and not isinstance(failure, RunEnded):
                self._refuse(number, failure)
            elif failure is None:
                self._answer(number, asked.result())
            self._asked.popleft()

    def _look(self) -> None:
        if not self._begun.is_set():
            return
        self._settle()
        for number, line in self._folder.asked(self._done):
            if not self._has_room(number):
                return
            self._done = number
            self._ask(number, line)

    def _ask(self, number: int, line: str) -> None:
        try:
            change = RuleChange.from_line(line, f"line {number} of the changes")
            query = None if change.do == "remove" else change.query
            asked = self._rules.ask(change.do, change.name, query, at=change.at, sees=change.sees, number=number)
        except DecoPaError as err:
            asked = Future()
            asked.set_exception(err)
        self._asked.append((number, asked))


def _numbered(number: int, version: Version) -> dict[str, Any]:
    return {"change": number, **answer_of(version)}
