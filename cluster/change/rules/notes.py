"""RuleNotes: the rules of a run, as its checkpoints keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from cluster.change.rules.versions import RuleBook, Version
from decopa.documents import as_document
from decopa.errors import CheckpointError

#: Under which a checkpoint has the rules.
RULES = "rules"


@dataclass(frozen=True)
class KeptRules:
    """All versions up to a moment, after so many changes; the number that the last of them has in a folder of changes,
    and which version it has begun or ended (0 and None if none came from there). The last event was at `reached_us`."""

    book: RuleBook
    changes: int = 0
    number: int = 0
    last: str | None = None
    reached_us: int | None = None

    @property
    def last_version(self) -> Version | None:
        return next((one for one in self.book.versions if one.key == self.last), None)


@dataclass(frozen=True)
class KeptState:
    """What a checkpoint says of rules: also how many matches of each version were published, by its key."""

    rules: KeptRules
    counts: Mapping[str, int] = field(default_factory=dict)

    def to_extra(self) -> dict[str, Any]:
        rules = self.rules
        document: dict[str, Any] = {
            "versions": [version.to_document() for version in rules.book.versions],
            "changes": rules.changes,
            "number": rules.number,
            "matches": dict(self.counts),
        }
        known = {"last": rules.last, "reached_us": rules.reached_us}
        return {RULES: document | {name: value for name, value in known.items() if value is not None}}

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any], where: str) -> KeptState:
        if RULES not in extra:
            raise CheckpointError(f"{where} has no rules: it belongs to a run without --rules; name another folder")
        found = as_document(extra[RULES], f"{where}: {RULES}", CheckpointError)
        needed = ("versions", "changes", "number", "matches")
        found.check_fields(needed, (*needed, "last", "reached_us"))
        book = RuleBook(tuple(Version.from_document(one) for one in found.objects("versions")))
        last = found.value("last", str) if "last" in found.fields else None
        reached_us = found.value("reached_us", int) if "reached_us" in found.fields else None
        rules = KeptRules(book, found.value("changes", int), found.value("number", int), last, reached_us)
        counts = found.value("matches", dict)
        if not all(isinstance(count, int) for count in counts.values()):
            found.fail("'matches' must be numbers")
        return cls(rules, counts)


class RuleNotes:
    """What the checkpoints of one plan say of rules (`cluster.checkpoint.notes`). `counts` tells how many matches were
    published so far, `reached_us` the time of the last event. `tell` hears how many changes a complete checkpoint
    holds, and how many matches were published with it and before."""

    def __init__(
        self,
        rules: KeptRules,
        counts: Callable[[], Mapping[str, int]],
        reached_us: Callable[[], int | None],
        tell: Callable[[int, Mapping[str, int]], None],
    ) -> None:
        self.rules, self._counts, self._reached_us, self._tell = rules, counts, reached_us, tell

    def taken(self) -> KeptRules:
        return replace(self.rules, reached_us=self._reached_us())

    def with_matches(self, taken: KeptRules, matches: pa.Table) -> Mapping[str, Any]:
        counts = dict(self._counts())
        if matches.num_rows:
            groups = matches.select(["query", "version"]).group_by(["query", "version"]).aggregate([([], "count_all")])
            for name, number, count in zip(*(groups.column(place).to_pylist() for place in range(3)), strict=True):
                key = f"{name}@{number}"
                counts[key] = counts.get(key, 0) + count
        return KeptState(taken, counts).to_extra()

    def kept(self, extra: Mapping[str, Any]) -> None:
        self._tell(extra[RULES]["changes"], extra[RULES]["matches"])
