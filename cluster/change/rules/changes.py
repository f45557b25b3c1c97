"""RuleChanges: rules of a run with checkpoints on Ray that come and go.

A change is in the checkpoint that its plan begins with, or in none: whoever asked for it hears of it once that
checkpoint is complete. After a loss the run continues with the rules of its last checkpoint, and changes that are not
in it are made again, later in the stream.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from cluster.change.deployed.cutting import Cutting
from cluster.change.deployed.plan_changes import PlanChanges
from cluster.change.history import DEFAULT_MAX_BYTES
from cluster.change.outcome import Switched
from cluster.change.rules.notes import KeptRules, KeptState, RuleNotes
from cluster.change.rules.versions import BookChange, PartsOf, RuleBook, RuleError, RunEnded, Version, wanted_parts
from cluster.checkpoint.coordinator import Side
from cluster.checkpoint.store import Manifest
from cluster.deploy.deployment import ActorLost, Deployment
from cluster.feeding import FeedBlock
from cluster.session import Session
from decopa.errors import DecoPaError
from decopa.planning.plan import Plan, QueryPlan
from decopa.planning.workload.packed import packed
from shuffler.routing.table import NOTHING_YET

_LOOK_S = 0.005
#: How often a change is begun again that a loss has met while its plan was built.
_TRIES = 5


@dataclass(eq=False)
class _Asked:
    """A change of rules on its way; `number` is the one that it has in a folder of changes."""

    change: BookChange
    number: int = 0
    result: Future[Version] = field(default_factory=Future)
    tries: int = 0
    #: The change of plan, if it needs one.
    made: Future[Switched] | None = None
    #: When it takes effect, where that is known before the cut; NOTHING_YET is the beginning of the stream.
    at_us: int | None = None
    #: The number of changes once it was made; 0 until then.
    changes: int = 0


class RuleChanges(PlanChanges):
    """Changes the rules of a run; `ask` from any thread. A rule is worked on by one of `hosts` processes.

    A rule that sees the window begins right behind the cut at which its plan takes over, unless a later time is named;
    the stream goes on while that is built. One that sees new events only begins at once, and so does one that is named
    a time: if it replaces another, no event of that time is worked on before the plan has taken over.
    """

    same_queries = False

    def __init__(
        self,
        book: RuleBook,
        parts: tuple[QueryPlan, ...],
        parts_of: PartsOf,
        *,
        hosts: int,
        waits: bool,
        keep_us: int = 0,
        max_history_bytes: int = DEFAULT_MAX_BYTES,
        told: Callable[[str, Deployment], None] = lambda phase, deployment: None,
    ) -> None:
        self._first, self._parts_of, self._hosts = KeptRules(book), parts_of, hosts
        self._first_plan = packed(parts, hosts)
        super().__init__(self._first_plan, waits=waits, keep_us=keep_us, max_history_bytes=max_history_bytes, told=told)
        self._notes = self._notes_of(self._first)
        #: Hears with which rules the run begins, before it is fed anything.
        self.began: Callable[[KeptRules], None] = lambda rules: None
        self._has_begun = False
        #: Matches of each version that are in complete checkpoints, by its key.
        self.counts: Mapping[str, int] = {}
        self._queue: deque[_Asked] = deque()
        self._under_way: _Asked | None = None
        #: Events up to this time passed before this driver has seen any: it took the run up.
        self._gone_us, self._is_taken_up = NOTHING_YET, False
        #: How far the stream was when the attempt began.
        self._began_us = NOTHING_YET
        self._closed = False
        self._asking = threading.Lock()

    # ------------------------------------------------------------- for those who change the rules

    def ask(self, change: BookChange, number: int = 0) -> Future[Version]:
        """The result is the version that began or ended, once that is in a checkpoint; RuleError if it was refused,
        RunEnded if the run has ended before."""
        asked = _Asked(change, number)
        with self._asking:
            if self._closed:
                asked.result.set_exception(_ended(asked))
            else:
                self._queue.append(asked)
        return asked.result

    @property
    def rules(self) -> KeptRules:
        """The rules as they are now; the last change may not be in a checkpoint yet."""
        return self._notes.rules

    @property
    def reached_us(self) -> int | None:
        """The time of the last event that was fed; None before the first one."""
        # A run that was taken up knows the last one from its checkpoint, until the next one comes.
        return max(self._session.last_ts, self._began_us) if self.events else None

    @property
    def events(self) -> int:
        session = getattr(self, "_session", None)
        return 0 if session is None else int(session.events)

    # ------------------------------------------------------------- as `Changing`

    @property
    def notes(self) -> RuleNotes:
        return self._notes

    def begin_from(self, manifest: Manifest | None, plan: Plan) -> Plan:
        if manifest is None:
            found, plan = KeptState(self._first), self._first_plan
        else:
            found = KeptState.from_extra(manifest.extra, f"checkpoint {manifest.number}")
            plan = packed(Plan.from_json(manifest.plan).parts, self._hosts)
        self.counts, self._notes = found.counts, self._notes_of(found.rules)
        self._began_us = NOTHING_YET if found.rules.reached_us is None else found.rules.reached_us
        asked, self._under_way = self._under_way, None
        if asked is not None and asked.changes and found.rules.changes >= asked.changes:
            asked.result.set_result(asked.change.version_in(found.rules.book))
        elif asked is not None:
            self._again(asked)
        if not self._has_begun:
            self._has_begun = True
            self.began(found.rules)
        return plan

    def follow(self, session: Session, cutting: Cutting, deploy: Callable[[Plan], Deployment]) -> None:
        super().follow(session, cutting, deploy)
        self._gone_us = NOTHING_YET
        self._is_taken_up = session.events > 0

    def close(self) -> None:
        super().close()
        with self._asking:
            self._closed = True
            waiting, self._under_way = [self._under_way, *self._queue], None
            self._queue.clear()
        for asked in waiting:
            if asked is not None and not asked.result.done():
                asked.result.set_exception(_ended(asked))

    # ------------------------------------------------------------- as `Following`

    def fed(self, block: FeedBlock, ordinal: int, number: int) -> None:
        if self._ring is None and ordinal:
            self._gone_us = block.first_ts
        super().fed(block, ordinal, number)

    def between_blocks(self, next_us: int | None = None) -> None:
        self._take_up()
        super().between_blocks(next_us)
        tied = next_us is not None and next_us == self._session.last_ts
        while self._waits and not tied and self._goes_on:
            self._session.idle(_LOOK_S)
            self._take_up()
            super().between_blocks(next_us)

    @property
    def _goes_on(self) -> bool:
        """Whether a change can go on without further events."""
        return self._under_way is not None or (bool(self._queue) and self._may_begin(self._queue[0]))

    def holds(self, block: FeedBlock) -> bool:
        """A rule that is replaced at a given time reports nothing from then on, so the next one has to be there."""
        asked = self._under_way
        if asked is None or asked.made is None or asked.changes or asked.change.do != "replace":
            return False
        if asked.at_us is None or block.last_ts < asked.at_us:
            return False
        if block.first_ts == self._session.last_ts:  # plans cannot be cut between events of one time
            self._refuse(
                asked, RuleError(f"events of {self._session.last_ts} us and of {asked.at_us} us come together")
            )
            return False
        return True

    # ------------------------------------------------------------- a change

    def _take_up(self) -> None:
        """Begins the next change once the one before is in a checkpoint."""
        self._look_at_failure()
        while self._under_way is None and self.is_idle and self._queue and self._may_begin(self._queue[0]):
            asked = self._queue.popleft()
            try:
                self._start(asked)
            except DecoPaError as err:
                asked.result.set_exception(err)

    def _may_begin(self, asked: _Asked) -> bool:
        """Whether checkpoints can be written, and the last events are here that a new rule looks back to: a driver that
        has just taken the run up has none, they come with time."""
        if self._cutting.obstacle is not None:
            return False
        change = asked.change
        if change.query is None or change.sees == "new" or not self._is_taken_up:
            return True
        return self._ring is not None and self._session.last_ts - Version(change.query).reach_us > self._gone_us

    def _start(self, asked: _Asked) -> None:
        reached_us, change, before = self.reached_us, asked.change, self.rules.book
        if change.at_us is not None and reached_us is not None and change.at_us <= reached_us:
            raise RuleError(
                f"a change at {change.at_us} us comes too late, events up to {reached_us} us have been worked on; name "
                "a later time, or leave it out"
            )
        soon_us = None if reached_us is None else reached_us + 1
        at_us = soon_us if change.at_us is None else change.at_us
        book = change.made_in(before, at_us)
        parts, begin_us = wanted_parts(self._plan, before, book, reached_us, self._parts_of)
        self._under_way = asked
        asked.at_us = NOTHING_YET if at_us is None else at_us
        if parts is None:
            self._adopt(asked, book, self._notes)
            self._cutting.urgent = True
            return
        if change.sees == "window" and change.at_us is None and reached_us is not None:
            asked.at_us = None  # the cut decides
        try:
            asked.made = self.change(packed(parts, self._hosts), begin_us)
        except BaseException:
            self._under_way = None
            raise

    def _adopt(self, asked: _Asked, book: RuleBook, notes: RuleNotes) -> None:
        """From here on the notes have the book."""
        asked.changes = self.rules.changes + 1
        number = asked.number or self.rules.number
        notes.rules = KeptRules(book, asked.changes, number, asked.change.version_in(book).key)

    def _taking_over(self, result: Future[Switched], side: Side, watermark_us: int) -> Side:
        asked = self._under_way
        notes = self._notes_of(self.rules)
        if asked is not None and asked.made is result:
            at_us = watermark_us + 1 if asked.at_us is None else asked.at_us
            book = asked.change.made_in(self.rules.book, None if at_us == NOTHING_YET else at_us)
            self._adopt(asked, book, notes)
        self._notes = notes  # the last checkpoint of the old plan still has the old ones
        return replace(side, notes=notes)

    def _notes_of(self, rules: KeptRules) -> RuleNotes:
        return RuleNotes(rules, lambda: self.counts, lambda: self.reached_us, self._kept)

    def _kept(self, changes: int, counts: Mapping[str, int]) -> None:
        """A checkpoint is complete."""
        self.counts, asked = counts, self._under_way
        if asked is not None and asked.changes and changes >= asked.changes:
            self._under_way = None
            asked.result.set_result(asked.change.version_in(self.rules.book))

    def _look_at_failure(self) -> None:
        asked = self._under_way
        if asked is None or asked.made is None or not asked.made.done() or asked.made.cancelled():
            return
        failure = asked.made.exception()
        if failure is None:
            return
        self._under_way = None
        lost = isinstance(failure.__cause__, ActorLost) and asked.tries < _TRIES
        if lost or self._cutting.obstacle is not None:
            self._again(asked)
        else:
            asked.result.set_exception(RuleError(str(failure)))

    def _again(self, asked: _Asked) -> None:
        """It is begun anew, before all others."""
        self._queue.appendleft(_Asked(asked.change, asked.number, asked.result, asked.tries + 1))

    def _refuse(self, asked: _Asked, failure: RuleError) -> None:
        assert asked.made is not None
        asked.made.cancel()
        self._under_way = None
        asked.result.set_exception(failure)


def _ended(asked: _Asked) -> Any:
    return RunEnded(f"the run ended before {asked.change} was in a checkpoint")
