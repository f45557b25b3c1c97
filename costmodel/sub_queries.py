"""What is known of whole sub-queries, where pairs of positions do not say enough: measured, with standard errors.

Sub-queries are named by their pattern with aliases, the way they are projected from the query: `AND(A a, KL(B b))`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from decopa.errors import QueryError, StatisticsError
from decopa.language.text.parser import parse
from decopa.query.pattern import And, EventRef, Kleene, Pattern, Seq, children_of

#: Where a number lies with a confidence of 95 %: so many standard errors to either side.
CONFIDENCE = 1.96


@dataclass(frozen=True, slots=True)
class SubQuerySelectivity:
    """A measured selectivity of a sub-query without KL and NOT; it replaces the product of the pairs (5.3.1).

    `meeting` says how many times as often events for all its positions meet (in one window and in order) as they would
    at even rates; None if that was not measured.
    """

    pattern: str
    selectivity: float
    standard_error: float = 0.0
    meeting: float | None = None

    def __post_init__(self) -> None:
        check_share(self.selectivity, f"the selectivity of {self.pattern}")
        check_share(self.standard_error, f"the standard error of {self.pattern}")
        if self.meeting is not None:
            _check_positive(self.meeting, f"how often the events of {self.pattern} meet")
        tree = _parsed(self.pattern)
        if not _is_plain(tree):
            raise StatisticsError(
                f"the sub-query '{self.pattern}' has more in it than SEQ and AND; give the selectivity of the part "
                "without KL and NOT, from which the rest is computed"
            )
        object.__setattr__(self, "pattern", str(tree))


@dataclass(frozen=True, slots=True)
class GroupRate:
    """Matches per window of a sub-query with one KL closed: the mean of what really happens, not what happens at the
    mean rate.

    `members` is the mean number of events that a match of the other positions could take into its group, `largest` the
    largest such number seen: a group is any subset of them. `tried` is how often, per match, a member is held against a
    group to find it: more than once where members must fit each other.
    """

    pattern: str
    per_window: float
    standard_error: float = 0.0
    members: float = 0.0
    largest: int = 0
    tried: float = 1.0

    def __post_init__(self) -> None:
        for what, value in (("matches", self.per_window), ("standard error", self.standard_error)):
            if not (math.isfinite(value) and value >= 0):
                raise StatisticsError(f"the {what} of {self.pattern} must be a number from 0 on, got {value:g}")
        _check_positive(self.tried, f"how often members of {self.pattern} are tried for a group")
        if not (math.isfinite(self.members) and self.members >= 0) or self.largest < 0:
            raise StatisticsError(f"the members of {self.pattern} must be numbers from 0 on")
        tree = _parsed(self.pattern)
        if _kleene_count(tree) != 1:
            raise StatisticsError(f"the sub-query '{self.pattern}' must have exactly one KL, whose groups are counted")
        object.__setattr__(self, "pattern", str(tree))

    @property
    def interval(self) -> tuple[float, float]:
        return _interval(self.per_window, self.standard_error)


@dataclass(frozen=True, slots=True)
class NegationShare:
    """What a NOT does to the matches of a sub-query: the share that it blocks, how many negated matches are compared
    with one of them until that is known, and the part of a window for which one waits until it can be known.
    """

    pattern: str
    blocked: float
    standard_error: float = 0.0
    compared: float = 0.0
    waiting: float = 0.0

    def __post_init__(self) -> None:
        check_share(self.blocked, f"the share of matches that {self.pattern} blocks")
        check_share(self.standard_error, f"the standard error of {self.pattern}")
        check_share(self.waiting, f"the part of a window that matches of {self.pattern} wait")
        if not (math.isfinite(self.compared) and self.compared >= 0):
            raise StatisticsError(
                f"the comparisons of {self.pattern} must be a number from 0 on, got {self.compared:g}"
            )
        object.__setattr__(self, "pattern", str(_parsed(self.pattern)))


def check_share(share: float, what: str) -> None:
    """Raises StatisticsError for anything that is no share of a whole."""
    if not (math.isfinite(share) and 0 <= share <= 1):
        raise StatisticsError(f"{what} must be between 0 and 1, got {share:g}")


def _interval(value: float, standard_error: float) -> tuple[float, float]:
    """A count is not negative, and errors of counts that vary a lot are factors rather than differences."""
    if not value:
        return 0.0, CONFIDENCE * standard_error
    factor = math.exp(CONFIDENCE * math.sqrt(math.log1p((standard_error / value) ** 2)))
    return value / factor, value * factor


def _check_positive(value: float, what: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise StatisticsError(f"{what} must be a positive number, got {value:g}")


@lru_cache(maxsize=4_096)
def _parsed(pattern: str) -> Pattern:
    try:
        return parse(f"PATTERN {pattern} WITHIN 1 s").pattern
    except QueryError as err:
        raise StatisticsError(f"the sub-query '{pattern}' cannot be read: {err}") from err


def _is_plain(pattern: Pattern) -> bool:
    if isinstance(pattern, Seq | And):
        return all(_is_plain(child) for child in pattern.children)
    return isinstance(pattern, EventRef)


def _kleene_count(pattern: Pattern) -> int:
    if isinstance(pattern, Kleene):
        return 1
    return sum(map(_kleene_count, children_of(pattern)))
