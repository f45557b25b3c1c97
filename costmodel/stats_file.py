"""`stats.json`: statistics to and from JSON, with every way to be wrong named.

    {
      "format": "decopa-stats", "version": 1, "window_us": 600000000,
      "rates": {"A": 1000, "B": 30.5},
      "selectivities": [
        {"types": ["A", "B"], "selectivity": 0.01, "standard_error": 0.0004},
        {"aliases": ["a1", "b"], "selectivity": 0.02},
        {"sub_query": "SEQ(A a, B b)", "selectivity": 0.008}
      ],
      "filter_shares": {"a1": 0.5},
      "default_selectivity": 1.0,
      "measured_for": ["QUERY q PATTERN ..."],
      "profiles": {"A": {"peak_rate": 3120, "variation": 0.8, "share": 0.31}},
      "meetings": [{"types": ["A", "B"], "times": 1.3}]
    }

Everything after `selectivities` may be left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from costmodel.statistics import Pair, PairSelectivity, RateProfile, Statistics, SubQuerySelectivity
from decopa.documents import Document, as_document, read_document
from decopa.errors import StatisticsError

FORMAT = "decopa-stats"
VERSION = 1
_REQUIRED = ("format", "version", "window_us", "rates", "selectivities")
_OPTIONAL = ("filter_shares", "default_selectivity", "measured_for", "profiles", "meetings")
_PROFILE = ("peak_rate", "variation", "share")


def to_json(statistics: Statistics) -> str:
    """The file's text; `from_json` reads it back to equal statistics."""
    pairs = [("types", one) for one in statistics.type_pairs] + [("aliases", one) for one in statistics.alias_pairs]
    selectivities = [_entry({kind: [one.first, one.second]}, one) for kind, one in pairs]
    selectivities += [_entry({"sub_query": one.pattern}, one) for one in statistics.sub_queries]
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "window_us": statistics.window_us,
        "rates": dict(statistics.rates),
        "selectivities": selectivities,
    }
    if statistics.filter_shares:
        document["filter_shares"] = dict(statistics.filter_shares)
    if statistics.default_selectivity is not None:
        document["default_selectivity"] = statistics.default_selectivity
    if statistics.measured_for:
        document["measured_for"] = list(statistics.measured_for)
    if statistics.profiles:
        document["profiles"] = {name: asdict(profile) for name, profile in statistics.profiles.items()}
    if statistics.meetings:
        document["meetings"] = [{"types": list(pair), "times": times} for pair, times in statistics.meetings.items()]
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, name: str = "stats.json") -> Statistics:
    """Reads what `to_json` wrote or a person did; `name` is how messages call the file."""
    document = read_document(
        text, format=FORMAT, version=VERSION, name=name, error=StatisticsError, remedy="run `decopa stats`"
    )
    document.check_fields(_REQUIRED, _OPTIONAL)
    found: dict[str, list[Any]] = {"types": [], "aliases": [], "sub_query": []}
    for entry in document.objects("selectivities"):
        _read_selectivity(entry, found)
    given_default = document.fields.get("default_selectivity") is not None
    with _located(name):
        return Statistics(
            window_us=document.value("window_us", int),
            rates=document.numbers("rates"),
            type_pairs=tuple(found["types"]),
            alias_pairs=tuple(found["aliases"]),
            sub_queries=tuple(found["sub_query"]),
            filter_shares=document.numbers("filter_shares", optional=True),
            default_selectivity=document.number("default_selectivity") if given_default else None,
            measured_for=document.texts("measured_for", optional=True),
            profiles=_read_profiles(document),
            meetings=_read_meetings(document),
            name=name,
        )


def _entry(subject: dict[str, Any], known: PairSelectivity | SubQuerySelectivity) -> dict[str, Any]:
    entry = {**subject, "selectivity": known.selectivity}
    if known.standard_error:
        entry["standard_error"] = known.standard_error
    return entry


def _read_profiles(document: Document) -> dict[str, RateProfile]:
    entries: dict[str, Any] = document.value("profiles", dict) if "profiles" in document else {}
    found = {}
    for event_type, value in entries.items():
        entry = as_document(value, f"{document.where}: profiles: '{event_type}'", document.error)
        entry.check_fields(_PROFILE)
        with _located(entry.where):
            found[event_type] = RateProfile(**{field: entry.number(field) for field in _PROFILE})
    return found


def _read_meetings(document: Document) -> dict[Pair, float]:
    found: dict[Pair, float] = {}
    for entry in document.objects("meetings", optional=True):
        entry.check_fields(("types", "times"))
        first, second = _two_names(entry, "types")
        if found.setdefault((first, second), value := entry.number("times")) != value:
            entry.fail(f"{second} after {first} is there twice, with different numbers; keep one")
    return found


def _read_selectivity(entry: Document, found: dict[str, list[Any]]) -> None:
    """Adds the entry to what was found for its kind of subject."""
    subjects = [name for name in found if name in entry]
    if len(subjects) != 1:
        entry.fail('needs one of "types", "aliases" and "sub_query", as in {"types": ["A", "B"], "selectivity": 0.1}')
    (subject,) = subjects
    entry.check_fields((subject, "selectivity"), ("standard_error",))
    value = entry.number("selectivity")
    error = entry.number("standard_error") if "standard_error" in entry else 0.0
    with _located(entry.where):
        if subject == "sub_query":
            found[subject].append(SubQuerySelectivity(entry.value(subject, str), value, error))
        else:
            found[subject].append(PairSelectivity(*_two_names(entry, subject), value, error))


def _two_names(entry: Document, key: str) -> Pair:
    names = entry.texts(key)
    if len(names) != 2:
        entry.fail(f"'{key}' must be two names, got {len(names)}")
    return names[0], names[1]


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Puts the place into errors that do not know it."""
    try:
        yield
    except StatisticsError as err:
        if where in str(err):
            raise
        raise StatisticsError(f"{where}: {err}") from err
