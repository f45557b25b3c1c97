"""Rules that come and go: versions of queries, each with a life in event time.

A version lives in [from_us, until_us). With `sees="window"` it reports the matches of its query in the whole stream
that end within its life; with `sees="new"` those of its query in the events from `from_us` on. So what is reported
follows from the stream and the changes alone, whatever the plan, the batches and the crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cluster.change.staying import parts_without, renamed
from decopa.choices import RULE_SIGHTS, RuleSight
from decopa.documents import Document
from decopa.errors import DecoPaError, did_you_mean
from decopa.language.text.parser import parse_workload
from decopa.planning.history import history_windows
from decopa.planning.plan import Plan, QueryPlan
from decopa.query.query import Query
from shuffler.routing.table import NOTHING_YET

Doing = Literal["add", "remove", "replace"]
DOING: tuple[Doing, ...] = ("add", "remove", "replace")


class RuleError(DecoPaError):
    """A change of rules that cannot be made; the run continues as it was."""


class RunEnded(RuleError):
    """The run ended before a change was made."""


@dataclass(frozen=True, slots=True)
class Version:
    """A rule as it was written for some time. None for `from_us` is the beginning of the stream, for `until_us` its
    end."""

    query: Query
    number: int = 1
    from_us: int | None = None
    until_us: int | None = None
    sees: RuleSight = "window"

    @property
    def name(self) -> str:
        return self.query.name

    @property
    def key(self) -> str:
        return f"{self.name}@{self.number}"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the parts that find its matches, one for each alternative of its query."""
        key, branches = self.key, len(self.query.branches)
        return (key,) if branches == 1 else tuple(f"{key}.{place + 1}" for place in range(branches))

    @property
    def needs_from_us(self) -> int | None:
        """The events from here on decide what the version reports; None if all of the stream does."""
        if self.from_us is None or self.sees == "new":
            return self.from_us
        return self.from_us - self.reach_us

    @property
    def reach_us(self) -> int:
        """How far before the watermark events decide what it reports."""
        return max(history_windows(one) * one.window_us for one in self.query.branches)

    def is_over(self, reached_us: int | None) -> bool:
        """Whether it was removed, and a plan that has got so far holds no match that ends before that."""
        return self.until_us is not None and reached_us is not None and reached_us > self.until_us + self.reach_us

    def to_document(self) -> dict[str, Any]:
        """As plain JSON values, without those that are None."""
        life = {"from_us": self.from_us, "until_us": self.until_us}
        known = {name: value for name, value in life.items() if value is not None}
        return {"query": str(self.query), "number": self.number, "sees": self.sees, **known}

    @classmethod
    def from_document(cls, found: Document) -> Version:
        found.check_fields(("query", "number", "sees"), ("query", "number", "sees", "from_us", "until_us"))
        (query,) = parse_workload(found.value("query", str))
        life = [found.value(name, int) if name in found.fields else None for name in ("from_us", "until_us")]
        sees = found.value("sees", str)
        if sees not in RULE_SIGHTS:
            found.fail(f"a rule sees {' or '.join(RULE_SIGHTS)}, not '{sees}'")
        return cls(query, found.value("number", int), life[0], life[1], sees)


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All versions that there have been, in the order in which they came."""

    versions: tuple[Version, ...] = ()

    @classmethod
    def of(cls, queries: Sequence[Query]) -> RuleBook:
        """The rules that a run begins with."""
        book = cls()
        for query in queries:
            book = book.added(query, None, "window")
        return book

    @property
    def current(self) -> dict[str, Version]:
        """The rules that nobody has removed, by name; some may begin later."""
        return {one.name: one for one in self.versions if one.until_us is None}

    def added(self, query: Query, from_us: int | None, sees: RuleSight) -> RuleBook:
        if sees not in RULE_SIGHTS:
            raise RuleError(f"a rule sees '{RULE_SIGHTS[0]}' or '{RULE_SIGHTS[1]}', not '{sees}'")
        if query.name in self.current:
            raise RuleError(f"there is a rule '{query.name}' already; replace it, or give the new one another name")
        before = [one for one in self.versions if one.name == query.name]
        begins_us = NOTHING_YET if from_us is None else from_us
        overlapping = next((one for one in before if one.until_us is None or one.until_us > begins_us), None)
        if overlapping is not None:
            raise RuleError(
                f"version {overlapping.number} of rule '{query.name}' ends at {overlapping.until_us} us, after the "
                f"new one would begin ({from_us} us); add it from there on"
            )
        return RuleBook((*self.versions, Version(query, len(before) + 1, from_us, None, sees)))

    def removed(self, name: str, until_us: int | None) -> RuleBook:
        """`until_us` None removes a rule before the stream has begun: it never lives."""
        version = self.find(name)
        if version.from_us is not None and (until_us is None or until_us <= version.from_us):
            raise RuleError(
                f"rule '{name}' begins at {version.from_us} us, so it cannot end at {until_us} us; name a later time"
            )
        ended = replace(version, until_us=NOTHING_YET if until_us is None else until_us)
        return RuleBook(tuple(ended if one is version else one for one in self.versions))

    def replaced(self, name: str, query: Query, at_us: int | None, sees: RuleSight) -> RuleBook:
        """The rule ends and its next version begins at the same moment; the new version keeps the name."""
        self.find(name)
        return self.removed(name, at_us).added(replace(query, name=name), at_us, sees)

    def find(self, name: str) -> Version:
        if name not in self.current:
            raise RuleError(f"there is no rule '{name}'{did_you_mean(name, self.current)}")
        return self.current[name]


@dataclass(frozen=True, slots=True)
class BookChange:
    """A change of rules as it was asked for. `at_us` None is as soon as possible."""

    do: Doing
    name: str
    query: Query | None = None
    at_us: int | None = None
    sees: RuleSight = "window"

    def made_in(self, book: RuleBook, at_us: int | None) -> RuleBook:
        """The book with the change, which takes effect at `at_us`; None is the beginning of the stream."""
        if self.do == "remove":
            return book.removed(self.name, at_us)
        assert self.query is not None
        if self.do == "add":
            return book.added(self.query, at_us, self.sees)
        return book.replaced(self.name, self.query, at_us, self.sees)

    def version_in(self, book: RuleBook) -> Version:
        """The version that it has begun, or ended, in a book in which it was made last."""
        return next(one for one in reversed(book.versions) if one.name == self.name)

    def __str__(self) -> str:
        return {"add": "adding", "remove": "removing", "replace": "replacing"}[self.do] + f" rule '{self.name}'"


def opening_plan(plan: Plan, book: RuleBook) -> Plan:
    """The plan of the rules that a run begins with, its parts called as their versions call them."""
    wanted = (key for version in book.versions for key in version.keys)
    return renamed(plan, {plan.keys[place]: next(wanted) for place in plan.reported})


def version_parts(version: Version, plan: Plan) -> tuple[QueryPlan, ...]:
    """The parts of a plan of the version's query alone, with the version's keys and what it sees."""
    since_us = version.from_us if version.sees == "new" else None
    return tuple(replace(part, key=key, since_us=since_us) for key, part in zip(version.keys, plan.parts, strict=True))


#: The parts that find the matches of a version, called by its keys.
PartsOf = Callable[[Version], tuple[QueryPlan, ...]]


def wanted_parts(
    plan: Plan, before: RuleBook, after: RuleBook, reached_us: int | None, parts_of: PartsOf
) -> tuple[tuple[QueryPlan, ...] | None, dict[str, int]]:
    """The parts that a book needs where `plan` works on the one before and has reached a time, and from when on new
    ones need events.

    None where no part is missing. Those of versions that are over go, once there is another plan anyway.
    """
    begin_us: dict[str, int] = {}
    added: list[QueryPlan] = []
    for version in after.versions:
        if version.keys[0] in plan.place_of or version in before.versions:
            continue
        added += parts_of(version)
        if version.needs_from_us is not None:
            begin_us |= dict.fromkeys(version.keys, version.needs_from_us)
    if not added:
        return None, begin_us
    over = {key for version in after.versions if version.is_over(reached_us) for key in version.keys}
    return (*parts_without(plan, over), *added), begin_us
