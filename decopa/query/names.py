"""Names in query text: which need quotes, and how durations are written."""

from __future__ import annotations

import re
from fractions import Fraction

_CLAUSES = ("QUERY", "PATTERN", "WHERE", "WITHIN", "RETURN")
_OPERATORS = ("SEQ", "AND", "OR", "KL", "NSEQ", "NOT", "FORALL", "IN", "TRUE", "FALSE")
KEYWORDS = frozenset((*_CLAUSES, *_OPERATORS))
#: Columns that every table of matches has beside those of its aliases.
RESULT_COLUMNS = ("query", "start_ts", "end_ts")
UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
#: Other words for units.
_UNIT_WORDS = {
    "us": ("usec", "microsecond", "microseconds"),
    "ms": ("msec", "millisecond", "milliseconds"),
    "s": ("sec", "secs", "second", "seconds"),
    "min": ("mins", "minute", "minutes"),
    "h": ("hour", "hours"),
    "d": ("day", "days"),
}
_UNITS = {word: UNITS_US[unit] for unit, words in _UNIT_WORDS.items() for word in (unit, *words)}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-z]+)\s*\Z", re.ASCII)
#: Digits of a duration; more are no time that anyone means, and slow to read.
_LONGEST = 40
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")


def is_plain(name: str) -> bool:
    """Whether the name is an identifier: letters, digits and underscores, not starting with a digit."""
    return _PLAIN.match(name) is not None


def quoted(name: str) -> str:
    """The name as query text: bare if it is a plain identifier, in double quotes otherwise."""
    if is_plain(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def duration_us(text: str) -> int | None:
    """Microseconds of a duration such as '1.5 h'; None if it is none, or not a whole number of microseconds."""
    written = _DURATION.match(text.lower())
    if written is None or written[2] not in _UNITS or len(written[1]) > _LONGEST:
        return None
    exact = Fraction(written[1]) * _UNITS[written[2]]
    return int(exact) if exact.denominator == 1 else None


def duration_text(microseconds: int) -> str:
    """The duration in the largest unit that divides it: 600000000 -> '10 min'."""
    for unit in ("d", "h", "min", "s", "ms"):
        if microseconds and microseconds % UNITS_US[unit] == 0:
            return f"{microseconds // UNITS_US[unit]} {unit}"
    return f"{microseconds} us"
