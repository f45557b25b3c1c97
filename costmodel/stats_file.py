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
from decopa.documents import check_fields, fail, kind_of, number, numbers, read_document, texts, value_of_kind
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
    document = read_document(text, format=FORMAT, version=VERSION, name=name, command="decopa stats")
    check_fields(document, _REQUIRED, _OPTIONAL, name)
    entries = value_of_kind(document, "selectivities", list, name)
    found: dict[str, list[Any]] = {"types": [], "aliases": [], "sub_query": []}
    for index, entry in enumerate(entries):
        _read_selectivity(entry, f"{name}: selectivities[{index}]", found)
    given_default = document.get("default_selectivity") is not None
    with _located(name):
        return Statistics(
            window_us=value_of_kind(document, "window_us", int, name),
            rates=numbers(document, "rates", name),
            type_pairs=tuple(found["types"]),
            alias_pairs=tuple(found["aliases"]),
            sub_queries=tuple(found["sub_query"]),
            filter_shares=numbers(document, "filter_shares", name),
            default_selectivity=number(document, "default_selectivity", name) if given_default else None,
            measured_for=texts(document, "measured_for", name),
            profiles=_read_profiles(document, name),
            meetings=_read_meetings(document, name),
            name=name,
        )


def _entry(subject: dict[str, Any], known: PairSelectivity | SubQuerySelectivity) -> dict[str, Any]:
    entry = {**subject, "selectivity": known.selectivity}
    if known.standard_error:
        entry["standard_error"] = known.standard_error
    return entry


def _read_profiles(document: dict[str, Any], name: str) -> dict[str, RateProfile]:
    entries: dict[str, Any] = value_of_kind(document, "profiles", dict, name) if "profiles" in document else {}
    found = {}
    for event_type in entries:
        where = f"{name}: profiles: '{event_type}'"
        entry = value_of_kind(entries, event_type, dict, f"{name}: profiles")
        check_fields(entry, _PROFILE, (), where)
        with _located(where):
            found[event_type] = RateProfile(**{field: number(entry, field, where) for field in _PROFILE})
    return found


def _read_meetings(document: dict[str, Any], name: str) -> dict[Pair, float]:
    entries = value_of_kind(document, "meetings", list, name) if "meetings" in document else []
    found: dict[Pair, float] = {}
    for index, entry in enumerate(entries):
        where = f"{name}: meetings[{index}]"
        if not isinstance(entry, dict):
            fail(where, f"must be an object, got {kind_of(entry)}")
        check_fields(entry, ("types", "times"), (), where)
        types = texts(entry, "types", where)
        if len(types) != 2:
            fail(where, f"'types' must be two names, got {len(types)}")
        first, second = types
        if found.setdefault((first, second), value := number(entry, "times", where)) != value:
            fail(where, f"{second} after {first} is there twice, with different numbers; keep one")
    return found


def _read_selectivity(entry: Any, where: str, found: dict[str, list[Any]]) -> None:
    """Adds the entry to what was found for its kind of subject."""
    if not isinstance(entry, dict):
        fail(where, f"must be an object, got {kind_of(entry)}")
    subjects = [name for name in found if name in entry]
    if len(subjects) != 1:
        fail(where, 'needs one of "types", "aliases" and "sub_query", as in {"types": ["A", "B"], "selectivity": 0.1}')
    (subject,) = subjects
    check_fields(entry, (subject, "selectivity"), ("standard_error",), where)
    value = number(entry, "selectivity", where)
    error = number(entry, "standard_error", where) if "standard_error" in entry else 0.0
    with _located(where):
        if subject == "sub_query":
            found[subject].append(SubQuerySelectivity(value_of_kind(entry, subject, str, where), value, error))
            return
        names = texts(entry, subject, where)
        if len(names) != 2:
            fail(where, f"'{subject}' must be two names, got {len(names)}")
        found[subject].append(PairSelectivity(*names, value, error))


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Puts the place into errors that do not know it."""
    try:
        yield
    except StatisticsError as err:
        if where in str(err):
            raise
        raise StatisticsError(f"{where}: {err}") from err
